//! The decision before each wait: how long to spin before sleeping.
//!
//! Plain arithmetic on numbers handed in: no clock, no system call, no atomics; a few nanoseconds a call.

use super::{MachineCosts, Waiting};
use crate::host::{self, HostFacts};

/// With whom an end shares the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Both ends can run at the same time ([`host::can_run_together`]).
    pub together: bool,
    /// Most threads of this process that can wait without sharing processors. More are
    /// *oversubscribed*: a thread that spins keeps another from running.
    pub waiting_max: u32,
}

impl Placement {
    /// From the facts that both ends told when they bound.
    ///
    /// A peer on the same kernel needs a processor of its own, unless it is bound to one that this
    /// process does not use.
    pub fn of(own: &HostFacts, peer: &HostFacts) -> Self {
        let elsewhere = peer.only_cpu.is_some() && own.only_cpu.is_some() && peer.only_cpu != own.only_cpu;
        let left_to_peer = u32::from(own.shares_kernel_with(peer) && !elsewhere);
        Self {
            together: host::can_run_together(own, peer),
            waiting_max: own.cpus.saturating_sub(left_to_peer).max(1),
        }
    }
}

/// One lane's (or endpoint's) way of waiting: for the result of a call at a caller, for the next call
/// at a server.
///
/// Each wait goes: [`begin`](Self::begin); while [`keeps_spinning`](Self::keeps_spinning), look; if
/// nothing came, [`sleeps`](Self::sleeps) and sleep in the kernel; [`arrived`](Self::arrived) when
/// something came. A wait that ends otherwise is just left; the next `begin` forgets it.
///
/// The adaptive rule, with *W* for the cost of a wake-up:
///
/// - Never spin when the ends cannot run together.
/// - Spin while the mean wait is below 2 *W*, and for 2 *W* at most. Without knowing the future, spinning
///   for the cost of sleeping and then sleeping costs at most twice the best choice. It is 2 *W* and not
///   1 *W* because of the other end: while it sleeps between two calls, its own wake-up is part of our
///   wait, and two ends that both sleep must find out that neither needs to.
/// - While the threads of this process are oversubscribed, 20 µs stand for 2 *W*: a thread that expects
///   its result sooner than a switch to another thread and back takes keeps the processor.
/// - The mean counts each wait as twice the longest spin at most, which is 4 *W* or 40 µs, so that a rare long call does not hide that most
///   are short, and so that the time in which the kernel ran other threads of an oversubscribed process does not hide it either. It counts
///   a wait that ended in its spin as no longer than the spin may last: the kernel stopped the thread for the rest.
/// - When a spin ran out and then, once asleep, the wait ended within *W*/2, the peer had needed our
///   processor (across processors it would have taken *W*): sleep for a number of waits that doubles each
///   time up to 1024, and is forgotten when a spin succeeds. A wait that ends at once where it was to sleep counts as one that spun.
/// - While the mean forbids spinning, every 64th wait spins anyway; when that finds something, the mean
///   starts from there.
#[derive(Clone, Debug)]
pub struct Wait {
    waiting: Waiting,
    placement: Placement,
    wake_up_ns: u64,
    mean_ns: u64,
    /// Longest spin of the last wait that could spin.
    limit_ns: u64,
    /// Waits still to sleep at once, because the processor seems to be shared.
    hold_off: u32,
    /// Value of `hold_off` after the next such sign.
    hold_off_next: u32,
    /// Waits forbidden by the mean since the last trial.
    untried: u32,
    began_ns: u64,
    spin_until_ns: u64,
    slept_ns: Option<u64>,
    counts: WaitCounts,
}

/// Number of waits of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCounts {
    /// Waits that ended while spinning: the fast path.
    pub spun: u64,
    /// Waits that slept after spinning in vain.
    pub spun_then_slept: u64,
    /// Waits that slept at once.
    pub slept: u64,
}

