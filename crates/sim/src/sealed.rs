//! Sealed worlds: packets are sealed as in the runtime, with a toy cipher, and an attacker on the way repeats, changes and makes up packets.
//!
//! Bind requests and their answers stand for messages of TLS: the attacker can lose and repeat them, and not change them. Handshakes are not
//! simulated.

use crate::bundles::unprotected_mark;
use crate::events::{Event, Place};
use crate::world::{CallerEnd, End, Seen};
use crate::{Address, Random, Sabotage, Side, Sim};
use core::time::Duration;
use stoop_exchange::Instant;
use stoop_seal::toy::Toy;
use stoop_seal::{HEADER_LEN, KEY_PHASE, NUMBER_LEN, Numbers, Opened, Seal, Secret, TRAILER_LEN};
use stoop_wire::{BindingId, Bundle, Header, Kind, RefusalCode, flags};

/// Packets that the attacker remembers.
const REMEMBERED: usize = 64;

/// Hints that a binding is lost after which a caller binds again, and the least age of the binding, as in the runtime.
const HINTS: u32 = 2;
const HINTED_AFTER: Duration = Duration::from_secs(1);

fn end_of(side: stoop_seal::Side, BindingId(binding): BindingId, now: Instant) -> End {
    let secret = |of: u8| -> Secret {
        let mut secret = [of; 32];
        secret[..8].copy_from_slice(&binding.to_le_bytes());
        secret
    };
    End {
        seal: Seal::new(Toy, side, secret(1), secret(2), now.as_nanos()),
        numbers: Numbers::default(),
        kept: Vec::new(),
    }
}

fn binding_of(packet: &[u8]) -> BindingId {
    packet.first_chunk().map_or(BindingId::NONE, BindingId::of_header)
}

/// Whether it is one of the messages that TLS carries.
fn is_of_handshake(packet: &[u8]) -> bool {
    let kinds = [Kind::Bind, Kind::BindReply, Kind::Describe, Kind::Description];
    packet.get(2).is_some_and(|kind| kinds.iter().any(|of_handshake| *kind == *of_handshake as u8))
}

fn is_of_unknown_binding(packet: &[u8]) -> bool {
    Header::parse(packet).is_ok_and(|(header, _)| {
        header.kind == Kind::Refusal && header.refused().code == RefusalCode::UnknownBinding
    })
}

/// Where the data of a packet ends.
fn data_end(packet: &[u8]) -> Option<usize> {
    let mut clear = packet.to_vec();
    *clear.get_mut(3)? &= !(KEY_PHASE | flags::BUNDLE);
    Header::parse(&clear).ok().map(|(_, payload)| HEADER_LEN + payload.len())
}

impl End {
    /// Opens a packet, and goes on to the next phase if it is of that. `keeps`: former keys are kept.
    fn opens(&mut self, now: Instant, packet: &mut [u8], keeps: bool) -> bool {
        let (Some(end), sealed) = (data_end(packet), packet.to_vec()) else { return false };
        match self.seal.open(now.as_nanos(), packet, end) {
            Opened::Yes => true,
            Opened::InNextPhase => {
                self.go_on(now, true, keeps);
                true
            }
            Opened::No => self.kept.iter().any(|former| {
                packet.copy_from_slice(&sealed);
                former.open(now.as_nanos(), packet, end) == Opened::Yes
            }),
        }
    }

    fn go_on(&mut self, now: Instant, by_peer: bool, keeps: bool) {
        let next = self.seal.next(now.as_nanos(), by_peer);
        let former = core::mem::replace(&mut self.seal, next);
        self.kept.extend(keeps.then_some(former));
    }
}

