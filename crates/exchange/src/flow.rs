//! Flow and congestion control of a binding's calls of one packet that no thread waits for one by one: how many may be under way.
//!
//! Three things bound them: the *credit* that the server grants, so that its socket's buffer holds the calls of all its callers (eRPC,
//! NSDI 2019, §4.3); the caller's own buffer, into which the results come; and on paths that are no LAN, or have lost packets, a
//! *congestion window* in packets (RFC 9002 §7).
//!
//! A call is *under way* from when it leaves until something is heard about it: its result, or an acknowledgement, which a server sends
//! unasked for calls that take long, if their caller [says](Flow::asks) that it has no room. The driver keeps the calls that may not leave yet.

use crate::server::credits::{GOOD_FOR, RESERVED_FOR};
use crate::{Instant, RoundTrip};
use core::time::Duration;

/// A path with a shorter round trip counts as a LAN. There only the credit bounds the calls under way, until a packet is lost.
const LAN: Duration = Duration::from_millis(1);

/// RFC 9002 §7.2: the initial window, in packets.
const FIRST_WINDOW: u32 = 10;

/// RFC 9002 §7.2 kMinimumWindow, in packets. On a LAN it is the first window: a call whose procedure takes long counts until it is
/// acknowledged, more than a millisecond later, and on a busy machine much later.
const LEAST_WINDOW: u32 = 2;

/// A caller that needs its credit asks for it again when this time has passed since the last grant.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// A credit is void when this time has passed since it was asked for: the server may give it to others after [`RESERVED_FOR`], and the last
/// calls that it allows have to arrive before.
const ASKED_WITHIN: Duration = RESERVED_FOR.saturating_sub(GOOD_FOR);

/// Retransmissions in [`Flow::LOOK_EVERY`], at most: after a burst was lost, it must not come again as a burst.
const REPEATED_MOST: u32 = 32;

/// How many calls may be under way. Counts packets.
#[derive(Debug)]
pub struct Flow {
    /// The credit that every binding has, and the one that was granted last.
    initial: u32,
    granted: u32,
    granted_at: Instant,
    /// When the call was sent that asked for it, and until when it is good.
    asked_at: Instant,
    good_until: Instant,
    /// Results that the caller's own buffer holds.
    own: u32,
    under_way: u32,
    window: u32,
    /// The window is no smaller.
    least: u32,
    /// Below it the window grows by a packet for each that is answered (slow start, §7.3.1).
    threshold: u32,
    /// Answered since the window grew last (§7.3.3).
    answered: u32,
    /// When the window was last reduced (§7.3.2).
    recovery: Option<Instant>,
    /// When something was last heard about a call under way.
    heard_at: Instant,
    /// Retransmissions since then.
    repeated: (Instant, u32),
}

impl Flow {
    /// Time between two looks of a driver at the timeouts of its calls, at least: there may be thousands.
    pub const LOOK_EVERY: Duration = Duration::from_millis(1);

    /// For a binding to whose calls the server has granted `credit` at bind time. `own`: results that the caller's buffer holds.
    /// `path`: the round trip known so far.
    pub fn new(credit: u32, own: u32, path: RoundTrip) -> Self {
        let is_lan = path.measured_nanos().is_none_or(|(smoothed, _)| smoothed < LAN.as_nanos() as u64);
        Self {
            initial: credit.max(1),
            granted: 0,
            granted_at: Instant::default(),
            asked_at: Instant::default(),
            good_until: Instant::default(),
            own: own.max(1),
            under_way: 0,
            window: if is_lan { u32::MAX } else { FIRST_WINDOW },
            least: if is_lan { FIRST_WINDOW } else { LEAST_WINDOW },
            threshold: u32::MAX,
            answered: 0,
            recovery: None,
            heard_at: Instant::default(),
            repeated: (Instant::default(), 0),
        }
    }

    /// As for a binding that has been made again: calls of the earlier one that are still counted go on counting until they end.
    pub fn begin_again(&mut self, credit: u32, path: RoundTrip) {
        *self = Self { under_way: self.under_way, ..Self::new(credit, self.own, path) };
    }

