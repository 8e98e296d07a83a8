//! The share of handshakes that have begun and do not end, of which a flood consists, of the time of a processor.
//!
//! A handshake that leads to a binding gives back what it took. So callers that all bind again, for example after a restart of the server,
//! wait for one another only.

/// Handshakes that do not end have one part in so many of the time,
const PART: u64 = 32;

/// and so much at once: that of about a hundred handshakes, as many as callers far away may have begun together.
const AT_ONCE_NANOS: u64 = 10_000_000;

/// Time for some handshakes, for which the thread waits once: each time it runs, callers whose worker had the processor go to sleep.
const TOGETHER_NANOS: u64 = 500_000;

/// What handshakes that have not ended have taken of their share.
#[derive(Debug, Default)]
pub(super) struct Share {
    taken_ns: u64,
    /// When the share has grown last.
    at_ns: u64,
    /// What the beginning of a handshake took last.
    one_ns: u64,
}

impl Share {
    /// Time until another handshake may begin.
    pub(super) fn wait_ns(&mut self, now_ns: u64) -> u64 {
        // The rest counts the next time.
        let grown_ns = now_ns.saturating_sub(self.at_ns) / PART;
        self.taken_ns = self.taken_ns.saturating_sub(grown_ns);
        self.at_ns += grown_ns * PART;
        match self.taken_ns.checked_sub(AT_ONCE_NANOS) {
            None | Some(0) => 0,
            Some(missing_ns) => (missing_ns + TOGETHER_NANOS) * PART,
        }
    }

    /// A handshake has begun, which took so much time.
    pub(super) fn charge(&mut self, nanos: u64) {
        self.taken_ns += nanos;
        self.one_ns = nanos;
    }

    /// A handshake has led to a binding.
    pub(super) fn give_back(&mut self) {
        self.taken_ns = self.taken_ns.saturating_sub(self.one_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_NANOS: u64 = 100_000;

    /// Handshakes that begin in this time, each as soon as it may; `ends` tells which of them lead to bindings.
    fn begun(share: &mut Share, mut now_ns: u64, nanos: u64, ends: impl Fn(u64) -> bool) -> u64 {
        let end_ns = now_ns + nanos;
        for number in 0.. {
            now_ns += share.wait_ns(now_ns);
            if now_ns >= end_ns {
                return number;
            }
            now_ns += ONE_NANOS;
            share.charge(ONE_NANOS);
            if ends(number) {
                share.give_back();
            }
        }
        unreachable!("time ends")
    }

    /// Handshakes that one wait may delay.
    const TOGETHER: u64 = TOGETHER_NANOS / ONE_NANOS + 1;

    #[test]
    fn handshakes_that_do_not_end_have_a_part_of_the_time_and_some_at_once() {
        let (mut share, second, at_once) = (Share::default(), 1_000_000_000, AT_ONCE_NANOS / ONE_NANOS);
        let in_a_second = second / ONE_NANOS / PART;
        let first = begun(&mut share, 5 * second, second, |_| false);
        let with_those_at_once = at_once + in_a_second - TOGETHER..=at_once + in_a_second + TOGETHER;
        assert!(with_those_at_once.contains(&first), "{first}");
        let second_time = begun(&mut share, 6 * second, second, |_| false);
        assert!(in_a_second.abs_diff(second_time) <= TOGETHER, "{second_time}");
        // After a pause there are some at once again.
        let again = begun(&mut share, 60 * second, second, |_| false);
        assert!(with_those_at_once.contains(&again), "{again}");
    }

    #[test]
    fn handshakes_that_lead_to_bindings_wait_for_nothing() {
        let mut share = Share::default();
        assert_eq!(begun(&mut share, 5, 100 * ONE_NANOS, |_| true), 100);
        // Among a flood half of whose handshakes end, at least as many again as the share has.
        let mut share = Share::default();
        let half = begun(&mut share, 0, 10_000_000_000, |number| number % 2 == 0);
        let none = begun(&mut Share::default(), 0, 10_000_000_000, |_| false);
        assert!(half + 2 * TOGETHER >= 2 * none, "{half}, {none} if none ends");
    }
}
