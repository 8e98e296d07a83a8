//! The keys that a thread has used last: it seals and opens packets of a few bindings without a lock, and with numbers of its own.

use crate::security::cipher::PacketSuite;
use crate::transport::packet::protection::sealed::SealedBinding;
use std::cell::RefCell;
use std::sync::Arc;
use stoop_net::clock;
use stoop_seal::{KEY_PHASE, Numbers, Opened, Seal};
use stoop_wire::{BindingId, Bundle, HEADER_LEN, Header, Kind, flags};

/// Bindings of which a thread holds keys.
const PLACES: usize = 4;

thread_local! {
    static HELD: RefCell<[Option<Held>; PLACES]> = const { RefCell::new([const { None }; PLACES]) };
}

/// The keys of one end of a binding, and the numbers that the thread has reserved.
pub(super) struct Held {
    /// Which of the process's ends: one process can be caller and server.
    end: u64,
    binding: Arc<SealedBinding>,
    seal: Arc<Seal<PacketSuite>>,
    numbers: Numbers,
}

/// Has `then` use the keys of a binding at an end, which `find` finds if the thread does not hold them. `None`: there are none.
#[inline]
pub(super) fn with<T>(
    (end, id): (u64, BindingId),
    find: impl FnOnce() -> Option<Arc<SealedBinding>>,
    then: impl FnOnce(&mut Held) -> T,
) -> Option<T> {
    let mut once = Some((find, then));
    let mut run = |place: &mut Option<Held>| {
        let (find, then) = once.take()?;
        if !place.as_ref().is_some_and(|held| held.is_present(end, id)) {
            *place = renewed(place.take(), (end, id), find);
        }
        place.as_mut().map(then)
    };
    // The server has drawn the number at random.
    let used = HELD.try_with(|all| run(&mut all.borrow_mut()[id.0 as usize % PLACES]));
    // A thread that ends may still release a binding.
    used.unwrap_or_else(|_| run(&mut None))
}

#[cold]
fn renewed(
    held: Option<Held>,
    (end, id): (u64, BindingId),
    find: impl FnOnce() -> Option<Arc<SealedBinding>>,
) -> Option<Held> {
    match held.filter(|held| held.is_of(end, id) && !held.binding.has_ended()) {
        Some(held) => Some(Held { seal: held.binding.present(), ..held }),
        None => {
            find().map(|binding| Held { end, seal: binding.present(), binding, numbers: Numbers::default() })
        }
    }
}

impl Held {
    #[inline]
    fn is_of(&self, end: u64, id: BindingId) -> bool {
        self.end == end && self.binding.id == id
    }

    #[inline]
    fn is_present(&self, end: u64, id: BindingId) -> bool {
        self.is_of(end, id) && self.binding.is_in(self.seal.phase())
    }

    /// Seals a packet whose data ends at `end`. `false`: it cannot be sealed.
    pub(super) fn seal(&mut self, packet: &mut [u8], end: usize) -> bool {
        self.seal_by(|seal, numbers| seal.seal(numbers, packet, end))
    }

    /// The same, with `data` in place of the bytes between the packet's header and its trailer.
    pub(super) fn seal_from(&mut self, packet: &mut [u8], data: &[u8]) -> bool {
        self.seal_by(|seal, numbers| seal.seal_from(numbers, packet, data))
    }

    #[inline(always)]
    fn seal_by(&mut self, seal: impl FnOnce(&Seal<PacketSuite>, &mut Numbers) -> bool) -> bool {
        if !self.binding.is_own() {
            return false;
        }
        if self.numbers.are_used_up() {
            self.look();
        }
        let is_sealed = seal(&self.seal, &mut self.numbers);
        if !is_sealed {
            self.look();
        }
        is_sealed
    }

    /// Goes on to the next phase if it is time to.
    fn look(&mut self) {
        let now_ns = clock::now_ns();
        if self.seal.is_due(now_ns) {
            self.go_on(now_ns, false);
        }
    }

    #[cold]
    fn go_on(&mut self, now_ns: u64, by_peer: bool) {
        self.binding.go_on(self.seal.phase(), now_ns, by_peer);
        self.seal = self.binding.present();
    }

    /// Opens a packet.
    pub(super) fn open(&mut self, packet: &mut [u8]) -> bool {
        let Some(end) = data_end(packet) else { return false };
        // The clock matters for packets of the phase before only.
        let is_of_present = (packet[3] & KEY_PHASE != 0) == (self.seal.phase() & 1 == 1);
        let now_ns = if is_of_present { 0 } else { clock::now_ns() };
        match self.seal.open(now_ns, packet, end) {
            Opened::Yes => {}
            Opened::InNextPhase => self.go_on(now_ns, true),
            Opened::No => return false,
        }
        self.binding.has_opened();
        !Bundle::is_one(packet) || Bundle::of(packet).is_some()
    }
}

/// Where the data of a sealed packet ends; `None`: it is no packet.
#[inline]
fn data_end(packet: &mut [u8]) -> Option<usize> {
    let header: &[u8; HEADER_LEN] = packet.first_chunk()?;
    let is_call_or_result = header[2] == Kind::Call as u8 || header[2] == Kind::Result as u8;
    let is_plain = header[3] & (flags::CRITICAL ^ KEY_PHASE) == 0;
    match is_call_or_result && is_plain && header[24..28] == [0; 4] {
        // Most are one message. Nothing is stored: a processor that then reads the header as whole words would wait for it.
        true => Some(HEADER_LEN.saturating_add(u32::from_le_bytes(*header[20..].first_chunk()?) as usize)),
        false => parsed_end(packet),
    }
}

/// The same, of any packet.
fn parsed_end(packet: &mut [u8]) -> Option<usize> {
    let of_seal = packet[3] & (KEY_PHASE | flags::BUNDLE);
    packet[3] ^= of_seal;
    let end = Header::parse(packet).ok().map(|(_, payload)| HEADER_LEN + payload.len());
    packet[3] ^= of_seal;
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_ends_where_the_parsed_header_says_whatever_the_seal_has_set_in_it() {
        for (kind, flags) in (0..32).flat_map(|kind| (0..=255).map(move |flags| (kind, flags))) {
            for (len, offset) in [(0_u32, 0_u32), (8, 0), (8, 4), (8, 8), (2000, 8)] {
                let mut packet = [&[0xd7, 1, kind, flags, 0, 0, 8, 0][..], &[0; 56]].concat();
                packet[15] = 0x40;
                packet[20..24].copy_from_slice(&len.to_le_bytes());
                packet[24..28].copy_from_slice(&offset.to_le_bytes());
                let as_sent = packet.clone();
                if let Some(end) = parsed_end(&mut packet) {
                    assert_eq!(
                        data_end(&mut packet),
                        Some(end),
                        "kind {kind}, flags {flags:x}, {len}, {offset}"
                    );
                }
                assert_eq!(packet, as_sent);
            }
        }
    }
}