impl Sim {
    /// The packet as it leaves; `None`: its sender cannot seal it. One of the server that names no binding of its own leaves as it is.
    pub(crate) fn sealed(&mut self, from: Side, packet: Vec<u8>) -> Option<Vec<u8>> {
        let binding = binding_of(&packet);
        if !self.scenario.sealed || !binding.is_sealed() || is_of_handshake(&packet) {
            return Some(packet);
        }
        if from == Side::Server && is_of_unknown_binding(&packet) {
            return Some(packet);
        }
        let packet = self.gathered(from, binding, packet)?;
        let (now, life, sabotage) = (self.now, self.server.life, self.sabotage);
        let reuses = self.sabotage == Sabotage::ReusesNumber && from == Side::Caller;
        let keeps = self.sabotage == Sabotage::KeepsOldPhases;
        let goes_on = self.random.chance(self.scenario.phases);
        let own = match from {
            Side::Caller => &mut self.caller_end(binding, now).end,
            Side::Server => self.sealing.servers.get_mut(&(life, binding.0))?,
        };
        if reuses {
            *own = end_of(stoop_seal::Side::Caller, binding, now);
        }
        if goes_on && own.seal.may_go_on(now.as_nanos()) {
            own.go_on(now, false, keeps);
        }
        let end = data_end(&packet)?;
        let mut sealed = packet[..end].to_vec();
        sealed.resize(end + TRAILER_LEN, 0);
        let mark = unprotected_mark(sabotage, &mut sealed);
        if !own.seal.seal(&mut own.numbers, &mut sealed, end) {
            return None;
        }
        sealed[3] |= mark;
        let number = sealed[end..][..NUMBER_LEN].try_into().map_or(0, u64::from_le_bytes);
        if !self.sealing.used.insert((from, binding.0, number)) {
            self.ledger.complain(format!("the number {number} is used twice on {binding:?}"));
        }
        Some(sealed)
    }

    fn caller_end(&mut self, binding: BindingId, now: Instant) -> &mut CallerEnd {
        let new = || CallerEnd { end: end_of(stoop_seal::Side::Caller, binding, now), hints: 0, begun: now };
        self.sealing.callers.entry(binding.0).or_insert_with(new)
    }

    /// The server has granted a binding.
    pub(crate) fn server_seals(&mut self, binding: BindingId) {
        let now = self.now;
        let new = || end_of(stoop_seal::Side::Server, binding, now);
        self.sealing.servers.entry((self.server.life, binding.0)).or_insert_with(new);
    }

    /// The phase of a caller's end of a sealed binding.
    pub(crate) fn phase_of(&self, binding: BindingId) -> u32 {
        self.sealing.callers.get(&binding.0).map_or(0, |end| end.end.seal.phase())
    }

    /// Opens a packet at the server. `false`: it is dropped.
    pub(crate) fn opens_at_server(&mut self, packet: &mut [u8]) -> bool {
        let binding = binding_of(packet);
        if !self.scenario.sealed || !binding.is_sealed() || is_of_handshake(packet) {
            return true;
        }
        let (now, keeps) = (self.now, self.sabotage == Sabotage::KeepsOldPhases);
        let mark = unprotected_mark(self.sabotage, packet);
        let opened = match self.sealing.servers.get_mut(&(self.server.life, binding.0)) {
            Some(own) => own.opens(now, packet, keeps),
            // It is refused, unless the exchange knows its binding.
            None => !self.server.server.as_mut().is_some_and(|server| server.is_bound(binding)),
        };
        packet[3] |= mark;
        if !self.server.server.as_mut().is_some_and(|server| server.is_bound(binding)) {
            // A bundle of a binding that is not known is answered as its first call.
            packet[3] &= !flags::BUNDLE;
        }
        self.report.forged += u64::from(!opened);
        opened
    }

    /// Opens a packet at a caller whose binding this is. `false`: it is dropped.
    pub(crate) fn opens_at_caller(&mut self, own: BindingId, packet: &mut [u8]) -> bool {
        if !self.scenario.sealed || !binding_of(packet).is_sealed() {
            return true;
        }
        let (now, believes) = (self.now, self.sabotage == Sabotage::BelievesHints);
        let is_own = binding_of(packet) == own;
        let mark = unprotected_mark(self.sabotage, packet);
        let end = self.caller_end(own, now);
        if is_own && packet.len() >= HEADER_LEN + TRAILER_LEN && end.end.opens(now, packet, false) {
            end.hints = 0;
            packet[3] |= mark;
            return true;
        }
        if !is_own || !is_of_unknown_binding(packet) {
            self.report.forged += 1;
            return false;
        }
        end.hints += 1;
        let is_enough = end.hints >= HINTS && now.since(end.begun) >= HINTED_AFTER;
        self.report.hints += 1;
        is_enough || believes
    }

