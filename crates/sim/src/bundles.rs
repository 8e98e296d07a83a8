//! Bundles of sealed worlds: short calls that a caller sends soon one after the other are sealed as one packet, and so are their results.

use crate::world::{Bundled, Waiting};
use crate::{Sabotage, Side, Sim};
use core::time::Duration;
use stoop_wire::{BindingId, Bundle, HEADER_LEN, Kind, flags};

/// A packet waits so long for others at most. It is lost if none comes: the caller sends its call again.
const WAITS: Duration = Duration::from_millis(1);

/// Packets of a bundle.
const MOST: usize = 4;

/// The binding, the lane and the number of a packet's call.
fn call_of(packet: &[u8]) -> Option<Bundled> {
    let word = |at: usize| Some(u32::from_le_bytes(packet.get(at..at + 4)?.try_into().ok()?));
    let lane = u16::from_le_bytes(packet.get(4..6)?.try_into().ok()?);
    Some((BindingId::of_header(packet.first_chunk()?).0, lane, word(16)?))
}

/// With the mistake that the seal does not protect the mark of bundles: takes it off a packet, and returns it.
pub(crate) fn unprotected_mark(sabotage: Sabotage, packet: &mut [u8]) -> u8 {
    if sabotage != Sabotage::UnprotectedBundles || packet.len() < HEADER_LEN {
        return 0;
    }
    let mark = packet[3] & flags::BUNDLE;
    packet[3] &= !mark;
    mark
}

impl Sim {
    /// A packet that is to be sealed, alone or with others that have waited; `None`: it waits for others.
    pub(crate) fn gathered(&mut self, from: Side, binding: BindingId, packet: Vec<u8>) -> Option<Vec<u8>> {
        let kind = if from == Side::Caller { Kind::Call } else { Kind::Result };
        if self.scenario.bundles == 0 || packet[2] != kind as u8 {
            return Some(packet);
        }
        // Answers to calls that came alone leave alone.
        if from == Side::Server && !call_of(&packet).is_some_and(|call| self.sealing.bundled.remove(&call)) {
            return Some(packet);
        }
        let (now, waits_for_more) = (self.now, self.random.chance(self.scenario.bundles));
        let waiting = self.sealing.waiting.entry((from, binding.0)).or_default();
        waiting.retain(|Waiting { since, .. }| now.since(*since) <= WAITS);
        let len = waiting.iter().map(|each| each.packet.len()).chain([packet.len()]).max().unwrap_or(0);
        let apart = len.next_multiple_of(8);
        if waiting.len() >= Bundle::most(apart) {
            return Some(packet);
        }
        waiting.push(Waiting { since: now, packet });
        if waits_for_more && waiting.len() < MOST {
            return None;
        }
        let mut packets: Vec<_> = waiting.drain(..).map(|each| each.packet).collect();
        let last = packets.pop()?;
        if packets.is_empty() {
            return Some(last);
        }
        packets.iter_mut().for_each(|packet| packet.resize(apart, 0));
        let packets = [packets.concat(), last].concat();
        self.report.bundles += 1;
        Some([&Bundle::header(kind, &packets, apart)[..], &packets].concat())
    }

    /// The packets of one that an end has opened, or the packet itself. Empty: it is dropped.
    pub(crate) fn unbundled(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        if !self.scenario.sealed || !Bundle::is_one(packet) {
            return vec![packet.to_vec()];
        }
        if Bundle::of(packet).is_none() {
            self.report.forged += 1;
            return Vec::new();
        }
        Bundle::packets_in(packet).map(<[u8]>::to_vec).collect()
    }

    /// The server has received these calls in one packet.
    pub(crate) fn came_together(&mut self, packets: &[Vec<u8>]) {
        if packets.len() > 1 {
            self.sealing.bundled.extend(packets.iter().filter_map(|packet| call_of(packet)));
        }
    }
}