/// Weight of the newest wait in the mean: one in this many.
const MEAN_OF: u64 = 4;
const HOLD_OFF_MAX: u32 = 1024;
/// A wait that ends sooner after its spin was never asleep: what it waited for had come while the kernel ran another thread in this one's
/// place. A switch to the peer and back takes longer.
const LEAST_SLEEP_NS: u64 = 1_500;
const TRIAL_EVERY: u32 = 64;
/// Spin time of an oversubscribed thread: longer than the peer takes to wake another thread. If it is shorter, each thread that sleeps
/// makes the next one sleep, too; if it is longer, a thread spins while another one has its result. Calls of Null() per second of eight
/// callers on one processor, by those of one caller; medians of five to ten processes:
///
/// | spin time | packet rings | AF_XDP |
/// |---|---|---|
/// | 20 µs | 0.95 | 0.97 |
/// | 50 µs | 0.95 | 0.94 |
/// | 100 µs | 0.90 | 0.86 |
const OVERSUBSCRIBED_SPIN_NS: u64 = 20_000;
/// Spin time of [`Waiting::Spin`] in an oversubscribed thread. Each runs for a time slice (4 ms) in
/// turn: without this limit one of many would see its deadline hundreds of milliseconds late.
const OVERSUBSCRIBED_SPIN_MAX_NS: u64 = 1_000_000;

impl Wait {
    /// A wait that knows nothing yet of this lane, and begins by spinning if it may.
    pub fn new(waiting: Waiting, costs: MachineCosts, placement: Placement) -> Self {
        Self {
            waiting,
            placement,
            // Spinning shorter than a few looks would be no spinning.
            wake_up_ns: costs.wake_up_ns.max(2 * costs.spin_pass_ns),
            mean_ns: 0,
            limit_ns: 0,
            hold_off: 0,
            hold_off_next: 1,
            untried: 0,
            began_ns: 0,
            spin_until_ns: 0,
            slept_ns: None,
            counts: WaitCounts::default(),
        }
    }

    /// Takes note that the peer is another one.
    pub fn set_placement(&mut self, placement: Placement) {
        self.placement = placement;
    }

    /// Takes note that one of the two ends has changed its processor.
    #[inline]
    pub fn set_together(&mut self, together: bool) {
        self.placement.together = together;
    }

    /// A wait begins at `now_ns`. Returns how long to spin, in nanoseconds: 0 to sleep at once, `u64::MAX`
    /// for ever. `waiting` is how many threads of this process wait, this one included
    /// ([`ActiveWaiters::waiting`](super::ActiveWaiters::waiting), once it is counted).
    #[inline]
    pub fn begin(&mut self, now_ns: u64, waiting: u32) -> u64 {
        let spin_ns = match self.waiting {
            Waiting::Block => 0,
            Waiting::Spin => u64::MAX,
            Waiting::Adaptive if !self.placement.together => 0,
            Waiting::Adaptive => self.adaptive_spin_ns(self.spin_limit_ns(waiting)),
        };
        self.began_ns = now_ns;
        self.spin_until_ns = now_ns.saturating_add(spin_ns);
        self.slept_ns = None;
        spin_ns
    }

    #[inline]
    fn adaptive_spin_ns(&mut self, limit_ns: u64) -> u64 {
        self.limit_ns = limit_ns;
        if self.hold_off > 0 {
            self.hold_off -= 1;
            return 0;
        }
        if self.mean_ns < limit_ns {
            return limit_ns;
        }
        self.untried += 1;
        if self.untried < TRIAL_EVERY {
            return 0;
        }
        self.untried = 0;
        limit_ns
    }

    /// Longest adaptive spin.
    #[inline]
    fn spin_limit_ns(&self, waiting: u32) -> u64 {
        match self.is_oversubscribed(waiting) {
            true => OVERSUBSCRIBED_SPIN_NS,
            false => 2 * self.wake_up_ns,
        }
    }

    #[inline]
    fn is_oversubscribed(&self, waiting: u32) -> bool {
        waiting > self.placement.waiting_max
    }

    /// Whether the thread would spin for a result that the other end cannot write meanwhile, for a time slice of the scheduler.
    #[inline]
    pub fn spins_in_vain(&self) -> bool {
        self.waiting == Waiting::Spin && !self.placement.together
    }

    /// Whether to try [`Yielding`](super::Yielding) before sleeping: the ends share a processor, and no other thread of this process waits.
    #[inline]
    pub fn may_yield(&self, waiting: u32) -> bool {
        self.waiting != Waiting::Block && !self.placement.together && !self.is_oversubscribed(waiting)
    }

