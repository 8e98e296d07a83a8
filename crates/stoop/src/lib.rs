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
//! # Where to begin
//!
//! | to | see |
//! |---|---|
//! | declare an interface: types, OUT arguments, `#[one_way]`, `#[idempotent]` | [`interface`](macro@interface), [`Data`] |
//! | serve it, shut down, restart | [`Server`], [`RunningServer`], [`Limits`] |
//! | bind: time limits, waiting for servers, retries, options of transports | [`BindOptions`], [`Binding`] |
//! | make many calls from one thread | [`Pending`], [`wait_all`], [`wait_any`] |
//! | call and serve in tasks, on any runtime or none | `client.to_async()`, [`Task`], [`Server::executor`] |
//! | answer later, while no thread waits | [`Deferred`], [`Reply`] |
//! | know who calls, by when, and whether it still waits | [`current_call`], [`CurrentCall`], [`Caller`] |
//! | know what went wrong, and whether the procedure ran | [`CallError`], [`Error`], [`error`](mod@error) |
//! | send and receive many items in one call (pipes) | [`Sender`], [`Receiver`] |
//! | let a server call its clients back | [`BindOptions::callback`] |
//! | share large buffers between processes | [`InPlace`], [`ShmOptions`] |
//! | run code around each call | [`intercept`] |
//! | send pairs beside arguments and results; carry traces on | [`Metadata`], [`TraceParent`] |
//! | encrypt calls, and know the other end by its key | [`Security`], the cargo feature `seal` |
//! | call what is known at run time only | [`dynamic`], [`reflection`] |
//! | watch a running server | [`health`], [`account`], [`ServerCounters`] |
#![cfg_attr(feature = "onc", doc = "| call and serve programs of Sun RPC | [`onc`], [`xdr`] |")]
#![cfg_attr(not(feature = "onc"), doc = "| call and serve programs of Sun RPC | the cargo feature `onc` |")]
//!
//! # Addresses
//!
//! | address | transport |
//! |---|---|
//! | `local:NAME` | a server of the same process: a call through the trait |
//! | `shm:NAME`, `shm:/PATH` | memory shared with a server of the same machine |
//! | `unix:PATH`, `unix:@NAME` | a byte stream on the same machine |
//! | `udp://HOST:PORT` | packet exchange: a packet there and one back |
//! | `tcp://HOST:PORT` | a byte stream: one connection for all threads |
//! | `ether://INTERFACE/NAME`, `ether://INTERFACE/MAC:PORT` | packet exchange in Ethernet frames (feature `ether`) |
//! | `onc+udp://HOST`, `onc+tcp://HOST`, `onc+unix:PATH` | Sun RPC (feature `onc`) |
//! | `NAME` | a server of this machine that listens at a name: the best of these |
//!
//! # Promises and limits
//!
//! Every call has a deadline, 30 s unless set, which travels with it ([`BindOptions::timeout`], [`current_call`]). A call runs at most
//! once, and a [`CallError`] first says whether it ran ([`CallError::ran`]). A procedure that returns `Result<T, E>`
//! has an error of its own, apart from those of the call ([`Error`]). The module [`error`](mod@error) has them all.
//!
//! - Arguments and results have up to 64 MiB each, unless [`BindOptions::max_message`] and [`Server::max_message`] say otherwise.
//! - A server runs 64 calls at a time and queues 1,024 ([`Server::workers`]); what it cannot do, it refuses, with a time after which to call again.
//!   What one host or user may take of a server is in [`Limits`].
//! - Client and server compare their interfaces in binding. One that is in use grows by revisions: `#[stoop::interface(revision = 2)]`,
//!   and `since` on what is added (`docs/evolution.md`).
//! - Nothing is encrypted unless both ends ask for it (feature `seal`), over UDP, TCP and Ethernet.
//! - Pipes and callbacks travel over every transport but Sun RPC.
//! - There is no name service. Systems other than Linux are not supported.
//!
//! # Cargo features
//!
//! None is on by default; the library and all that it depends on are then at most 25 crates.
//!
//! | feature | adds |
//! |---|---|
//! | `ether` | calls directly on an Ethernet |
//! | `onc` | Sun RPC: clients, servers, rpcbind, XDR, interface files |
//! | `account` | stamps at the named points of a call, for the latency account; off until switched on, some nanoseconds per call then |
//! | `opentelemetry` | recorded calls as spans |
//! | `futures` | `Stream` for [`Receiver`], and `Sink` for [`Sender`] |
//! | `seal` | sealed bindings: TLS 1.3 with pinned keys, and encrypted packets; needs a C compiler |
//!
//! # Tasks
//!
//! [Many calls](Pending) can be in flight from one thread: `client.begin()` begins them without waiting.
//! For tasks, `client.to_async()` and `GreeterAsync::bind(uri).await` give the client's asynchronous form, whose methods return futures. It
//! never blocks its thread, also while it binds, and needs no runtime. At the server, a procedure may be an `async fn`:
//!
//! ```
//! use stoop::Server;
//!
//! #[stoop::interface]
//! pub trait Adder {
//!     async fn add(&self, a: u32, b: u32) -> u32;
//! }
//!
//! struct Two;
//!
//! impl Adder for Two {
//!     async fn add(&self, a: u32, b: u32) -> u32 {
//!         a + b
//!     }
//! }
//!
//! # fn block_on<F: Future>(future: F) -> F::Output {
//! #     let mut future = std::pin::pin!(future);
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     loop {
//! #         if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) { return output }
//! #     }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
//! let uri = server.uris()[0].clone();
//! let sum = block_on(async {
//!     let adder = AdderAsync::bind(&uri).await?;
//!     let (one, other) = (adder.add(1, 2), adder.add(3, 4)); // both are on their way now
//!     Ok::<u32, Box<dyn std::error::Error>>(one.await? + other.await?)
//! })?;
//! assert_eq!(sum, 10);
//! # Ok(())
//! # }
//! ```
//!
//! # Buffers in place
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
//! # Threads and processes
//!
//! Clients are shared by all threads of a process. In a child that it forks they bind anew, each at its first call there; calls that
//! were begun before are the parent's.

#![forbid(unsafe_code)]

// The interface of `health` is made by the same macros as those of users, which name this crate.
extern crate self as stoop;

pub mod account;
mod agreed;
mod buffers;
mod callbacks;
mod calling;
mod client;
pub mod compatibility;
mod context;
pub mod dynamic;
pub mod error;
mod forms;
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
mod offered_interface;
mod offers;
#[cfg(feature = "onc")]
pub mod onc;
mod options;
mod panics;
mod pipes;
#[cfg_attr(not(feature = "onc"), path = "no_program.rs")]
mod program;
pub mod reflection;
mod security;
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
pub use crate::context::{Caller, Cancelled, Credentials, CurrentCall, Peer, Station, current_call};
pub use crate::error::MetadataError;
#[doc(inline)]
pub use crate::error::{
    BindError, CallError, CloseError, Error, FailureCode, ListenError, Ran, RefusalCode, UnbindReason,
};
pub use crate::later::deferred::{Deferred, ReplyError, deferred};
pub use crate::later::reply::Reply;
pub use crate::later::tasks::Task;
pub use crate::limits::Limits;
pub use crate::metadata::{AnswerMetadata, Metadata, TraceParent};
pub use crate::options::{BindOptions, TransportOptions, Waiting};
pub use crate::pipes::error::PipeError;
pub use crate::pipes::fed::Fed;
pub use crate::pipes::item::{InPlaceItem, Item};
pub use crate::pipes::receiver::{Received, Receiver};
pub use crate::pipes::sender::Sender;
pub use crate::pipes::window::Window;
#[cfg(feature = "seal")]
pub use crate::security::PublicKey;
pub use crate::security::Security;
pub use crate::server::{RunningServer, Server, ServerCounters};
pub use crate::serving::counters::{
    HandshakeCounters, MemoryCounters, PacketServerCounters, QueueCounters, RefusalCounters,
    ShmServerCounters,
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
