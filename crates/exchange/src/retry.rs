//! Decides whether and when a caller sends a call again that the server has refused because it is overloaded.
//!
//! A refused call has not run, so that any may be sent again. But calls that come again add to the load that caused the
//! refusal, and at several layers they multiply. So they are limited three times over:
//!
//! - *Budget.* The calls that come again are a small part of all calls of the binding. The budget is a bucket of
//!   tokens: a call adds part of a token, a call that comes again takes a whole one. (Google's SRE book, *Handling
//!   Overload*, has clients that retry 10 % of their requests at most; Finagle's `RetryBudget` has 20 %. gRPC A6,
//!   *Throttling Retry Attempts*, has a bucket that successes fill and failures empty.)
//! - *Attempts.* A call is sent three times at most (the SRE book: a request that three servers in a row refused would
//!   most likely be refused again).
//! - *Back-off with jitter.* The wait is what the server asks for (as gRPC's `grpc-retry-pushback-ms`), or twice the wait before
//!   if that is more, and up to half of it more by chance, so that calls refused together do not come again together.
//!
//! A call that would come again at or after its deadline is not sent again.

use crate::retransmit::Jitter;
use core::time::Duration;
use stoop_wire::{RefusalCode, Refused};

/// How a binding sends calls again that the server has refused because it is overloaded.
///
/// A refused call has not run, so that this is right for every procedure. The error of a call that does not come again tells when
/// to call again (`Refusal::retry_after`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Retry {
    percent: u32,
    attempts: u32,
    shortest: Duration,
    longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        let (shortest, longest) = (Duration::from_millis(5), Duration::from_secs(1));
        Self { percent: 10, attempts: 3, shortest, longest }
    }
}

impl Retry {
    /// The defaults: ten percent of the binding's calls, three attempts, waits of 5 ms to 1 s.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends no call again.
    pub fn never() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// Calls sent again, in percent of all calls of the binding. A new binding, which has made no calls yet, may send
    /// ten again.
    pub fn percent(self, percent: u32) -> Self {
        Self { percent, ..self }
    }

    /// How often a call is sent at most, the first time included.
    ///
    /// # Panics
    /// When it is zero.
    pub fn attempts(self, attempts: u32) -> Self {
        assert!(attempts > 0, "a call is sent at least once");
        Self { attempts, ..self }
    }

    /// Sets the first wait, which is longer if the server asks for a longer one, and a bound for all waits, which also
    /// bounds those that the server asks for. Each wait is then lengthened at random by up to a half.
    pub fn waits(self, shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest, ..self }
    }
}

/// The budget of one binding.
#[derive(Debug)]
pub struct RetryBudget {
    retry: Retry,
    /// In hundredths of a token.
    level: u64,
    /// Calls that have added to it.
    calls: u64,
    /// Calls that it let come again.
    spent: u64,
    jitter: Jitter,
}

/// A token, in its hundredths: a call adds as many as the percentage.
const TOKEN: u64 = 100;
/// Tokens at the beginning.
const FIRST: u64 = 10;
/// Most tokens: a binding that has made many calls without a refusal cannot send very many again at once.
const MOST: u64 = 100;

impl RetryBudget {
    /// A new binding's budget. `seed` is random.
    pub fn new(retry: Retry, seed: u64) -> Self {
        Self { retry, level: FIRST * TOKEN, calls: 0, spent: 0, jitter: Jitter::new(seed) }
    }

    /// How long to wait before a call is sent again that was `refused` after so many attempts, with so much time left
    /// until its deadline. `calls`: how many the binding has made so far, each counted as often as it was sent. `None`:
    /// it is not sent again.
    pub fn wait(&mut self, calls: u64, refused: Refused, attempts: u32, left: Duration) -> Option<Duration> {
        if refused.code != RefusalCode::Overloaded || attempts >= self.retry.attempts {
            return None;
        }
        let wait = self.jittered(self.back_off(refused, attempts));
        if wait >= left {
            return None;
        }
        self.fill(calls.saturating_sub(self.spent));
        self.level = self.level.checked_sub(TOKEN)?;
        self.spent += 1;
        Some(wait)
    }

    /// Calls that it let come again.
    pub fn spent(&self) -> u64 {
        self.spent
    }

