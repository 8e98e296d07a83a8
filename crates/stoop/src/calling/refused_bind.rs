//! The error that the user gets when a bind step ends without a binding.

use crate::error::{self, BindError};
use crate::interface::Interface;
use stoop_exchange::binder::BindStep;
use stoop_wire::bind::{BindStatus, UNCHECKED_FRAMES};

/// The reason, from a server that shares memory, for its limit of bindings.
pub(crate) const NO_DESCRIPTORS: &str = "descriptors";
/// The same, if it may make no file as long as the memory of a binding.
pub(crate) const NO_FILE_LENGTH: &str = "file length";
/// The same, if others may still bind.
pub(crate) const NO_SHARE: &str = "share";

/// The error for a bind step other than success.
pub(crate) fn not_bound(step: BindStep, declared: &'static Interface, uri: &str) -> BindError {
    let server = uri.to_string();
    match step {
        BindStep::Mismatch { procedure, theirs } => {
            let ours = &declared.procedures[procedure];
            let (interface, procedure) = (declared.name, ours.name);
            BindError::Mismatch { interface, procedure, ours: ours.signature(), theirs }
        }
        BindStep::Refused(BindStatus::NoSuchInterface, exported) => {
            BindError::NoSuchInterface { server, interface: declared.name, exported }
        }
        BindStep::Refused(BindStatus::Full, why) => BindError::Refused { server, why: full(&why) },
        BindStep::Refused(BindStatus::ShuttingDown, _) => {
            BindError::Refused { server, why: error::SHUTTING_DOWN }
        }
        BindStep::Refused(BindStatus::NotAllowed, _) => BindError::Refused {
            server,
            why: "it serves processes of its own user only, and root's, unless `allow_user` or `allow_everybody` of its UnixOptions or \
                  ShmOptions let in others",
        },
        BindStep::Refused(BindStatus::SealedOnly, _) => BindError::Security {
            server,
            why: "takes sealed calls only: write its key before the host in the address (udp://KEY@HOST:PORT), or give \
                  BindOptions::security; cargo feature `seal` of stoop"
                .into(),
        },
        BindStep::Refused(BindStatus::Denied, why) => BindError::Denied { server, why },
        BindStep::OtherVersion(theirs) => {
            BindError::OtherVersion { server, ours: stoop_wire::VERSION, theirs: theirs.iter().collect() }
        }
        BindStep::Refused(BindStatus::UnknownFlags(flags), _) if flags == UNCHECKED_FRAMES => {
            BindError::Refused {
                server,
                why: "it requires a checksum in each frame, and this client's address says checksum=off; leave that out, or have the \
                      server listen at an address with checksum=off, too",
            }
        }
        BindStep::Refused(BindStatus::UnknownFlags(flags), _) => BindError::Protocol {
            server,
            why: format!(
                "it does not know an option that this client requires of the binding (flags {flags:#x}); leave the option out, or build the \
                 server from a later version"
            ),
        },
        BindStep::Refused(BindStatus::Other(status), _) => BindError::Protocol {
            server,
            why: format!("it refuses the binding for reason {status}, which this version does not know"),
        },
        BindStep::Refused(..) | BindStep::Continue | BindStep::Bound(_) => BindError::Protocol {
            server,
            why: "it sent a message that is no answer to a bind request".into(),
        },
    }
}

/// Why a server has no room for the binding; `why` is the reason in its reply.
fn full(why: &str) -> &'static str {
    match why {
        NO_SHARE => {
            "your name, host or user has as many bindings as it may have there, so that others can bind: three quarters of all, and over \
             shared memory, as a guest (`ShmOptions::allow_user`, `allow_everybody`), bindings for a quarter of its \
             descriptors; drop clients that are not needed, share one among threads, or raise the server's limits \
             (`Limits::bindings`, ulimit -n)"
        }
        NO_DESCRIPTORS => {
            "it has as many bindings as it takes: each needs two descriptors, and its process has none left; raise its \
             limit (ulimit -n)"
        }
        NO_FILE_LENGTH => {
            "the memory of a binding is a file without a name, and its process may make none of that length; raise its limit \
             (ulimit -f)"
        }
        _ => {
            "it has as many bindings as it takes, of all callers or of your host; drop clients that are not needed, share one among \
             threads, or raise the server's limit (`Limits::bindings`)"
        }
    }
}
