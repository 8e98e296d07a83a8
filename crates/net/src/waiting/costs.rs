//! Costs of waiting on this machine, measured once per process in a few milliseconds.

use crate::Patience;
use crate::clock::now_ns;
use crate::host;
use crate::threads;
use crate::udp::ServerSocket;
use rustix::thread::futex;
use std::net::{Ipv4Addr, SocketAddr};
use std::process;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;

/// Costs of waiting on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineCosts {
    /// From one thread's waking another, asleep on another processor, until that one runs.
    pub wake_up_ns: u64,
    /// One look at an empty socket.
    pub spin_pass_ns: u64,
}

impl MachineCosts {
    /// Costs that are assumed where none can be measured: those of a virtual machine whose idle processors halt.
    pub const ASSUMED: Self = Self { wake_up_ns: 40_000, spin_pass_ns: 200 };

    /// The costs of this machine. The first call measures them, which takes two threads and 1 to 4 ms
    /// once; all others read them.
    ///
    /// A process that may use only one processor cannot measure the wake-up between two, and assumes it.
    pub fn of_this_machine() -> Self {
        static MEASURED: Measured = Measured::new();
        MEASURED.get(|| Self {
            wake_up_ns: measure_wake_up().unwrap_or(Self::ASSUMED.wake_up_ns),
            spin_pass_ns: measure_spin_pass().unwrap_or(Self::ASSUMED.spin_pass_ns),
        })
    }
}

/// Costs that one thread of a process measures. A process that was forked meanwhile measures itself: a lock would stay taken in it.
struct Measured {
    /// The process of which a thread measures; 0: none has; or [`ENDED`](Self::ENDED), for good.
    measuring: AtomicU32,
    /// 0: not measured yet.
    spin_pass_ns: AtomicU64,
    wake_up_ns: AtomicU64,
}

impl Measured {
    /// No process has this number.
    const ENDED: u32 = u32::MAX;

    const fn new() -> Self {
        let (spin_pass_ns, wake_up_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { measuring: AtomicU32::new(0), spin_pass_ns, wake_up_ns }
    }

    fn known(&self) -> Option<MachineCosts> {
        // Written last.
        let wake_up_ns = self.wake_up_ns.load(SeqCst);
        (wake_up_ns > 0).then(|| MachineCosts { wake_up_ns, spin_pass_ns: self.spin_pass_ns.load(SeqCst) })
    }

    fn get(&self, measure: impl FnOnce() -> MachineCosts) -> MachineCosts {
        loop {
            let (own, measuring) = (process::id(), self.measuring.load(SeqCst));
            if let Some(costs) = self.known() {
                return costs;
            }
            if measuring == own {
                // Returns at once if the measurement has ended meanwhile; and without reason now and then.
                let _ = futex::wait(&self.measuring, futex::Flags::PRIVATE, own, None);
            } else if self.measuring.compare_exchange(measuring, own, SeqCst, SeqCst).is_ok() {
                return self.store(measure());
            }
        }
    }

    fn store(&self, costs: MachineCosts) -> MachineCosts {
        self.spin_pass_ns.store(costs.spin_pass_ns, SeqCst);
        self.wake_up_ns.store(costs.wake_up_ns.max(1), SeqCst);
        self.measuring.store(Self::ENDED, SeqCst);
        let _ = futex::wake(&self.measuring, futex::Flags::PRIVATE, i32::MAX as u32);
        costs
    }
}

/// Round trips. Their median is steady enough for a rule that bears an error of a factor of two.
const ROUNDS: usize = 15;
/// The measurement stops after this time with the round trips that it has.
const TIME_MAX_NS: u64 = 3_000_000;
/// A figure outside these bounds was disturbed: the other processor was awake, or ran something else.
const WAKE_UP_NS: std::ops::RangeInclusive<u64> = 20_000..=200_000;

/// Half of a futex round trip between two threads on two processors; `None` with fewer of them.
fn measure_wake_up() -> Option<u64> {
    let cpus = host::allowed_cpus();
    let (&here, &there) = (cpus.first()?, cpus.get(1)?);
    let baton = Baton::default();
    let mut rounds = thread::scope(|scope| {
        threads::start_in(scope, "stoop-measure", || baton.answer_all(there)).ok()?;
        let measurer = threads::start_in(scope, "stoop-measure", || baton.measure_all(here));
        if measurer.is_err() {
            baton.hand_to(END);
        }
        measurer.ok()?.join().ok()
    })?;
    rounds.sort_unstable();
    let median = *rounds.get(rounds.len() / 2)?;
    Some((median / 2).clamp(*WAKE_UP_NS.start(), *WAKE_UP_NS.end()))
}

/// A word that says which of two threads runs; the other sleeps at it.
#[derive(Default)]
struct Baton(AtomicU32);

/// The thread that measures.
const MEASURER: u32 = 0;
/// The thread that answers.
const ANSWERER: u32 = 1;
const END: u32 = 2;

impl Baton {
    /// Measures round trips, in nanoseconds; the first, which waits for the other thread's start, is left out.
    fn measure_all(&self, cpu: u32) -> Vec<u64> {
        // Where pinning is refused, the figure is that of two threads placed by the kernel.
        let _ = host::pin_to(cpu);
        let mut rounds = Vec::with_capacity(ROUNDS);
        let began = now_ns();
        self.round_trip();
        while rounds.len() < ROUNDS && (rounds.is_empty() || now_ns() - began < TIME_MAX_NS) {
            rounds.push(self.round_trip());
        }
        self.hand_to(END);
        rounds
    }