    fn fill(&mut self, calls: u64) {
        let added = calls.saturating_sub(self.calls).saturating_mul(self.retry.percent.into());
        self.calls = self.calls.max(calls);
        self.level = self.level.saturating_add(added).min(MOST * TOKEN);
    }

    fn back_off(&self, refused: Refused, attempts: u32) -> Duration {
        let doubled = self.retry.shortest.saturating_mul(1 << (attempts - 1).min(20));
        let asked = refused.retry_after.duration().unwrap_or_default();
        doubled.max(asked).min(self.retry.longest)
    }

    fn jittered(&mut self, wait: Duration) -> Duration {
        wait.saturating_add(wait / 2 * u32::from(self.jitter.draw()) / 256)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use stoop_wire::RetryAfter;

    const OVERLOADED: Refused = Refused { code: RefusalCode::Overloaded, retry_after: RetryAfter::NOT_SAID };
    const LONG: Duration = Duration::from_secs(3600);

    fn budget(retry: Retry) -> RetryBudget {
        RetryBudget::new(retry, 0x5eed)
    }

    #[test]
    fn a_tenth_of_the_calls_come_again_and_ten_more() {
        let mut budget = budget(Retry::new());
        let again = (1..=10_000).filter(|_| {
            let calls = budget.calls + budget.spent + 1;
            budget.wait(calls, OVERLOADED, 1, LONG).is_some()
        });
        assert_eq!(again.count(), 1000 + 10);
    }

    #[test]
    fn calls_that_came_again_add_nothing_to_the_budget() {
        let mut budget = budget(Retry::new().percent(100));
        let again = (1..=1000).filter(|sent| budget.wait(*sent, OVERLOADED, 1, LONG).is_some());
        assert!(again.count() <= 505, "each of them would let another one come again without end");
    }

    #[test]
    fn a_budget_that_was_not_used_for_long_is_bounded() {
        let mut budget = budget(Retry::new());
        let again = (0..1000).filter(|_| budget.wait(1_000_000, OVERLOADED, 1, LONG).is_some());
        assert_eq!(again.count() as u64, MOST);
    }

    #[test]
    fn waits_double_and_are_no_shorter_than_the_server_asks() {
        let mut budget = budget(Retry::new().attempts(100).percent(1000));
        let mut waits = |refused, attempts| {
            let waits = (0..8).map(|calls| budget.wait(1000 * calls, refused, attempts, LONG).unwrap());
            waits.collect::<Vec<_>>()
        };
        for (attempts, least_ms) in [(1, 5), (2, 10), (5, 80), (30, 1000), (99, 1000)] {
            let least = Duration::from_millis(least_ms);
            let waits = waits(OVERLOADED, attempts);
            assert!(waits.iter().all(|wait| (least..least * 3 / 2).contains(wait)), "{waits:?}");
            assert!(
                waits.windows(2).any(|two| two[0] != two[1]),
                "calls refused together do not return together"
            );
        }
        let asked = Refused { retry_after: RetryAfter::from_millis(300), ..OVERLOADED };
        assert!(waits(asked, 1).iter().all(|wait| *wait >= Duration::from_millis(300)));
        let too_long = Refused { retry_after: RetryAfter::from_millis(u16::MAX), ..OVERLOADED };
        assert!(waits(too_long, 1).iter().all(|wait| *wait <= Duration::from_millis(1500)));
    }

    #[test]
    fn a_call_comes_again_only_after_overload_thrice_and_before_its_deadline() {
        let mut budget = budget(Retry::new());
        for code in (1..20).map(RefusalCode::from_code).filter(|code| *code != RefusalCode::Overloaded) {
            assert_eq!(budget.wait(0, code.into(), 1, LONG), None, "{code}");
        }
        assert!(budget.wait(0, OVERLOADED, 2, LONG).is_some());
        assert_eq!(budget.wait(0, OVERLOADED, 3, LONG), None);
        assert_eq!(budget.wait(0, OVERLOADED, 1, Duration::from_millis(5)), None);
        assert_eq!(budget.spent(), 1);
        let mut never = self::budget(Retry::never());
        assert_eq!(never.wait(1000, OVERLOADED, 1, LONG), None);
    }
}
