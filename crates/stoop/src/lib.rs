//! Remote procedure calls so fast that nobody is tempted to write a special protocol instead.
//!
//! An interface is a trait. The transport is chosen when the client binds: a call through the trait to a server of this process, memory
//! shared with a server on this machine, packet exchange over UDP, or a byte stream over TCP or a Unix socket.
//!
//! ```
//! use stoop::Server;
//!
//! #[stoop::interface]
//! pub trait Greeter {
//!     /// Greets whoever calls.
//!     fn greet(&self, name: &str) -> String;
//! }
//!
//! struct English;
//!
//! impl Greeter for English {
//!     fn greet(&self, name: &str) -> String {
//!         format!("Hello, {name}!")
//!     }
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::new().export(GreeterServer::new(English)).listen("udp://127.0.0.1:0")?.start()?;
//!
//!     let greeter = GreeterClient::bind(&server.uris()[0])?;
//!     assert_eq!(greeter.greet("world")?, "Hello, world!");
//!     Ok(())
//! }
//! ```
//!
//! Every call has a deadline, which travels with it ([`BindOptions::timeout`], [`current_call`]). A call runs at most
//! once, and a [`CallError`] first says whether it ran ([`CallError::ran`]). A procedure that returns `Result<T, E>`
//! has an error of its own, apart from those of the call ([`Error`]). The module [`error`] has them all.
//!
//! [Many calls](Pending) can be in flight from one thread: `client.begin()` begins them without waiting.
//!
//! Between processes that trust each other, [a buffer](InPlace) can stay where its caller has filled it:
//!
//! ```
//! use stoop::{InPlace, Server};
//!
//! #[stoop::interface]
//! pub trait Filter {
//!     fn brighten(&self, frame: &mut InPlace<u16>, by: u16);
//! }
//!
//! struct Plain;
//!
//! impl Filter for Plain {
//!     fn brighten(&self, frame: &mut InPlace<u16>, by: u16) {
//!         for index in 0..frame.len() {
//!             frame.set(index, frame.get(index).saturating_add(by));
//!         }
//!     }
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let uri = format!("shm:filter-{}", std::process::id());
//!     let _server = Server::new().export(FilterServer::new(Plain)).listen(&uri)?.start()?;
//!
//!     let filter = FilterClient::bind(&uri)?;
//!     let mut frame = filter.in_place(640 * 480)?;
//!     frame.write(0, &[100; 640 * 480]);
//!     filter.brighten(&mut frame, 20)?;
//!     assert_eq!(frame.get(7), 120);
//!     Ok(())
//! }
//! ```
//!
//! Clients are shared by all threads of a process. In a child that it forks they bind anew, each at its first call there; calls that
//! were begun before are the parent's.

#![forbid(unsafe_code)]

mod bind;
mod buffers;
mod checksum;
mod client;
mod context;
pub mod error;
mod local;
mod offers;
mod parting;
mod pending;
mod room;
mod server;
#[doc(hidden)]
pub mod stub;
mod uri;
mod users;

pub use bind::{BindOptions, Waiting};
pub use client::{Binding, CallCounters};
pub use context::{Caller, Credentials, CurrentCall, current_call};
#[doc(inline)]
pub use error::{
    BindError, CallError, CloseError, Error, FailureCode, ListenError, Ran, RefusalCode, UnbindReason,
};
pub use pending::{Pending, wait_all, wait_any};
pub use server::{RunningServer, Server, ServerCounters};
pub use stoop_macros::{Data, interface};
/// What can travel as an argument or a result; derive it for your own types.
#[doc(inline)]
pub use stoop_marshal::Data;
#[doc(inline)]
pub use stoop_shm::{InPlace, Number};

use error::BindError as NotBound;
use stoop_exchange::binder::BindStep;
use stoop_net::host;
use stoop_net::stream::StreamAddress;
use stoop_wire::bind::{BindStatus, HostFacts};

/// Bytes of the longest message, unless the user says otherwise.
const MAX_MESSAGE: usize = 64 << 20;

/// The socket at which callers of a `shm:` address bind: a path if there is a slash in it, otherwise an abstract name that no
/// `unix:` address has.
fn shm_address(name: &str) -> StreamAddress {
    match name.strip_prefix('@').unwrap_or(name) {
        path if path.contains('/') => StreamAddress::UnixPath(path.into()),
        name => StreamAddress::UnixAbstract(format!("stoop-shm/{name}").into_bytes()),
    }
}