    /// Whether to look once more before sleeping. `waiting` as in [`begin`](Self::begin): other threads
    /// that begin to wait can end the spin.
    #[inline]
    pub fn keeps_spinning(&self, now_ns: u64, waiting: u32) -> bool {
        now_ns < self.spin_until_ns
            && (!self.is_oversubscribed(waiting) || self.keeps_spinning_oversubscribed(now_ns))
    }

    #[cold]
    fn keeps_spinning_oversubscribed(&self, now_ns: u64) -> bool {
        let limit_ns = match self.waiting {
            Waiting::Spin => OVERSUBSCRIBED_SPIN_MAX_NS,
            _ => OVERSUBSCRIBED_SPIN_NS,
        };
        now_ns.saturating_sub(self.began_ns) < limit_ns
    }

    /// The thread goes to sleep at `now_ns`. Said again within one wait (after a retransmission), it
    /// changes nothing.
    #[inline]
    pub fn sleeps(&mut self, now_ns: u64) {
        self.slept_ns.get_or_insert(now_ns);
    }

    /// The wait succeeded at `now_ns`, as the thread that waited saw it.
    #[inline]
    pub fn arrived(&mut self, now_ns: u64) {
        let waited_ns = now_ns.saturating_sub(self.began_ns);
        match self.slept_ns {
            None => self.arrived_while_spinning(waited_ns),
            // It always sleeps at once, whatever the mean.
            Some(_) if self.waiting == Waiting::Block => self.counts.slept += 1,
            Some(slept_ns) => self.arrived_asleep(waited_ns, now_ns.saturating_sub(slept_ns)),
        }
    }

    /// No wait was [begun](Self::begin), because the result was there at once or very soon.
    #[inline]
    pub fn came_at_once(&mut self) {
        self.counts.spun += 1;
        self.follow(0);
    }

    #[inline]
    fn arrived_while_spinning(&mut self, waited_ns: u64) {
        self.counts.spun += 1;
        self.hold_off_next = 1;
        let limit_ns = self.spin_until_ns - self.began_ns;
        let waited_ns = waited_ns.min(limit_ns);
        // After a successful trial the old mean, of waits that slept, counts no more.
        if self.mean_ns >= limit_ns {
            self.mean_ns = waited_ns;
        }
        self.follow(waited_ns);
    }

    #[cold]
    fn arrived_asleep(&mut self, waited_ns: u64, asleep_ns: u64) {
        let spun = self.spin_until_ns > self.began_ns;
        let ran_out = spun && self.slept_ns >= Some(self.spin_until_ns);
        if ran_out && asleep_ns < LEAST_SLEEP_NS {
            return self.arrived_while_spinning(waited_ns);
        }
        match spun {
            true => self.counts.spun_then_slept += 1,
            false => self.counts.slept += 1,
        }
        if ran_out && asleep_ns < self.wake_up_ns / 2 {
            self.hold_off = self.hold_off_next;
            self.hold_off_next = (2 * self.hold_off_next).min(HOLD_OFF_MAX);
        } else if asleep_ns >= self.wake_up_ns {
            // As long as a wake-up from another processor: perhaps it is shared no more.
            self.hold_off /= 2;
        }
        self.follow(waited_ns.saturating_sub(self.wake_up_ns));
    }

    /// Brings one more wait, without its own wake-up, into the mean.
    #[inline]
    fn follow(&mut self, waited_ns: u64) {
        let waited_ns = waited_ns.min(2 * self.limit_ns);
        self.mean_ns = (self.mean_ns * (MEAN_OF - 1) + waited_ns) / MEAN_OF;
    }

    /// When the last wait began, in nanoseconds.
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Number of waits of each kind so far.
    pub fn counts(&self) -> WaitCounts {
        self.counts
    }

    /// The mean of the last few waits without the wake-up, in nanoseconds, each counted as twice the longest
    /// spin at most.
    pub fn mean_ns(&self) -> u64 {
        self.mean_ns
    }
}

#[cfg(test)]
mod tests;
