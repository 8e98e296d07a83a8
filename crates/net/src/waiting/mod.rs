//! How to wait for what comes soon: spin for it, let others run and look again, or sleep in the kernel.
//!
//! A wake-up between processors is the largest cost of a call: tens of microseconds, where a spinning
//! hand-over takes a fraction of one. But spinning uses a processor, and when the other end needs that
//! very processor, it waits for a whole time slice (8 ms). So [`Wait`] decides before each wait, from
//! what is known:
//!
//! - what a wake-up costs here: [`MachineCosts`], measured once per process;
//! - whether both ends can run at once, exchanged at bind: [`Placement`];
//! - how many threads of this process are waiting now: [`ActiveWaiters`];
//! - how long this lane's waits were lately.
//!
//! Where both ends share a processor, what is looked for in memory can be waited for by [`Yielding`].
//!
//! A lane keeps a `Wait` and its membership in the waiters, and waits for a result like this:
//!
//! ```
//! use stoop_net::clock::now_ns;
//! use stoop_net::udp::{CallerArrival, CallerSocket};
//! use stoop_net::waiting::{WaiterSlot, Wait};
//!
//! fn wait_for_result(
//!     socket: &CallerSocket,
//!     wait: &mut Wait,
//!     waiters: &WaiterSlot<'_>,
//!     packet: &mut [u8],
//!     retransmit_after_ns: u64,
//! ) -> std::io::Result<CallerArrival> {
//!     let _present = waiters.wait();
//!     wait.begin(now_ns(), waiters.waiting());
//!     let arrival = loop {
//!         let now = now_ns();
//!         if !wait.keeps_spinning(now, waiters.waiting()) {
//!             wait.sleeps(now);
//!             break socket.recv_within(packet, retransmit_after_ns)?;
//!         }
//!         match socket.recv(packet)? {
//!             CallerArrival::Nothing => {}
//!             arrival => break arrival,
//!         }
//!     };
//!     if arrival != CallerArrival::Nothing {
//!         wait.arrived(now_ns());
//!     }
//!     Ok(arrival)
//! }
//! # use stoop_net::{host::HostFacts, udp::{Patience, ServerArrival, ServerSocket}};
//! # use stoop_net::waiting::{Placement, ActiveWaiters, MachineCosts, Waiting};
//! # let server = ServerSocket::bind("127.0.0.1:0".parse().unwrap())?;
//! # let caller = CallerSocket::connect(server.local_addr()?)?;
//! # caller.send(b"call")?;
//! # let ServerArrival::Datagram { peer, .. } = server.recv(&mut [0; 8], Patience::Block)? else { panic!() };
//! # server.send(b"result", &peer)?;
//! # let facts = HostFacts::gather();
//! # let mut wait = Wait::new(Waiting::Adaptive, MachineCosts::of_this_machine(), Placement::of(&facts, &facts));
//! # let waiters = ActiveWaiters::of_this_process().member();
//! # let arrival = wait_for_result(&caller, &mut wait, &waiters, &mut [0; 8], 1_000_000_000)?;
//! # assert_eq!(arrival, CallerArrival::Datagram(6));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A server waits for the next call in the same way, and drops its presence before it sleeps.

mod adaptive;
mod costs;
mod waiters;
mod yielding;

pub use adaptive::{Placement, Wait, WaitCounts};
pub use costs::MachineCosts;
pub use waiters::{ActiveWaiters, WaitGuard, WaiterSlot};
pub use yielding::Yielding;

/// How an end of a binding waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// Spin for a bounded time while what is waited for is likely to come soon, then sleep in the kernel.
    #[default]
    Adaptive,
    /// Spin for ever. For ends that each own a processor; when they share one, a call takes milliseconds. Only while more
    /// threads of the process wait than there are processors for them, those that have waited for a millisecond sleep.
    Spin,
    /// Sleep at once. The least processor time, and right when many callers share few processors.
    Block,
}
