//! One end of a sealed binding: its keys, the numbers of its packets, and its phases.

use crate::keyed::Keyed;
use crate::suite::{Cipher, Secret, Suite, TAG_LEN};
use crate::{HEADER_LEN, NUMBER_LEN, TRAILER_LEN};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The flag of a header that tells the phase: set in the second, the fourth and so on.
pub const KEY_PHASE: u8 = 0x04;

/// Numbers after which an end goes on to the next phase.
pub const PHASE_NUMBERS: u64 = 1 << 22;

/// Numbers in one phase at most: without a packet of the other end in that phase, nothing more is sealed.
pub const PHASE_NUMBERS_MAX: u64 = 1 << 24;

/// Time after which an end goes on to the next phase, when it next looks.
pub(crate) const PHASE_NANOS: u64 = 3_600_000_000_000;

/// Time for which packets of the phase before open, and least time of a phase.
const FORMER_NANOS: u64 = 1_000_000_000;

/// Which end of a binding it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The caller.
    Caller,
    /// The server.
    Server,
}

/// The outcome of opening a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It is as it was sealed, and its data is clear.
    Yes,
    /// The same, and the other end has gone on to the next phase: [`Seal::go_on`] is to be called.
    InNextPhase,
    /// It was not sealed by the other end for this binding, was changed on the way, or is of an earlier phase.
    No,
}

/// One end of a sealed binding.
pub struct Seal<S: Suite> {
    suite: S,
    /// Of the present phase: the secrets of what this end seals, and of what it opens in the next phase.
    seals: Secret,
    next_opens: Secret,
    sealing: Keyed<S::Cipher>,
    opening: Keyed<S::Cipher>,
    /// Of the next phase: derived in advance, so that a packet with a forged phase costs as little as any other.
    opening_next: Keyed<S::Cipher>,
    /// Of the phase before, and until when.
    opening_former: Option<(Keyed<S::Cipher>, u64)>,
    phase: u32,
    /// When the phase began, and with which number of this end.
    begun_ns: u64,
    first: u64,
    /// A packet of the present phase has been opened.
    is_confirmed: AtomicBool,
    /// The next number of this end.
    next: AtomicU64,
}

impl<S: Suite> fmt::Debug for Seal<S> {
    /// Nothing of the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("phase", &self.phase).field("next", &self.next).finish_non_exhaustive()
    }
}

impl<S: Suite> Seal<S> {
    /// One end of a binding with the secrets of packets of the caller and of the server, which begins now.
    pub fn new(suite: S, side: Side, of_caller: Secret, of_server: Secret, now_ns: u64) -> Self {
        let (seals, opens) = match side {
            Side::Caller => (of_caller, of_server),
            Side::Server => (of_server, of_caller),
        };
        let next_opens = suite.next(&opens);
        Self {
            sealing: Keyed::of(&suite, &seals),
            opening: Keyed::of(&suite, &opens),
            opening_next: Keyed::of(&suite, &next_opens),
            opening_former: None,
            seals,
            next_opens,
            suite,
            phase: 0,
            begun_ns: now_ns,
            first: 0,
            is_confirmed: AtomicBool::new(false),
            next: AtomicU64::new(0),
        }
    }

    /// Seals a packet in which the data ends at `end` and the trailer follows. `false`: the numbers of the phase are used up, and nothing
    /// is written.
    ///
    /// # Panics
    /// If the packet has no room for header and trailer.
    #[inline]
    pub fn seal(&self, packet: &mut [u8], end: usize) -> bool {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number.wrapping_sub(self.first) >= PHASE_NUMBERS_MAX {
            return false;
        }
        self.seal_numbered(number, packet, end);
        true
    }

    fn seal_numbered(&self, number: u64, packet: &mut [u8], end: usize) {
        if self.phase & 1 == 1 {
            packet[3] |= KEY_PHASE;
        }
        let (header, rest) = packet.split_at_mut(HEADER_LEN);
        let (data, trailer) = rest.split_at_mut(end - HEADER_LEN);
        let tag = self.sealing.cipher.seal(self.sealing.nonce(number), header, data);
        trailer[..NUMBER_LEN].copy_from_slice(&number.to_le_bytes());
        trailer[NUMBER_LEN..TRAILER_LEN].copy_from_slice(&tag);
    }

    /// Opens a packet in which the data ends at `end` and the trailer follows. Clears the flag of the phase, which has no meaning any more.
    #[inline]
    pub fn open(&self, now_ns: u64, packet: &mut [u8], end: usize) -> Opened {
        let Some((header, rest)) = packet.split_at_mut_checked(HEADER_LEN) else { return Opened::No };
        let Some((data, trailer)) = rest.split_at_mut_checked(end.saturating_sub(HEADER_LEN)) else {
            return Opened::No;
        };
        let Some((&number, behind)) = trailer.split_first_chunk::<NUMBER_LEN>() else { return Opened::No };
        let Some(&tag) = behind.first_chunk::<TAG_LEN>() else { return Opened::No };
        let number = u64::from_le_bytes(number);
        let is_of_present = (header[3] & KEY_PHASE != 0) == (self.phase & 1 == 1);
        let (keyed, opened) = match is_of_present {
            true => (&self.opening, Opened::Yes),
            false => match &self.opening_former {
                Some((former, until)) if now_ns < *until => (former, Opened::Yes),
                _ => (&self.opening_next, Opened::InNextPhase),
            },
        };
        if !keyed.cipher.open(keyed.nonce(number), header, data, &tag) {
            return Opened::No;
        }
        if is_of_present && !self.is_confirmed.load(Ordering::Relaxed) {
            self.is_confirmed.store(true, Ordering::Relaxed);
        }
        header[3] &= !KEY_PHASE;
        opened
    }

    /// Whether this end should go on to the next phase by itself: it has sealed much or for long in the present one, and the other end is
    /// in it, too.
    pub fn is_due(&self, now_ns: u64) -> bool {
        let numbers = self.next.load(Ordering::Relaxed).wrapping_sub(self.first);
        let lasted = now_ns.saturating_sub(self.begun_ns);
        let is_used_up = numbers >= PHASE_NUMBERS || lasted >= PHASE_NANOS;
        is_used_up && lasted >= FORMER_NANOS && self.is_confirmed.load(Ordering::Relaxed)
    }

    /// Numbers that this end has used in all phases.
    pub fn numbers(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// The present phase; the first is 0.
    pub fn phase(&self) -> u32 {
        self.phase
    }

    /// Goes on to the phase behind `from`, if that is the present one. `by_peer`: a packet of the other end has shown that it is there.
    pub fn go_on(&mut self, from: u32, now_ns: u64, by_peer: bool) {
        if self.phase != from {
            return;
        }
        self.seals = self.suite.next(&self.seals);
        self.next_opens = self.suite.next(&self.next_opens);
        let further = Keyed::of(&self.suite, &self.next_opens);
        let present = core::mem::replace(&mut self.opening_next, further);
        let former = core::mem::replace(&mut self.opening, present);
        self.opening_former = Some((former, now_ns.saturating_add(FORMER_NANOS)));
        self.sealing = Keyed::of(&self.suite, &self.seals);
        self.phase += 1;
        self.begun_ns = now_ns;
        self.first = *self.next.get_mut();
        *self.is_confirmed.get_mut() = by_peer;
    }
}

#[cfg(test)]
mod tests;
