//! Why a call over Sun RPC gave no result, as its server or its reply says.

use crate::error::Ran;
use std::fmt;
use stoop_onc::auth::AuthStatus;
use stoop_onc::message::VersionRange;
use stoop_onc::outcome::Ending;
use stoop_xdr::DecodeError;
/// Why arguments have no XDR form.
pub use stoop_xdr::EncodeError as XdrError;

/// Why a server of Sun RPC gave no result, or none that makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SunError {
    /// The reason.
    pub fault: SunFault,
    /// Times that the call was sent. After more than one, an earlier transmission may have run although the server refused the last:
    /// Sun RPC does not tell.
    pub transmissions: u32,
}

/// The error that a server of Sun RPC replied, or the fault in its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SunFault {
    /// The server does not have the program (PROG_UNAVAIL).
    ProgramUnavailable,
    /// The server has other versions of the program (PROG_MISMATCH).
    VersionUnavailable {
        /// The version that was called.
        asked: u32,
        /// The lowest and the highest version that the server has. Versions between them may be missing.
        range: VersionRange,
    },
    /// The version of the program does not have the procedure (PROC_UNAVAIL).
    ProcedureUnavailable,
    /// The server could not decode the arguments (GARBAGE_ARGS).
    BadArguments,
    /// The server speaks other versions of the message protocol (RPC_MISMATCH).
    RpcVersion(VersionRange),
    /// The server did not accept the credential or the verifier (AUTH_ERROR).
    Denied(AuthStatus),
    /// The server failed (SYSTEM_ERR). The procedure may have run.
    SystemError,
    /// The reply is broken. The procedure may have run.
    BadReply(DecodeError),
    /// The verifier of the reply is not the one that the credential demands. The procedure may have run.
    BadVerifier,
    /// The procedure ran, as the server says, and its result is no value of the type expected.
    BadResult(DecodeError),
}

impl SunError {
    /// Whether the procedure ran.
    ///
    /// A refusal means that the call did not run, if it was sent once: over TCP and Unix sockets always. Over UDP a call that was
    /// sent again may have run before the server refused it.
    pub fn ran(&self) -> Ran {
        let ending = match self.fault {
            SunFault::SystemError
            | SunFault::BadReply(_)
            | SunFault::BadVerifier
            | SunFault::BadResult(_) => Ending::Failed,
            _ => Ending::Refused,
        };
        if ending.did_not_run(self.transmissions) { Ran::No } else { Ran::Perhaps }
    }
}

impl fmt::Display for SunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.ran(), self.fault) {
            (Ran::No, fault) => write!(f, "refused, so the procedure did not run: {fault}"),
            (_, SunFault::BadResult(_)) => {
                write!(f, "the procedure ran, but there is no result: {}", self.fault)
            }
            (_, fault) => {
                write!(f, "it is not known whether the procedure ran: {fault}")?;
                if self.transmissions > 1 {
                    write!(f, " (sent {} times)", self.transmissions)?;
                }
                f.write_str("; call again only if it may run twice")
            }
        }
    }
}

impl fmt::Display for SunFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProgramUnavailable => {
                f.write_str("the server does not have the program; is it the right address, and is the program registered?")
            }
            Self::VersionUnavailable { asked, range: VersionRange { low, high } } if low == high => {
                write!(f, "the server does not have version {asked} of the program, but version {low}; bind to that one")
            }
            Self::VersionUnavailable { asked, range: VersionRange { low, high } } => write!(
                f,
                "the server does not have version {asked} of the program: its lowest is {low} and its highest {high}, and versions \
                 between them may be missing; bind to one that it has (`rpcinfo -p HOST` lists what is registered)"
            ),
            Self::ProcedureUnavailable => {
                f.write_str("the program does not have the procedure; build both ends from the same interface")
            }
            Self::BadArguments => {
                f.write_str("the server could not decode the arguments; build both ends from the same interface")
            }
            Self::RpcVersion(VersionRange { low, high }) => {
                write!(f, "the server speaks versions {low} to {high} of the message protocol, and this client version 2")
            }
            Self::Denied(AuthStatus::TOO_WEAK) => write!(
                f,
                "{}; call with a credential that it accepts, or under TLS if it requires that (`Security`, at onc+tcp://)",
                AuthStatus::TOO_WEAK
            ),
            Self::Denied(status) => write!(f, "{status}; call with a credential that it accepts"),
            Self::SystemError => f.write_str("the server reports an error of its own"),
            Self::BadReply(why) => write!(f, "the server broke the protocol: its reply cannot be decoded ({why})"),
            Self::BadVerifier => f.write_str("the verifier of the reply is not the one that the credential demands"),
            Self::BadResult(why) => write!(
                f,
                "it is no value of the type expected ({why}); build both ends from the same interface"
            ),
        }
    }
}

impl std::error::Error for SunError {}
