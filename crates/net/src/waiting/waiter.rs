//! One thread's way of waiting: which spins, lets others run, and sleeps, and is counted meanwhile.

use super::{
    ActiveWaiters, MachineCosts, Placement, Wait, WaitCounts, WaitGuard, WaiterSlot, Waiting, Yielding,
};
use crate::clock;
use std::thread;

/// The way in which the threads of one lane, or one worker, wait: one after the other.
///
/// A waiter decides; its owner looks and sleeps. A wait goes: [`begin`](Self::begin); then again and
/// again look, sleep if the wait says that it [`sleeps`](OngoingWait::sleeps), and
/// [`go_on`](Self::go_on); [`arrived`](Self::arrived) when the look finds something. A wait that ends
/// otherwise is dropped. What can be seen in memory may be waited for with
/// [`begin_in_memory`](Self::begin_in_memory) and [`pause`](Self::pause), which also let other threads
/// run. [The module](super) has an example.
#[derive(Debug)]
pub struct Waiter {
    wait: Wait,
    yielding: Yielding,
    /// From the first wait on: an owner that never waits is not counted.
    slot: Option<WaiterSlot<'static>>,
}

/// A wait that is not over. Its thread is counted among the waiting ones until this is dropped.
#[derive(Debug)]
#[must_use = "the thread is counted only while this is kept"]
pub struct OngoingWait {
    way: Way,
    guard: WaitGuard<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Spin,
    Yield,
    Sleep,
}

impl OngoingWait {
    /// Whether the thread spins: it looks again without a break.
    #[inline]
    pub fn spins(&self) -> bool {
        self.way == Way::Spin
    }

    /// Whether [`Waiter::pause`] lets other threads run between two looks.
    #[inline]
    pub fn yields(&self) -> bool {
        self.way == Way::Yield
    }

    /// Whether the thread is to sleep in the kernel until something comes.
    #[inline]
    pub fn sleeps(&self) -> bool {
        self.way == Way::Sleep
    }

    /// Lets other threads run if that is the way.
    #[inline]
    pub fn let_others_run(&self) {
        if self.yields() {
            thread::yield_now();
        }
    }

    /// Counts the thread no longer. A server does this before it sleeps: then it competes with no other thread.
    #[inline]
    pub fn uncount(&mut self) {
        self.guard.leave();
    }
}

impl Waiter {
    /// A waiter for an end that waits like that and whose peer runs there.
    pub fn new(waiting: Waiting, placement: Placement) -> Self {
        Self {
            wait: Wait::new(waiting, MachineCosts::of_this_machine(), placement),
            yielding: Yielding::default(),
            slot: None,
        }
    }

    /// The two ends run elsewhere from now on: the peer is another one.
    pub fn set_placement(&mut self, placement: Placement) {
        self.wait.set_placement(placement);
    }

    /// Whether the two ends can run at the same time from now on: one of them has changed its processor.
    #[inline]
    pub fn set_together(&mut self, together: bool) {
        self.wait.set_together(together);
    }

    /// A wait begins at `now_ns` for what only the kernel can tell of: the thread spins or sleeps.
    #[inline]
    pub fn begin(&mut self, now_ns: u64) -> OngoingWait {
        let guard = self.slot().wait();
        let mut wait = OngoingWait { way: Way::Spin, guard };
        self.begin_again(&mut wait, now_ns);
        wait
    }

    /// `wait` has succeeded, and another wait begins at `now_ns`.
    #[inline]
    pub fn begin_again(&mut self, wait: &mut OngoingWait, now_ns: u64) {
        let waiting = self.slot().waiting();
        wait.way = Way::Spin;
        if self.wait.begin(now_ns, waiting) == 0 {
            self.sleep(wait, now_ns);
        }
    }

    /// A wait begins at `now_ns` for something that can be seen in memory: the thread spins, lets others
    /// run between its looks, or sleeps.
    #[inline]
    pub fn begin_in_memory(&mut self, now_ns: u64) -> OngoingWait {
        let guard = self.slot().wait();
        let waiting = self.slot().waiting();
        let mut wait = OngoingWait { way: Way::Spin, guard };
        if self.wait.begin(now_ns, waiting) == 0 || self.wait.spins_in_vain() {
            match self.wait.may_yield(waiting) && self.yielding.begin(now_ns) {
                true => wait.way = Way::Yield,
                false => self.sleep(&mut wait, now_ns),
            }
        }
        wait
    }

    /// A look found nothing, and it is `now_ns`: decides whether the thread sleeps from now on.
    #[inline]
    pub fn go_on(&mut self, wait: &mut OngoingWait, now_ns: u64) {
        if wait.spins() && !self.wait.keeps_spinning(now_ns, self.waiting()) {
            self.sleep(wait, now_ns);
        }
    }

    /// A look found nothing: lets others run if that is the way, and decides whether the thread sleeps
    /// from now on. `now_ns` is the time of the last pause, or of the begin; returns the time now.
    #[inline]
    pub fn pause(&mut self, wait: &mut OngoingWait, now_ns: u64) -> u64 {
        // After a look: a result that came during a long yield is not overlooked.
        if wait.yields() && !self.yielding.goes_on(now_ns) {
            self.sleep(wait, now_ns);
        }
        wait.let_others_run();
        let now_ns = clock::now_ns();
        self.go_on(wait, now_ns);
        now_ns
    }