/// An interface as the exchange compares it.
fn bound_interface(interface: &stub::Interface) -> stoop_exchange::Interface {
    let procedure =
        |p: &stub::Procedure| stoop_exchange::Procedure { name: p.name.into(), signature: (p.signature)() };
    stoop_exchange::Interface {
        name: interface.name.into(),
        procedures: interface.procedures.iter().map(procedure).collect(),
    }
}

fn to_wire(facts: &host::HostFacts) -> HostFacts {
    HostFacts {
        boot_id: facts.boot_id,
        cpus: u16::try_from(facts.cpus).unwrap_or(u16::MAX),
        only_cpu: facts.only_cpu.and_then(|cpu| u16::try_from(cpu).ok()).unwrap_or(HostFacts::SEVERAL),
    }
}

fn from_wire(facts: &HostFacts) -> host::HostFacts {
    host::HostFacts {
        boot_id: facts.boot_id,
        cpus: facts.cpus.into(),
        only_cpu: (facts.only_cpu != HostFacts::SEVERAL).then_some(facts.only_cpu.into()),
    }
}

/// What a server that shares memory says of why it has as many bindings as it takes.
const NO_DESCRIPTORS: &str = "descriptors";
/// The same, if it may make no file as long as the memory of a binding.
const NO_FILE_LENGTH: &str = "file length";
/// The same, if others may still bind.
const NO_SHARE: &str = "share";

/// Why a bind step other than success is the end.
fn not_bound(step: BindStep, interface: &'static stub::Interface, uri: &str) -> NotBound {
    let server = uri.to_string();
    match step {
        BindStep::Mismatch { procedure, theirs } => {
            let ours = &interface.procedures[procedure];
            let (interface, procedure) = (interface.name, ours.name);
            NotBound::Mismatch { interface, procedure, ours: (ours.signature)(), theirs }
        }
        BindStep::Refused(BindStatus::NoSuchInterface, exported) => {
            NotBound::NoSuchInterface { server, interface: interface.name, exported }
        }
        BindStep::Refused(BindStatus::Full, why) if why == NO_SHARE => NotBound::Refused {
            server,
            why: "it lets your user in as a guest (Server::allow_user, Server::allow_everybody), who may have bindings for a quarter of \
                  its descriptors, and has them; drop clients that are not needed, or raise the server's limit (ulimit -n)",
        },
        BindStep::Refused(BindStatus::Full, why) if why == NO_DESCRIPTORS => NotBound::Refused {
            server,
            why: "it has as many bindings as it takes: each needs two descriptors, and its process has none left; raise its \
                  limit (ulimit -n)",
        },
        BindStep::Refused(BindStatus::Full, why) if why == NO_FILE_LENGTH => NotBound::Refused {
            server,
            why: "the memory of a binding is a file without a name, and its process may make none of that length; raise its limit \
                  (ulimit -f)",
        },
        BindStep::Refused(BindStatus::Full, _) => NotBound::Refused {
            server,
            why: "it has as many bindings as it takes; drop clients that are not needed, or share one among threads",
        },
        BindStep::Refused(BindStatus::ShuttingDown, _) => {
            NotBound::Refused { server, why: error::SHUTTING_DOWN }
        }
        BindStep::Refused(BindStatus::NotAllowed, _) => NotBound::Refused {
            server,
            why: "it serves processes of its own user only, and root's, unless Server::allow_user or Server::allow_everybody \
                  lets in others",
        },
        BindStep::OtherVersion(theirs) => {
            NotBound::OtherVersion { server, ours: stoop_wire::VERSION, theirs: theirs.iter().collect() }
        }
        BindStep::Refused(BindStatus::UnknownFlags(flags), _) => NotBound::Protocol {
            server,
            why: format!(
                "it does not know what this client requires of the binding (flags {flags:#x}); leave the option out, or build the \
                 server from a later version"
            ),
        },
        BindStep::Refused(BindStatus::Other(status), _) => NotBound::Protocol {
            server,
            why: format!("it refuses the binding for reason {status}, which this version does not know"),
        },
        BindStep::Refused(..) | BindStep::Continue | BindStep::Bound(_) => {
            NotBound::Protocol { server, why: "it answered what is no answer to a bind".into() }
        }
    }
}
