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
//!     /// Returns a greeting for `name`.
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
//! For tasks, `client.to_async()` and `GreeterAsync::bind(uri).await` give the client's asynchronous form, whose methods return futures. It
//! never blocks its thread, also while it binds, and needs no runtime.
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

// The interface of `health` is made by the same macros as those of users, which name this crate.
extern crate self as stoop;

pub mod account;
mod buffers;
mod calling;
mod client;
mod context;
pub mod error;
pub mod health;
mod heap_array;
mod host_facts;
pub mod intercept;
mod interface;
mod later;
mod limits;
mod locked;
mod message_buffer;
mod metadata;
mod offers;
#[cfg(feature = "onc")]
pub mod onc;
mod options;
mod panics;
#[cfg(feature = "onc")]
mod program;
mod server;
mod serving;
#[doc(hidden)]
pub mod stub;
mod thread_number;
mod transport;
mod transports;
mod uri;
mod users;

pub use crate::calling::counters::PacketCallCounters;
pub use crate::client::pending::{Pending, wait_all, wait_any};
pub use crate::client::{Binding, CallCounters};
pub use crate::context::{Caller, Cancelled, Credentials, CurrentCall, Station, current_call};
#[doc(inline)]
pub use crate::error::{
    BindError, CallError, CloseError, Error, FailureCode, ListenError, Ran, RefusalCode, UnbindReason,
};
pub use crate::later::deferred::{Deferred, Reply, ReplyError, deferred};
pub use crate::later::tasks::Task;
pub use crate::limits::Limits;
pub use crate::metadata::{AnswerMetadata, Metadata, MetadataError, TraceParent};
pub use crate::options::{BindOptions, TransportOptions, Waiting};
pub use crate::server::{RunningServer, Server, ServerCounters};
pub use crate::serving::counters::{
    MemoryCounters, PacketServerCounters, QueueCounters, RefusalCounters, ShmServerCounters,
};
pub use crate::serving::procedures::ProcedureOptions;
pub use crate::serving::terms::Priority;
pub use crate::transport::packet::options::PacketOptions;
pub use crate::transport::shm::options::ShmOptions;
pub use crate::transport::stream::options::UnixOptions;
#[doc(hidden)]
pub use crate::transports::{free_address, scheme_names};
#[doc(inline)]
pub use stoop_exchange::retry::Retry;
pub use stoop_macros::{Data, interface};
#[cfg(feature = "onc")]
pub use stoop_macros::{Xdr, x};
/// What can travel as an argument or a result; derive it for your own types.
#[doc(inline)]
pub use stoop_marshal::Data;
#[doc(inline)]
pub use stoop_shm::{InPlace, Number};
/// The form of values in Sun RPC.
#[cfg(feature = "onc")]
#[doc(inline)]
pub use stoop_xdr as xdr;