    #[inline]
    fn sleep(&mut self, wait: &mut OngoingWait, now_ns: u64) {
        wait.way = Way::Sleep;
        self.wait.sleeps(now_ns);
    }

    /// The wait succeeded at `now_ns`, or had succeeded when the thread last looked at the clock.
    #[inline]
    pub fn arrived(&mut self, wait: &OngoingWait, now_ns: u64) {
        if wait.yields() {
            self.yielding.arrived(now_ns);
        }
        self.wait.arrived(now_ns);
    }

    /// Some bytes of a long message have come at `now_ns`, and others are missing. Ends `wait` and begins another one for the missing bytes:
    /// the waiter learns the time between two parts of a message, which is short, and not the time that the message takes.
    pub fn part_arrived(&mut self, wait: &mut OngoingWait, now_ns: u64) {
        self.arrived(wait, now_ns);
        // It may have been uncounted.
        wait.guard = self.slot().wait();
        self.begin_again(wait, now_ns);
    }

    /// No wait began, because the result was there already.
    #[inline]
    pub fn came_at_once(&mut self) {
        self.wait.came_at_once();
    }

    /// When the last wait began, in nanoseconds.
    #[inline]
    pub fn began_ns(&self) -> u64 {
        self.wait.began_ns()
    }

    /// Number of waits of each kind so far.
    #[inline]
    pub fn counts(&self) -> WaitCounts {
        self.wait.counts()
    }

    #[inline]
    fn slot(&mut self) -> &WaiterSlot<'static> {
        self.slot.get_or_insert_with(|| ActiveWaiters::of_this_process().member())
    }

    #[inline]
    fn waiting(&self) -> u32 {
        ActiveWaiters::of_this_process().waiting()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No other test of this process makes so many threads wait.
    const MANY: u32 = 1_000_000;
    const APART: Placement = Placement { together: true, waiting_max: MANY };
    const ON_ONE_CPU: Placement = Placement { together: false, waiting_max: MANY };

    #[test]
    fn a_waiter_that_blocks_sleeps_at_once() {
        let mut waiter = Waiter::new(Waiting::Block, APART);
        assert!(waiter.begin(0).sleeps());
        assert!(waiter.begin_in_memory(0).sleeps());
    }

    #[test]
    fn a_spin_that_finds_nothing_ends_in_sleep() {
        let mut waiter = Waiter::new(Waiting::Adaptive, APART);
        let mut wait = waiter.begin(0);
        assert!(wait.spins());
        waiter.go_on(&mut wait, 1);
        assert!(wait.spins());
        waiter.go_on(&mut wait, 1_000_000);
        assert!(wait.sleeps());
        waiter.arrived(&wait, 2_000_000);
        assert_eq!(waiter.counts(), WaitCounts { spun_then_slept: 1, ..WaitCounts::default() });
    }

    #[test]
    fn ends_on_one_processor_yield_only_for_what_they_see_in_memory() {
        let mut waiter = Waiter::new(Waiting::Adaptive, ON_ONE_CPU);
        assert!(waiter.begin(0).sleeps());
        let mut wait = waiter.begin_in_memory(0);
        assert!(wait.yields());
        let now_ns = waiter.pause(&mut wait, 0);
        assert!(wait.yields() && now_ns > 0);
        waiter.pause(&mut wait, 1_000_000);
        assert!(wait.sleeps(), "a yield that took a millisecond ends yielding");
    }

    #[test]
    fn a_waiter_that_spins_yields_for_what_it_sees_in_memory_where_both_ends_share_a_processor() {
        let mut waiter = Waiter::new(Waiting::Spin, APART);
        assert!(waiter.begin(0).spins() && waiter.begin_in_memory(0).spins());
        waiter.set_together(false);
        assert!(waiter.begin_in_memory(0).yields());
        waiter.set_together(true);
        assert!(waiter.begin_in_memory(0).spins());
    }

    #[test]
    fn a_thread_spins_for_the_rest_of_what_comes_in_parts_however_long_the_whole_takes() {
        let mut waiter = Waiter::new(Waiting::Adaptive, APART);
        for whole in 1..100 {
            let begun_ns = whole * 1_000_000_000;
            let mut wait = waiter.begin(begun_ns);
            for part in 1..1000 {
                waiter.part_arrived(&mut wait, begun_ns + part * 1000);
                assert!(wait.spins());
            }
            waiter.arrived(&wait, begun_ns + 1_000_000);
        }
    }

    #[test]
    fn a_wait_may_follow_another_in_one_count_of_the_thread() {
        let mut waiter = Waiter::new(Waiting::Adaptive, APART);
        let mut wait = waiter.begin(0);
        waiter.go_on(&mut wait, 1_000_000);
        assert!(wait.sleeps());
        waiter.begin_again(&mut wait, 1_000_000);
        assert!(wait.spins());
    }
}
