//! One end of a sealed binding: its keys, the numbers of its packets, and its phases.

use crate::keyed::Keyed;
use crate::suite::{Cipher, NONCE_LEN, Secret, Suite, TAG_LEN};
use crate::{HEADER_LEN, NUMBER_LEN, TRAILER_LEN};
use alloc::sync::Arc;
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
    /// The same, and the other end has gone on to the next phase: this one has to, too ([`Seal::next`]).
    InNextPhase,
    /// It was not sealed by the other end for this binding, was changed on the way, or is of an earlier phase.
    No,
}

/// Numbers of packets that one thread has reserved at one end of a binding, and uses alone.
///
/// The first reservation is of one number, and each further one of twice as many as the one before, up to 64. So threads that seal many
/// packets seldom write to memory that they share, and one that seals a few wastes few numbers.
#[derive(Debug, Default)]
pub struct Numbers {
    next: u64,
    end: u64,
    /// How many were reserved last.
    run: u64,
}

/// Numbers that a thread reserves at most.
const RUN_MAX: u64 = 64;

impl Numbers {
    /// Whether the next packet needs another reservation.
    #[inline]
    pub fn are_used_up(&self) -> bool {
        self.next == self.end
    }
}

/// One end of a sealed binding, in one phase. Threads share it.
pub struct Seal<S: Suite> {
    suite: S,
    /// Of the present phase: the secrets of what this end seals and opens; and of what it opens in the next phase.
    seals: Secret,
    opens: Secret,
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
    /// The lowest number that no thread of this end has reserved. All phases share the sequence.
    reserved: Arc<AtomicU64>,
}

impl<S: Suite> fmt::Debug for Seal<S> {
    /// Nothing of the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal")
            .field("phase", &self.phase)
            .field("reserved", &self.reserved)
            .finish_non_exhaustive()
    }
}

impl<S: Suite> Seal<S> {
    /// One end of a binding with the secrets of packets of the caller and of the server, which begins now.
    pub fn new(suite: S, side: Side, of_caller: Secret, of_server: Secret, now_ns: u64) -> Self {
        let (seals, opens) = match side {
            Side::Caller => (of_caller, of_server),
            Side::Server => (of_server, of_caller),
        };
        Self::in_phase(suite, (seals, opens), (0, now_ns), Arc::default())
    }

    fn in_phase(
        suite: S,
        (seals, opens): (Secret, Secret),
        (phase, begun_ns): (u32, u64),
        reserved: Arc<AtomicU64>,
    ) -> Self {
        let next_opens = suite.next(&opens);
        Self {
            sealing: Keyed::of(&suite, &seals),
            opening: Keyed::of(&suite, &opens),
            opening_next: Keyed::of(&suite, &next_opens),
            opening_former: None,
            seals,
            opens,
            next_opens,
            suite,
            phase,
            begun_ns,
            first: reserved.load(Ordering::Relaxed),
            is_confirmed: AtomicBool::new(false),
            reserved,
        }
    }

    /// Seals a packet in which the data ends at `end` and the trailer follows. `numbers` are the calling thread's for this end. `false`: the
    /// numbers of the phase are used up, and nothing is written.
    ///
    /// # Panics
    /// If the packet has no room for header and trailer.
    #[inline]
    pub fn seal(&self, numbers: &mut Numbers, packet: &mut [u8], end: usize) -> bool {
        let Some(number) = self.number(numbers) else { return false };
        self.seal_by(number, packet, end, |cipher, nonce, header, data| cipher.seal(nonce, header, data));
        true
    }

    /// The same, with `data` in place of the bytes between the packet's header and its trailer.
    ///
    /// # Panics
    /// If the packet has no room for header, data and trailer.
    pub fn seal_from(&self, numbers: &mut Numbers, packet: &mut [u8], data: &[u8]) -> bool {
        let Some(number) = self.number(numbers) else { return false };
        self.seal_by(number, packet, HEADER_LEN + data.len(), |cipher, nonce, header, out| {
            cipher.seal_from(nonce, header, data, out)
        });
        true
    }

    /// A number of those that a thread has reserved. `None`: the numbers of the phase are used up.
    #[inline]
    fn number(&self, numbers: &mut Numbers) -> Option<u64> {
        // Those of the phase before are not counted in this one.
        if numbers.are_used_up() || numbers.next < self.first {
            self.reserve(numbers);
        }
        let number = numbers.next;
        (number - self.first < PHASE_NUMBERS_MAX).then(|| {
            numbers.next += 1;
            number
        })
    }

    #[cold]
    fn reserve(&self, numbers: &mut Numbers) {
        let run = (2 * numbers.run).clamp(1, RUN_MAX);
        let next = self.reserved.fetch_add(run, Ordering::Relaxed);
        *numbers = Numbers { next, end: next + run, run };
    }

    /// Has `encrypt` encrypt the data and return the tag over it and the header.
    #[inline]
    fn seal_by(
        &self,
        number: u64,
        packet: &mut [u8],
        end: usize,
        encrypt: impl FnOnce(&S::Cipher, [u8; NONCE_LEN], &[u8], &mut [u8]) -> [u8; TAG_LEN],
    ) {
        if self.phase & 1 == 1 {
            packet[3] |= KEY_PHASE;
        }
        let (header, rest) = packet.split_at_mut(HEADER_LEN);
        let (data, trailer) = rest.split_at_mut(end - HEADER_LEN);
        let tag = encrypt(&self.sealing.cipher, self.sealing.nonce(number), header, data);
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
        // Not stored where it is clear: a processor waits for a byte before it reads the word around it.
        if header[3] & KEY_PHASE != 0 {
            header[3] &= !KEY_PHASE;
        }
        opened
    }

    /// Whether this end should go on to the next phase by itself: it has sealed much or for long in the present one, and
    /// [may](Self::may_go_on) do so.
    pub fn is_due(&self, now_ns: u64) -> bool {
        let numbers = self.reserved.load(Ordering::Relaxed) - self.first;
        let lasted = now_ns.saturating_sub(self.begun_ns);
        (numbers >= PHASE_NUMBERS || lasted >= PHASE_NANOS) && self.may_go_on(now_ns)
    }

    /// Whether this end may go on to the next phase by itself: the other end is in the present one, too, which has lasted as long as packets
    /// of the one before open.
    pub fn may_go_on(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.begun_ns) >= FORMER_NANOS && self.is_confirmed.load(Ordering::Relaxed)
    }

    /// The present phase; the first is 0.
    #[inline]
    pub fn phase(&self) -> u32 {
        self.phase
    }

    /// The end in the next phase, which begins now. `by_peer`: a packet of the other end has shown that it is there.
    #[must_use]
    pub fn next(&self, now_ns: u64, by_peer: bool) -> Self
    where
        S: Copy,
    {
        let secrets = (self.suite.next(&self.seals), self.next_opens);
        let reserved = Arc::clone(&self.reserved);
        Self {
            opening_former: Some((Keyed::of(&self.suite, &self.opens), now_ns.saturating_add(FORMER_NANOS))),
            is_confirmed: AtomicBool::new(by_peer),
            ..Self::in_phase(self.suite, secrets, (self.phase + 1, now_ns), reserved)
        }
    }
}

#[cfg(test)]
mod tests;
