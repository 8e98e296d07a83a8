//! Admission of callers: a caller may bind after it has proved, by returning a cookie, that it receives at the address
//! from which it sends.

use crate::Instant;
use crate::shares::OwnerId;
use alloc::collections::{BTreeMap, VecDeque};
use core::hash::Hasher;
use core::time::Duration;
use siphasher::sip::SipHasher24;
use stoop_wire::{BindingId, Challenge};

/// A cookie is valid for at least this long and at most twice as long.
const COOKIE_PERIOD: Duration = Duration::from_secs(10);

/// Draws numbers and verifies cookies, all derived from the secret of this start of the server.
#[derive(Debug)]
pub(super) struct Admission {
    secret: [u64; 2],
    drawn: u64,
    /// Recent bindings, by the nonce and the sender of their request, so that a repeated request makes no second
    /// binding.
    made: BTreeMap<RequestKey, BindingId>,
    /// The requests in the order of their times, in seconds, with the owner that each counts for. Seconds take half the memory
    /// of an `Instant`, and a request may be remembered for a second longer.
    order: VecDeque<(u32, OwnerId, RequestKey)>,
}

/// Nonce and host of a bind request.
type RequestKey = (u64, [u8; 16]);

impl Admission {
    pub(super) fn new(secret: [u64; 2]) -> Self {
        Self { secret, drawn: 0, made: BTreeMap::new(), order: VecDeque::new() }
    }

    fn keyed(&self, purpose: u8) -> SipHasher24 {
        let mut hasher = SipHasher24::new_with_keys(self.secret[0], self.secret[1]);
        hasher.write_u8(purpose);
        hasher
    }

    /// Number of this start of the server.
    pub(super) fn incarnation(&self) -> u64 {
        self.keyed(0).finish()
    }

    /// 64 bits that cannot be predicted without the secret.
    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        let mut hasher = self.keyed(1);
        hasher.write_u64(self.drawn);
        hasher.finish()
    }

    /// The cookie of an address for `nonce` at this time.
    pub(super) fn cookie(&self, now: Instant, host: [u8; 16], port: u16, nonce: u64) -> Challenge {
        self.cookie_of(period(now), host, port, nonce)
    }

    fn cookie_of(&self, period: u64, host: [u8; 16], port: u16, nonce: u64) -> Challenge {
        let mut hasher = self.keyed(2);
        hasher.write(&host);
        hasher.write_u16(port);
        hasher.write_u64(nonce);
        hasher.write_u64(period);
        Challenge(hasher.finish())
    }

    /// Whether `cookie` is one that this server sent recently to that address for `nonce`.
    pub(super) fn admits(
        &self,
        now: Instant,
        host: [u8; 16],
        port: u16,
        nonce: u64,
        cookie: Challenge,
    ) -> bool {
        let period = period(now);
        cookie == self.cookie_of(period, host, port, nonce)
            || period > 0 && cookie == self.cookie_of(period - 1, host, port, nonce)
    }

    /// The binding made for a request with this nonce, if this may be a copy of that request.
    pub(super) fn made_for(&self, host: [u8; 16], nonce: u64) -> Option<BindingId> {
        self.made.get(&(nonce, host)).copied()
    }

    /// Remembers a request while its cookie is valid. It counts for `owner` until [`forget_oldest`](Self::forget_oldest)
    /// returns that.
    pub(super) fn remember(&mut self, now: Instant, host: [u8; 16], nonce: u64, made: (BindingId, OwnerId)) {
        self.made.insert((nonce, host), made.0);
        self.order.push_back((seconds(now), made.1, (nonce, host)));
    }

    /// Forgets the oldest request, if its cookie has expired, and returns the owner that it counted for.
    pub(super) fn forget_oldest(&mut self, now: Instant) -> Option<OwnerId> {
        let is_old = |made: u32| seconds(now).wrapping_sub(made) > 2 * COOKIE_PERIOD.as_secs() as u32;
        let &(_, owner, key) = self.order.front().filter(|(made, ..)| is_old(*made))?;
        self.order.pop_front();
        self.made.remove(&key);
        if self.order.is_empty() {
            self.order = VecDeque::new();
        }
        Some(owner)
    }
}

fn seconds(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000_000) as u32
}

fn period(now: Instant) -> u64 {
    now.as_nanos() / COOKIE_PERIOD.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: [u8; 16] = [1; 16];

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_cookie_is_valid_only_for_its_address_request_and_time() {
        let server = Admission::new([1, 2]);
        let cookie = server.cookie(at(100), [1; 16], 7, 42);
        assert!(server.admits(at(100), [1; 16], 7, 42, cookie));
        assert!(server.admits(at(119), [1; 16], 7, 42, cookie));
        assert!(!server.admits(at(120), [1; 16], 7, 42, cookie));
        assert!(!server.admits(at(100), [2; 16], 7, 42, cookie));
        assert!(!server.admits(at(100), [1; 16], 8, 42, cookie));
        assert!(!server.admits(at(100), [1; 16], 7, 43, cookie));
        assert!(!Admission::new([1, 3]).admits(at(100), [1; 16], 7, 42, cookie));
    }

    #[test]
    fn a_repeated_request_is_recognised_while_its_cookie_is_valid() {
        let mut server = Admission::new([1, 2]);
        let owner = OwnerId::default();
        server.remember(at(0), HOST, 1, (BindingId(9), owner));
        server.remember(at(20), HOST, 2, (BindingId(10), owner));
        assert_eq!(server.forget_oldest(at(20)), None);
        assert_eq!(server.made_for(HOST, 1), Some(BindingId(9)));
        assert_eq!((server.forget_oldest(at(21)), server.forget_oldest(at(21))), (Some(owner), None));
        assert_eq!((server.made_for(HOST, 1), server.made_for(HOST, 2)), (None, Some(BindingId(10))));
    }

    #[test]
    fn every_start_has_its_own_incarnation() {
        assert_ne!(Admission::new([1, 2]).incarnation(), Admission::new([1, 3]).incarnation());
    }
}
