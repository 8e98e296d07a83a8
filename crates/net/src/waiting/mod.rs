//! Waiting for events that come soon: spin, let other threads run between two looks, or sleep in the kernel.
//!
//! A wake-up between processors is the largest cost of a call: tens of microseconds, where a spinning
//! hand-over takes a fraction of one. But spinning uses a processor. When the other end needs that very
//! processor, it waits for a whole time slice (4 ms). So a [`Waiter`] decides before each wait, from what
//! is known:
//!
//! - what a wake-up costs here: [`MachineCosts`], measured once per process;
//! - whether both ends can run at once, exchanged at bind: [`Placement`];
//! - how many threads of this process are waiting now: [`ActiveWaiters`];
//! - how long this lane's waits were lately: [`Wait`];
//! - on a processor that both ends share, what was gained and lost by letting others run: [`Yielding`].
//!
//! Each lane of a caller and each worker of a server has a waiter, and waits like this:
//!
//! ```
//! use stoop_net::clock::now_ns;
//! use stoop_net::udp::{CallerArrival, CallerSocket};
//! use stoop_net::waiting::Waiter;
//!
//! fn wait_for_result(
//!     socket: &CallerSocket,
//!     waiter: &mut Waiter,
//!     packet: &mut [u8],
//!     deadline_ns: u64,
//! ) -> std::io::Result<Option<usize>> {
//!     let mut clock_ns = now_ns();
//!     let mut wait = waiter.begin(clock_ns);
//!     while clock_ns < deadline_ns {
//!         let arrival = match wait.sleeps() {
//!             true => socket.recv_within(packet, deadline_ns - clock_ns)?,
//!             false => socket.recv(packet)?,
//!         };
//!         clock_ns = now_ns();
//!         if let CallerArrival::Datagram(len) = arrival {
//!             waiter.arrived(&wait, clock_ns);
//!             return Ok(Some(len));
//!         }
//!         waiter.go_on(&mut wait, clock_ns);
//!     }
//!     Ok(None)
//! }
//! # use stoop_net::{host::HostFacts, udp::{Patience, ServerArrival, ServerSocket}};
//! # use stoop_net::waiting::{Placement, Waiting};
//! # let server = ServerSocket::bind("127.0.0.1:0".parse().unwrap())?;
//! # let caller = CallerSocket::connect(server.local_addr()?)?;
//! # caller.send(b"call")?;
//! # let ServerArrival::Datagram { peer, .. } = server.recv(&mut [0; 8], Patience::Block)? else { panic!() };
//! # server.send(b"result", &peer)?;
//! # let facts = HostFacts::gather();
//! # let mut waiter = Waiter::new(Waiting::Adaptive, Placement::of(&facts, &facts));
//! # let len = wait_for_result(&caller, &mut waiter, &mut [0; 8], now_ns() + 1_000_000_000)?;
//! # assert_eq!(len, Some(6));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A thread that looks for its result in memory uses [`Waiter::begin_in_memory`] and [`Waiter::pause`]
//! instead of `begin` and `go_on`. A server [uncounts](OngoingWait::uncount) its thread before it sleeps.

mod adaptive;
mod costs;
mod waiter;
mod waiters;
mod yielding;

pub use adaptive::{Placement, Wait, WaitCounts};
pub use costs::MachineCosts;
pub use waiter::{OngoingWait, Waiter};
pub use waiters::{ActiveWaiters, WaitGuard, WaiterSlot};
pub use yielding::Yielding;

/// The way in which an end of a binding waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Waiting {
    /// Spin for a bounded time while what is waited for is likely to come soon, then sleep in the kernel.
    #[default]
    Adaptive,
    /// Spin for ever. For ends that each own a processor; when they share one, a call takes milliseconds. Over shared memory each end
    /// knows where the other runs, and while they share a processor waits as with `Adaptive`. While more threads of the process wait
    /// than there are processors for them, those that have waited for a millisecond sleep.
    Spin,
    /// Sleep at once. The least processor time, and right when many callers share few processors.
    Block,
}
