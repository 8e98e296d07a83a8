//! The account of a program's own calls: histograms of every call, and of each slow call which part of it was slow.
//!
//! A binding keeps an account if [`BindOptions::account`](crate::BindOptions::account) says so, and
//! [`Binding::account`](crate::Binding::account) reads it. For each procedure it has three histograms: of the whole call, of the time
//! that the call spent at the server, and of the rest, which are the network, both kernels and the wake-ups of threads. Each result tells
//! its caller how long the call was at the server, so that no clocks need to agree.
//!
//! A server keeps an account if [`Server::account`](crate::Server::account) says so: of each procedure and each caller, how long the
//! procedures ran. Every server tells its account to callers by the interface [`StoopAccount`]; `stoop top` shows it.
//!
//! ```
//! use stoop::account::AccountOptions;
//! use stoop::{BindOptions, Server};
//!
//! # #[stoop::interface] trait Store { fn get(&self, key: u32) -> u32; }
//! # struct Disk;
//! # impl Store for Disk { fn get(&self, key: u32) -> u32 { key } }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::new().export(StoreServer::new(Disk)).listen("udp://127.0.0.1:0")?;
//! let server = server.account(AccountOptions::new()).start()?;
//! let store = StoreClient::bind_with(&server.uris()[0], &BindOptions::new().account(AccountOptions::new()))?;
//! for key in 0..100 {
//!     store.get(key)?;
//! }
//! let account = store.binding().account();
//! let get = account.procedure("get").expect("it was called");
//! println!("median {:?}, at the server {:?}", get.whole.quantile(0.5), get.server.quantile(0.5));
//! assert_eq!(get.whole.count(), 100);
//! print!("{}", account.prometheus());
//! # Ok(())
//! # }
//! ```
//!
//! Over networks and Unix sockets every call is recorded, over shared memory [one in so many](AccountOptions::shm_share), because
//! reading the clock would take a tenth of such a call. Calls through `local:` and Sun RPC, and calls that were begun over shared memory,
//! are not recorded.
//!
//! Of procedures with pipes it has how many items were sent and received, and how long programs waited for room and for items; over shared
//! memory, too.
//!
//! With the cargo feature `opentelemetry`, `AccountOptions::spans` makes spans of slow calls, of failed ones and of a share of the
//! others, at the caller and at the server.
//!
//! With the cargo feature `account`, `AccountOptions::steps_share` takes one call in so many apart into its
//! [steps](crate::account::ProcedureSteps), at the caller or at the server.

pub(crate) mod calls;
mod growth;
mod histogram;
mod options;
mod peers;
mod piped;
mod prometheus;
#[cfg(feature = "account")]
mod sampled;
#[cfg(not(feature = "account"))]
#[path = "without_samples.rs"]
mod sampled;
pub(crate) mod served;
pub(crate) mod slow;
#[cfg(feature = "opentelemetry")]
pub(crate) mod spans;
#[cfg(not(feature = "opentelemetry"))]
#[path = "without_spans.rs"]
pub(crate) mod spans;
mod steps;
pub(crate) mod tell;
mod times;

pub use crate::account::calls::{CallAccount, CalledProcedure};
pub use crate::account::histogram::Histogram;
pub use crate::account::options::AccountOptions;
pub use crate::account::peers::CallingPeer;
pub use crate::account::piped::PipedItems;
pub use crate::account::prometheus::counters_for_prometheus;
pub use crate::account::served::{ServedProcedure, ServerAccount};
pub use crate::account::slow::{Part, SlowCall};
pub use crate::account::steps::{ProcedureSteps, Step};
#[doc(no_inline)]
pub use crate::account::tell::{StoopAccount, StoopAccountClient};