    /// The attacker sees a packet, and perhaps sends another.
    pub(crate) fn is_seen(&mut self, from: Side, (caller, server): (Address, Place), packet: &[u8]) {
        if !self.scenario.sealed {
            return;
        }
        let seen = Seen { from, caller, server, packet: packet.to_vec() };
        let place = match self.sealing.seen.len() {
            len @ ..REMEMBERED => len,
            _ => self.random.below(REMEMBERED as u64) as usize,
        };
        match self.sealing.seen.get_mut(place) {
            Some(forgotten) => *forgotten = seen,
            None => self.sealing.seen.push(seen),
        }
        if !self.random.chance(self.scenario.attacks) {
            return;
        }
        let mut choose = || self.random.below(self.sealing.seen.len() as u64) as usize;
        let (chosen, other) = (choose(), choose());
        // Often it acts at once on what it has just seen.
        let is_at_once = self.random.chance(400);
        let chosen = if is_at_once { place } else { chosen };
        let Seen { from, caller, server, packet } = self.sealing.seen[chosen].clone();
        let other = binding_of(&self.sealing.seen[other].packet);
        let (to, packet) = match is_of_handshake(&packet) {
            true => (from, packet),
            false => {
                // A server tells it in its refusals.
                let incarnation = self.callers.iter().find_map(|caller| caller.binding.as_ref());
                let incarnation = incarnation.map_or(0, |granted| granted.bound.incarnation);
                changed((from, packet), (other, incarnation), &mut self.random)
            }
        };
        let micros = Duration::from_micros;
        let later = self.random.pick(&[
            micros(1),
            micros(1_000),
            micros(50_000),
            micros(3_000_000),
            micros(600_000_000),
        ]);
        let later = if is_at_once { micros(100) } else { later };
        let at = self.now + self.random.between((Duration::ZERO, later));
        // So many hints, with nothing in between, are what a caller acts upon.
        let copies = if is_of_unknown_binding(&packet) { HINTS } else { 1 };
        for _ in 0..copies {
            let packet = packet.clone();
            self.report.attacks += 1;
            let event = match to {
                Side::Caller => Event::ToServer { from: caller, to: server, packet },
                Side::Server => Event::ToCaller { to: caller, packet },
            };
            self.events.plan(at, event);
        }
    }
}

/// What the attacker makes of a packet, and the end that it shall seem to come from.
fn changed(
    (from, mut packet): (Side, Vec<u8>),
    (other, incarnation): (BindingId, u64),
    random: &mut Random,
) -> (Side, Vec<u8>) {
    let reflected = match from {
        Side::Caller => Side::Server,
        Side::Server => Side::Caller,
    };
    if Bundle::is_one(&packet) && random.chance(200) {
        packet[3] ^= flags::BUNDLE;
        return (from, packet);
    }
    match random.below(8) {
        0 | 1 => {}
        2 => {
            let bit = random.below(8 * packet.len() as u64) as usize;
            packet[bit / 8] ^= 1 << (bit % 8);
        }
        3 => packet.truncate(random.below(packet.len() as u64) as usize),
        4 => return (reflected, packet),
        // Another lane, or another call of it.
        5 => packet[4 + 12 * random.below(2) as usize] ^= 1 + random.below(3) as u8,
        6 if packet.len() >= HEADER_LEN => packet[8..16].copy_from_slice(&other.0.to_le_bytes()),
        // Without a seal.
        _ => {
            packet.truncate(HEADER_LEN);
            let kinds =
                [Kind::Refusal, Kind::Refusal, Kind::Unbind, Kind::Call, Kind::Result, Kind::Acknowledgement];
            if packet.len() == HEADER_LEN {
                packet[2] = random.pick(&kinds) as u8;
                packet[3] = 0;
                packet[20..24].fill(0);
                if packet[2] == Kind::Refusal as u8 {
                    // The server has released the binding.
                    packet[6..8].fill(0xff);
                    packet[20..28].copy_from_slice(&incarnation.to_le_bytes());
                    packet[28..32].copy_from_slice(&RefusalCode::UnknownBinding.code().to_le_bytes());
                    return (Side::Server, packet);
                }
            }
        }
    }
    (from, packet)
}
