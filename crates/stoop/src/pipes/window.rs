//! How many bytes the sender of a pipe may have sent that the program at the other end has not taken.

/// How many bytes the sender of a pipe may have sent that the program at the other end has not taken, for
/// `client.with_window(…)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Window {
    /// 16 KiB at first, and more while that keeps the reader waiting: on one machine to 128 KiB, or 256 KiB from a procedure over UDP and
    /// Ethernet, and to 1 MiB where the way there and back takes longer.
    #[default]
    Usual,
    /// One item at a time: the reader is at most one item behind the sender, which may [skip](crate::Sender::send_latest) others.
    Newest,
    /// About so many bytes. An item that is longer arrives nevertheless.
    Bytes(u32),
}

/// The window of a pipe at its receiving end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    bytes: u32,
    /// The most where the way there and back is short; 0: it does not grow.
    near: u32,
    /// Bytes below this offset were sent under a smaller window: that their sender waited says nothing of this one.
    judged_from: u64,
}

/// The most that a window grows to, and where the way there and back is short: more would only wait in sockets, before the results of other
/// calls. At callers over packets, whose receiver hands on several items at a time, that limit is another.
const MOST: u32 = 1 << 20;
const MOST_NEAR: u32 = 128 << 10;
const MOST_NEAR_OF_PACKETS: u32 = 256 << 10;
/// If the reader waits so long for bytes whose sender waits for a higher limit, the way there and back is long.
const FAR_NS: u64 = 100_000;

impl Window {
    pub(crate) fn size(self) -> Size {
        match self {
            Self::Usual => Size::new(super::contract::FIRST_WINDOW as u32, MOST_NEAR),
            Self::Newest => Size::new(1, 0),
            Self::Bytes(bytes) => Size::new(bytes.max(1), 0),
        }
    }
}

/// What follows from the word that the program has taken the bytes before an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credit {
    /// The bytes below may be sent, and the sender is to be told.
    pub(crate) limit: Option<u64>,
    /// The offset from which on the program is to say so again.
    pub(crate) next: u64,
    /// The limit is higher than the window, for an item that has begun to arrive.
    pub(crate) is_needed: bool,
}

impl Size {
    fn new(bytes: u32, near: u32) -> Self {
        Self { bytes, near, judged_from: 0 }
    }

    /// As that of a caller which receives packets.
    pub(crate) fn of_packets(self) -> Self {
        Self { near: if self.grows() { MOST_NEAR_OF_PACKETS } else { 0 }, ..self }
    }

    pub(crate) fn bytes(self) -> u64 {
        self.bytes.into()
    }

    fn grows(self) -> bool {
        self.near > 0
    }

    /// Whether it grows only if the reader has waited long.
    pub(crate) fn asks_how_long(self) -> bool {
        self.grows() && (self.near..MOST).contains(&self.bytes)
    }

    /// Sender and reader have waited for each other before that offset, when the program had taken that much, the reader for so long: the
    /// window is too small for the way there and back.
    pub(crate) fn widen(&mut self, at: u64, taken: u64, waited_ns: u64) {
        if self.grows() && at >= self.judged_from && (waited_ns >= FAR_NS || !self.asks_how_long()) {
            self.bytes = self.bytes.saturating_mul(2).min(MOST);
            self.judged_from = taken + self.bytes();
        }
    }

    /// The program has taken the bytes before `up_to` of those that have arrived, and its sender knows that limit. It waits for an item
    /// that ends at `wanted`, if one has begun to arrive.
    pub(crate) fn take(&mut self, up_to: u64, wanted: Option<u64>, (arrived, limit): (u64, u64)) -> Credit {
        let reader_waits = up_to == arrived || wanted.is_some();
        if reader_waits && arrived >= limit {
            // So does the sender, until the word has reached it.
            self.widen(arrived, up_to, 0);
        }
        let quarter = (self.bytes() / 4).max(1);
        let (usual, needed) = (up_to + self.bytes(), wanted.unwrap_or(0));
        let is_due = usual.max(needed) >= limit + quarter || needed > limit;
        Credit {
            limit: is_due.then_some(usual.max(needed)),
            next: up_to + quarter,
            is_needed: needed > usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes items of that length as soon as they have come, from a sender that always has another and learns a limit when all that it
    /// may send has been taken, so much later. Returns the window in the end.
    fn taken_at_once(mut size: Size, item: u64, later_ns: u64) -> u64 {
        const PACKET: u64 = 65_528;
        let (mut limit, mut arrived, mut taken, mut next) = (size.bytes(), 0, 0, 1);
        for round in 0..100 {
            if round > 0 {
                // The next bytes come with the word that they have waited.
                size.widen(arrived, taken, later_ns);
            }
            let known = limit;
            while arrived < known {
                let end = (arrived / item + 1) * item;
                arrived = end.min(arrived + PACKET);
            }
            let mut take = |taken, wanted| {
                let credit = size.take(taken, wanted, (arrived, limit));
                limit = credit.limit.unwrap_or(limit);
                credit.next
            };
            while taken + item <= arrived {
                taken += item;
                if taken >= next {
                    next = take(taken, None);
                }
            }
            next = take(taken, (taken < arrived).then_some(taken + item));
            assert!(limit > known, "nobody goes on at {arrived}");
        }
        size.bytes()
    }

    #[test]
    fn a_window_that_keeps_the_reader_waiting_grows_to_its_limit_for_items_of_any_length() {
        for item in [1, 64, 1000, 16_384, 65_536, 65_544, 3 << 20] {
            for (later_ns, most) in [(FAR_NS, MOST), (FAR_NS - 1, MOST_NEAR)] {
                assert_eq!(taken_at_once(Window::Usual.size(), item, later_ns), most.into(), "{item} bytes");
                assert_eq!(taken_at_once(Window::Newest.size(), item, later_ns), 1);
                assert_eq!(taken_at_once(Window::Bytes(5000).size(), item, later_ns), 5000);
            }
            let of_packets = taken_at_once(Window::Usual.size().of_packets(), item, FAR_NS - 1);
            assert_eq!(of_packets, MOST_NEAR_OF_PACKETS.into());
        }
    }

    #[test]
    fn a_window_does_not_grow_while_the_reader_has_items_or_the_sender_has_room() {
        let mut size = Window::Usual.size();
        let first = size.bytes();
        let slow_reader = size.take(first / 2, None, (first, first));
        assert_eq!(slow_reader.limit, Some(first + first / 2));
        size.take(first, None, (first, first + first / 2));
        assert_eq!(size.bytes(), first);
    }
}
