//! Why a server refused a caller.

use core::fmt;

/// Why a credential or verifier was refused (`auth_stat`, RFC 5531 §9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuthStatus(pub u32);

impl AuthStatus {
    /// No failure.
    pub const OK: Self = Self(0);
    /// The credential is broken.
    pub const BAD_CREDENTIAL: Self = Self(1);
    /// The server does not accept the credential; the caller has to begin a new session.
    pub const REJECTED_CREDENTIAL: Self = Self(2);
    /// The verifier is broken.
    pub const BAD_VERIFIER: Self = Self(3);
    /// The verifier is expired or was replayed.
    pub const REJECTED_VERIFIER: Self = Self(4);
    /// The server wants a stronger flavor.
    pub const TOO_WEAK: Self = Self(5);
    /// The verifier of the reply was bogus. A caller's own finding.
    pub const INVALID_RESPONSE: Self = Self(6);
    /// An unknown reason.
    pub const FAILED: Self = Self(7);
    /// RPCSEC_GSS: the credential has no context (RFC 2203 §5.3.3.3).
    pub const GSS_CREDENTIAL_PROBLEM: Self = Self(13);
    /// RPCSEC_GSS: the context has expired (RFC 2203 §5.3.3.3).
    pub const GSS_CONTEXT_PROBLEM: Self = Self(14);
}

impl fmt::Display for AuthStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::OK => "no authentication failure",
            Self::BAD_CREDENTIAL => "the server found the credential broken",
            Self::REJECTED_CREDENTIAL => "the server does not accept the credential",
            Self::BAD_VERIFIER => "the server found the verifier broken",
            Self::REJECTED_VERIFIER => "the verifier is expired or replayed",
            Self::TOO_WEAK => "the server wants stronger authentication",
            Self::INVALID_RESPONSE => "the verifier of the reply is bogus",
            Self::FAILED => "authentication failed for an unknown reason",
            Self::GSS_CREDENTIAL_PROBLEM => "the server has no security context for the credential",
            Self::GSS_CONTEXT_PROBLEM => "the security context has expired",
            Self(other) => return write!(f, "authentication failed with status {other}"),
        })
    }
}