    fn round_trip(&self) -> u64 {
        let sent = now_ns();
        self.hand_to(ANSWERER);
        self.wait_while(ANSWERER);
        now_ns() - sent
    }

    fn answer_all(&self, cpu: u32) {
        let _ = host::pin_to(cpu);
        loop {
            self.wait_while(MEASURER);
            if self.0.load(SeqCst) == END {
                return;
            }
            self.hand_to(MEASURER);
        }
    }

    fn hand_to(&self, next: u32) {
        self.0.store(next, SeqCst);
        // An error does not matter: the thread that waits looks at the word again.
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
    }

    fn wait_while(&self, present: u32) {
        while self.0.load(SeqCst) == present {
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, present, None);
        }
    }
}

/// The least mean of a few series of looks at an empty socket.
fn measure_spin_pass() -> Option<u64> {
    const SERIES: usize = 5;
    const PASSES: u64 = 32;
    let socket = ServerSocket::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)).ok()?;
    let mut buffer = [0; 64];
    let series = (0..SERIES).map(|_| {
        let began = now_ns();
        for _ in 0..PASSES {
            let _ = socket.recv(&mut buffer, Patience::DontWait);
        }
        (now_ns() - began) / PASSES
    });
    series.min().map(|pass_ns| pass_ns.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: MachineCosts = MachineCosts { wake_up_ns: 7, spin_pass_ns: 3 };

    #[test]
    fn threads_have_the_costs_measured_once() {
        for _ in 0..200 {
            let (measured, times) = (Measured::new(), AtomicU32::new(0));
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let costs = measured.get(|| {
                            times.fetch_add(1, SeqCst);
                            COSTS
                        });
                        assert_eq!(costs, COSTS);
                    });
                }
            });
            assert_eq!(times.into_inner(), 1);
        }
    }

    #[test]
    fn a_process_that_was_forked_while_its_parent_measured_does_not_wait_for_that() {
        let measured = Measured::new();
        // A thread of the parent, which the child does not have.
        measured.measuring.store(process::id() + 1, SeqCst);
        assert_eq!(measured.get(|| COSTS), COSTS);
    }

    #[test]
    fn costs_are_measured_once_and_within_bounds() {
        let costs = MachineCosts::of_this_machine();
        assert!(WAKE_UP_NS.contains(&costs.wake_up_ns), "{costs:?}");
        assert!(costs.spin_pass_ns > 0, "{costs:?}");
        assert_eq!(MachineCosts::of_this_machine(), costs);
    }

    #[test]
    fn measuring_leaves_the_threads_placement_alone() {
        let before = host::allowed_cpus();
        measure_wake_up();
        assert_eq!(host::allowed_cpus(), before);
    }

    #[test]
    fn one_processor_alone_measures_no_wake_up() {
        thread::spawn(|| {
            host::pin_to(host::allowed_cpus()[0]).unwrap();
            assert_eq!(measure_wake_up(), None);
        })
        .join()
        .unwrap();
    }
}
