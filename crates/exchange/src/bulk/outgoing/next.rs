//! Chooses what a message sends next, within the limits of its path and its receiver.

use super::{Outgoing, Run};
use crate::Instant;
use crate::bulk::path::Path;

impl Outgoing {
    /// The run to send now, in at most `most_bytes` of datagrams. `None`: nothing can be sent before a receipt, a
    /// timeout, or space in the window that other messages use.
    pub fn next_run(&mut self, now: Instant, path: &mut Path, most_bytes: usize) -> Option<Run> {
        if self.since == Instant::NEVER {
            self.since = now;
        }
        if self.ask {
            return self.next_question(now, path, most_bytes);
        }
        let (start, end) = self.next_bytes()?;
        if self.waits_for_more((start, end), path) {
            return None;
        }
        if let Some(run) = self.next_probe(now, path, most_bytes, (start, end)) {
            return Some(run);
        }
        let fragment = path.fragment();
        let most = path.packets(most_bytes, fragment).saturating_mul(fragment);
        let most = self.first_of_two(most, fragment).min(end - start);
        let len = match self.len_within_window(most, end - start, path) {
            // The next packet probes a larger size, if all goes well.
            len if start == 0 && self.has_room_to_probe(now, path, len) => fragment,
            len => len,
        };
        let len = match path.paced(now, len) {
            Err(later) if self.extra == 0 => {
                self.paced_until = later;
                return None;
            }
            Err(_) => fragment.min(len),
            Ok(len) => len,
        };
        if len == 0 {
            return None;
        }
        self.extra = self.extra.saturating_sub(1);
        Some(self.send(now, path, start, len, fragment, false))
    }

    /// Most bytes to send first. A message that could be sent at once is sent in two runs, about three quarters first,
    /// so that both sides copy the next packets while the last ones travel (Peregrine §4.3).
    fn first_of_two(&self, most: u32, fragment: u32) -> u32 {
        match self.message_len {
            len if self.next == 0 && (OVERLAPPED_MIN..=most).contains(&len) => {
                (len / fragment * 3 / 4).max(1) * fragment
            }
            _ => most,
        }
    }

    /// How many of `most` bytes may be sent now; `whole`: the consecutive bytes that there are to send. Packets are
    /// full except the last.
    fn len_within_window(&self, most: u32, whole: u32, path: &mut Path) -> u32 {
        let fragment = path.fragment();
        let room = u32::try_from(path.congestion.room()).unwrap_or(u32::MAX);
        if room < most {
            path.congestion.set_full(true);
        } else if most == whole {
            path.congestion.set_full(false);
        }
        let len = room.min(most);
        // A packet that the window or the receiver's limit would cut waits until it can be full, as in RFC 9293
        // §3.8.6.2.1.
        let cut = len < whole || self.next_bytes_are_cut();
        let len = if cut { len - len % fragment } else { len };
        let must_go = self.extra > 0 || path.in_flight() == 0 || room >= most && self.sent.is_empty();
        if len == 0 && must_go { most.min(fragment) } else { len }
    }

    /// Whether the receiver's limit cuts the bytes that are sent next.
    fn next_bytes_are_cut(&self) -> bool {
        let after = match self.lost.first() {
            Some((start, end)) if start < self.limit => end,
            _ => self.message_len,
        };
        after > self.limit
    }

    fn has_room_to_probe(&self, now: Instant, path: &Path, len: u32) -> bool {
        let fragment = path.fragment();
        path.size.wanted(now).is_some_and(|size| len > fragment && size <= len - fragment)
    }

    /// A packet of a larger size than the path is known to carry, from the middle of a message. It needs space in the
    /// window as any other (RFC 8899 §3 item 8).
    fn next_probe(&mut self, now: Instant, path: &mut Path, most: usize, bytes: (u32, u32)) -> Option<Run> {
        let size = path.size.wanted(now)?;
        let fits = path.packets(most, size) > 0 && u64::from(size) <= path.congestion.room();
        if bytes.0 == 0 || bytes.1 - bytes.0 < size || !fits {
            return None;
        }
        path.size.on_probe_sent();
        Some(self.send(now, path, bytes.0, size, size, true))
    }

    /// The first fragment, which may have arrived already: every receiver answers it with a receipt.
    fn next_question(&mut self, now: Instant, path: &Path, most_bytes: usize) -> Option<Run> {
        let fragment = path.fragment();
        if path.packets(most_bytes, fragment) == 0 {
            return None;
        }
        self.ask = false;
        (self.since, self.last_sent) = (now, now);
        self.transmission = self.transmission.saturating_add(1);
        if self.is_open {
            // A packet without bytes is a question of its own.
            return Some(Run { offset: self.next, len: 0, fragment, transmission: self.transmission });
        }
        // It does not count as in flight: it says nothing about the network, and a receiver without memory does not
        // store it.
        let len = fragment.min(self.message_len);
        if self.next < len {
            self.lost.insert(self.next, len, usize::MAX);
            self.next = len;
        }
        Some(Run { offset: 0, len, fragment, transmission: self.transmission })
    }

    /// The bytes to send first: missing ones before new ones (RFC 9000 §13.3).
    pub(super) fn next_bytes(&self) -> Option<(u32, u32)> {
        let (start, end) = match self.lost.first() {
            Some((start, end)) if start < self.limit => (start, end.min(self.limit)),
            _ => (self.next, self.limit),
        };
        (start < end).then_some((start, end))
    }

    fn send(
        &mut self,
        now: Instant,
        path: &mut Path,
        offset: u32,
        len: u32,
        fragment: u32,
        probe: bool,
    ) -> Run {
        if offset == self.next {
            self.next += len;
        } else {
            self.lost.remove(offset, offset + len);
        }
        let run = Run { offset, len, fragment, transmission: self.transmission.saturating_add(1) };
        self.transmission = self.transmission.saturating_add(len.div_ceil(fragment));
        self.sent.push(run, now, probe);
        path.on_sent(len);
        (self.since, self.last_sent) = (now, now);
        run
    }
}

/// A message of at least so many bytes is sent in two runs, even if one could take it.
const OVERLAPPED_MIN: u32 = 24 * 1024;