    fn credit(&self, now: Instant) -> u32 {
        let is_good = self.granted > self.initial && now < self.good_until;
        if is_good { self.granted } else { self.initial }
    }

    /// Calls that may leave now.
    #[inline]
    pub fn room(&self, now: Instant) -> u32 {
        self.credit(now).min(self.own).min(self.window).saturating_sub(self.under_way)
    }

    /// Whether one of the calls that leave now, which are counted already, is to ask for credit: `waiting` more cannot leave, or the next
    /// one could not, or the credit ends soon.
    pub fn asks(&self, now: Instant, waiting: bool) -> bool {
        waiting
            || self.room(now) == 0
            || self.under_way > self.initial && now.since(self.granted_at) >= ASK_EVERY
    }

    /// The server has granted this credit, in the result of a call that was first sent at `asked`. It did so when the call arrived, and
    /// the result may come much later: then the server reserves the credit no more.
    pub fn on_grant(&mut self, now: Instant, credit: u16, asked: Instant) {
        if asked < self.asked_at {
            // A later grant was here first.
            return;
        }
        (self.granted, self.granted_at, self.asked_at) = (u32::from(credit), now, asked);
        self.good_until = (now + GOOD_FOR).min(asked + ASKED_WITHIN);
    }

    /// So many calls leave.
    #[inline]
    pub fn on_sent(&mut self, calls: u32) {
        self.under_way += calls;
    }

    /// So many calls are no longer under way, and nothing was heard about them.
    pub fn on_forgotten(&mut self, calls: u32) {
        self.under_way = self.under_way.saturating_sub(calls);
    }

    /// Something was heard about so many calls, of which one was sent at `sent`.
    #[inline]
    pub fn on_heard(&mut self, now: Instant, calls: u32, sent: Instant) {
        self.heard_at = now;
        if self.window != u32::MAX {
            self.grow(calls, sent);
        }
        self.on_forgotten(calls);
    }

    /// §7.3: a window that was used grows.
    #[cold]
    fn grow(&mut self, calls: u32, sent: Instant) {
        // §7.8: an unused window does not grow. §7.3.2: nor does it in recovery.
        if self.under_way < self.window / 2 || self.recovery.is_some_and(|since| sent <= since) {
            return;
        }
        if self.window < self.threshold {
            self.window = self.window.saturating_add(calls).min(u32::MAX - 1);
            return;
        }
        self.answered += calls;
        while self.answered >= self.window {
            self.answered -= self.window;
            self.window += 1;
        }
    }

    /// A call that was first sent at `sent` is sent for the third time, for nothing was heard about it. Returns whether that shows a loss.
    ///
    /// One timeout alone shows none (§6.2): the procedure may take long. Two timeouts show one only if the server has answered other calls
    /// since this one was sent for the second time: it has then read packets that were sent later. A server that answers nothing does not
    /// run, and would not run sooner with fewer calls under way.
    ///
    /// The call was sent for the second time when a third of the time had passed, for the second wait is twice as long as the first.
    #[cold]
    pub fn on_lost(&mut self, now: Instant, sent: Instant) -> bool {
        if self.heard_at <= sent + now.since(sent) / 3 {
            return false;
        }
        // §7.3.2: one reduction for all that was sent before it.
        if self.recovery.is_some_and(|since| sent <= since) {
            return true;
        }
        self.recovery = Some(now);
        self.threshold = (self.under_way.min(self.window) / 2).max(self.least);
        (self.window, self.answered) = (self.threshold, 0);
        true
    }

    /// Retransmissions that may leave in one look at the timeouts.
    fn repeated_most(&self) -> u32 {
        (self.window / 2).clamp(LEAST_WINDOW, REPEATED_MOST)
    }

    /// Retransmissions that may leave now; the others are due again [`LOOK_EVERY`](Self::LOOK_EVERY) later.
    pub fn repeats(&mut self, now: Instant) -> u32 {
        if now.since(self.repeated.0) >= Self::LOOK_EVERY {
            self.repeated = (now, 0);
        }
        self.repeated_most().saturating_sub(self.repeated.1)
    }

    /// One leaves.
    pub fn on_repeated(&mut self) {
        self.repeated.1 += 1;
    }

    /// When more may leave.
    pub fn repeats_again(&self) -> Instant {
        self.repeated.0 + Self::LOOK_EVERY
    }

    /// Calls under way.
    pub fn under_way(&self) -> u32 {
        self.under_way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::Owner;
    use stoop_wire::bind::NO_CREDIT_LIMIT;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn path(millis: u64) -> RoundTrip {
        let mut path = RoundTrip::default();
        path.sample(Duration::from_millis(millis));
        path
    }

    #[test]
    fn no_more_calls_leave_than_the_credit_allows() {
        let mut flow = Flow::new(64, 1000, RoundTrip::default());
        assert_eq!(flow.room(at(1)), 64);
        flow.on_sent(64);
        assert_eq!(flow.room(at(1)), 0);
        assert!(flow.asks(at(1), true));
        flow.on_grant(at(1), 128, at(1));
        assert_eq!(flow.room(at(1)), 64);
        flow.on_heard(at(1), 10, at(1));
        assert_eq!(flow.room(at(1)), 74);
    }

    #[test]
    fn a_credit_is_void_after_a_time_and_is_asked_for_again_before() {
        let mut flow = Flow::new(64, 1000, RoundTrip::default());
        flow.on_grant(at(1), 500, at(1));
        flow.on_sent(400);
        assert!(!flow.asks(at(100), false) && flow.asks(at(300), false));
        assert_eq!((flow.room(at(400)), flow.room(at(501))), (100, 0));
    }

    #[test]
    fn a_grant_that_comes_late_is_void() {
        let mut flow = Flow::new(64, 1000, RoundTrip::default());
        flow.on_sent(64);
        flow.on_grant(at(1_300), 500, at(1));
        assert_eq!((flow.room(at(1_500)), flow.room(at(1_501))), (436, 0), "1.5 s after it was asked for");
        flow.on_grant(at(2_000), 500, at(200));
        assert_eq!(flow.room(at(2_000)), 0);
        assert!(flow.asks(at(2_000), true), "calls that wait ask again");
    }

    #[test]
    fn an_earlier_grant_that_comes_later_changes_nothing() {
        let mut flow = Flow::new(64, 1000, RoundTrip::default());
        flow.on_grant(at(20), 100, at(10));
        flow.on_grant(at(30), 500, at(5));
        assert_eq!(flow.room(at(30)), 100, "the server reserves no more");
    }

    #[test]
    fn a_late_grant_overflows_no_buffer() {
        for delay in [0, 400, 1_400, 1_600, 1_999, 2_001, 5_000] {
            let mut credits = crate::server::credits::Credits::new(1000);
            let mut flows = [1, 2].map(|_| Flow::new(credits.initial(), 10_000, RoundTrip::default()));
            let grow = |credits: &mut crate::server::credits::Credits, id, now| {
                (0..5)
                    .map(|_| credits.grant(now, stoop_wire::BindingId(id), Owner::host([1; 16])))
                    .last()
                    .unwrap()
            };
            let late = grow(&mut credits, 1, at(1));
            for now in (1..6_000).step_by(100) {
                let granted = grow(&mut credits, 2, at(now));
                flows[1].on_grant(at(now), granted, at(now));
                if now > delay {
                    flows[0].on_grant(at(now), late, at(1));
                }
                let together: u32 = flows.iter().map(|flow| flow.room(at(now))).sum();
                assert!(together <= 1000 - 250 + 2 * 64, "{delay} ms late, at {now}: {together} calls");
            }
        }
    }

    #[test]
    fn results_fit_into_the_callers_own_buffer() {
        let flow = Flow::new(NO_CREDIT_LIMIT, 90, RoundTrip::default());
        assert_eq!(flow.room(at(1)), 90);
        assert!(flow.asks(at(1), true), "the server grants nothing, and acknowledges calls that take long");
    }

    #[test]
    fn a_long_path_begins_with_ten_packets_and_doubles() {
        let mut flow = Flow::new(10_000, 10_000, path(50));
        for expected in [10, 20, 40, 80] {
            let room = flow.room(at(1));
            assert_eq!(room, expected);
            flow.on_sent(room);
            flow.on_heard(at(1), room, at(1));
        }
    }

    #[test]
    fn a_loss_halves_the_window_once_for_all_that_was_under_way() {
        let mut flow = Flow::new(10_000, 10_000, RoundTrip::default());
        flow.on_sent(1001);
        flow.on_heard(at(5), 1, at(1));
        assert!((0..1000).all(|_| flow.on_lost(at(10), at(1))));
        assert_eq!((flow.room(at(10)), flow.window), (0, 500));
        flow.on_heard(at(11), 700, at(1));
        assert_eq!((flow.room(at(11)), flow.window), (200, 500), "it does not grow in recovery");
        flow.on_sent(200);
        flow.on_heard(at(12), 500, at(11));
        assert_eq!(flow.window, 501);
    }

    #[test]
    fn silence_of_a_server_that_does_not_run_is_no_loss() {
        let mut flow = Flow::new(10_000, 10_000, RoundTrip::default());
        flow.on_sent(1000);
        // The calls were sent at 1 and at 4.
        for (heard_at, is_loss) in [(0, false), (4, false), (5, true)] {
            flow.on_heard(at(heard_at), 1, at(0));
            assert_eq!(flow.on_lost(at(10), at(1)), is_loss, "heard at {heard_at}");
            assert_eq!(flow.window < u32::MAX, is_loss);
        }
    }

    #[test]
    fn the_window_is_never_below_two_packets_and_on_a_lan_ten() {
        for (path, least, repeated) in [(path(50), 2, 2), (RoundTrip::default(), 10, 5)] {
            let mut flow = Flow::new(10_000, 10_000, path);
            for now in 1..20 {
                flow.on_sent(2);
                flow.on_heard(at(2 * now + 1), 1, at(2 * now));
                flow.on_lost(at(2 * now + 1), at(2 * now));
            }
            assert_eq!((flow.window, flow.repeated_most()), (least, repeated));
        }
    }

    /// A server whose socket holds so many packets, and which answers some of them in each step.
    struct Network {
        holds: u32,
        waiting: u32,
        dropped: u32,
    }

    impl Network {
        fn send(&mut self, calls: u32) {
            let taken = calls.min(self.holds - self.waiting);
            self.waiting += taken;
            self.dropped += calls - taken;
        }

        fn answer(&mut self, most: u32) -> u32 {
            let answered = self.waiting.min(most);
            self.waiting -= answered;
            answered
        }
    }

    #[test]
    fn of_15_360_calls_to_a_small_buffer_none_is_dropped() {
        let mut credits = crate::server::credits::Credits::new(92);
        let mut network = Network { holds: 92, waiting: 0, dropped: 0 };
        let mut flow = Flow::new(credits.initial(), 3_000, RoundTrip::default());
        let (mut left, mut steps) = (15_360, 0);
        while left > 0 || flow.under_way() > 0 {
            let leave = flow.room(at(steps)).min(left);
            let asks = leave > 0 && flow.asks(at(steps), left > leave);
            flow.on_sent(leave);
            network.send(leave);
            left -= leave;
            let answered = network.answer(40);
            if asks {
                let id = stoop_wire::BindingId(1);
                flow.on_grant(at(steps), credits.grant(at(steps), id, Owner::host([1; 16])), at(steps));
            }
            flow.on_heard(at(steps), answered, at(steps));
            steps += 1;
        }
        assert_eq!(network.dropped, 0);
        assert!(steps < 15_360 / 30, "{steps} steps: the buffer is used");
    }
}
