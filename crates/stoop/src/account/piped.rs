//! What the pipes of recorded calls have carried, and how long programs waited for them.
//!
//! The ends of a recorded call's pipes are inside of others, which count. A binding or server without an account has none of these, so that
//! nothing is added to its pipes.

use crate::pipes::contract::{Arrival, Close, Ends, ReceivingEnd, SendingEnd};
use crate::pipes::error::PipeError;
use crate::pipes::record::{Head, Record};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;
use stoop_net::clock;

/// What the pipes of a procedure's calls have carried at this end, and how long programs waited there.
///
/// ```
/// use stoop::account::PipedItems;
///
/// /// Whether the procedure's sender mostly waits for its reader.
/// fn has_slow_reader(before: &PipedItems, now: &PipedItems, between: std::time::Duration) -> bool {
///     now.waited_for_room - before.waited_for_room > between / 2
/// }
/// # assert!(!has_slow_reader(&PipedItems::default(), &PipedItems::default(), std::time::Duration::ZERO));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, stoop_macros::Data)]
#[non_exhaustive]
pub struct PipedItems {
    /// Items that were sent here.
    pub sent: u64,
    /// How often the program waited for room to send.
    pub waits_for_room: u64,
    /// How long, altogether.
    pub waited_for_room: Duration,
    /// Items that were received here.
    pub received: u64,
    /// How often the program waited for an item.
    pub waits_for_items: u64,
    /// How long, altogether.
    pub waited_for_items: Duration,
}

/// The same of an interface's procedures, while calls go on.
pub(crate) struct PipeCounts(Arc<[Counts]>);

#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    room: Waits,
    received: AtomicU64,
    items: Waits,
}

#[derive(Default)]
struct Waits {
    count: AtomicU64,
    took_ns: AtomicU64,
}

impl Waits {
    fn add(&self, begun_ns: u64) {
        self.count.fetch_add(1, Relaxed);
        self.took_ns.fetch_add(clock::now_ns().saturating_sub(begun_ns), Relaxed);
    }

    fn copy(&self) -> (u64, Duration) {
        (self.count.load(Relaxed), Duration::from_nanos(self.took_ns.load(Relaxed)))
    }
}

impl PipeCounts {
    pub(crate) fn new(procedures: usize) -> Self {
        Self((0..procedures).map(|_| Counts::default()).collect())
    }

    /// The ends of the pipes of a call of that procedure, which count.
    pub(crate) fn count(&self, procedure: usize, ends: Ends) -> Ends {
        let place = || Place { counts: Arc::clone(&self.0), procedure, polled_ns: AtomicU64::new(0) };
        Ends {
            sending: ends.sending.map(|end| Arc::new(Counted { end, place: place() }) as _),
            receiving: ends.receiving.map(|end| Arc::new(Counted { end, place: place() }) as _),
        }
    }

    /// What has been counted of a procedure.
    pub(crate) fn of(&self, procedure: usize) -> PipedItems {
        let Counts { sent, room, received, items } = &self.0[procedure];
        let (waits_for_room, waited_for_room) = room.copy();
        let (waits_for_items, waited_for_items) = items.copy();
        let (sent, received) = (sent.load(Relaxed), received.load(Relaxed));
        PipedItems { sent, waits_for_room, waited_for_room, received, waits_for_items, waited_for_items }
    }
}

impl PipedItems {
    /// Whether nothing was carried, and nobody waited.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Where an end counts.
struct Place {
    counts: Arc<[Counts]>,
    procedure: usize,
    /// Since when a task waits; 0: it does not.
    polled_ns: AtomicU64,
}

impl Place {
    fn counts(&self) -> &Counts {
        &self.counts[self.procedure]
    }

    /// A task has looked for something that was there, or not.
    fn polled(&self, is_there: bool, waits: &Waits) -> bool {
        match (is_there, self.polled_ns.load(Relaxed)) {
            (false, 0) => self.polled_ns.store(clock::now_ns(), Relaxed),
            (true, begun_ns) if begun_ns > 0 => {
                self.polled_ns.store(0, Relaxed);
                waits.add(begun_ns);
            }
            _ => {}
        }
        is_there
    }
}

struct Counted<E: ?Sized> {
    place: Place,
    end: Arc<E>,
}

impl SendingEnd for Counted<dyn SendingEnd> {
    fn append(&self, record: &Record<'_>) -> Result<bool, PipeError> {
        let appended = self.end.append(record)?;
        self.place.counts().sent.fetch_add(appended.into(), Relaxed);
        Ok(appended)
    }

    fn append_patiently(&self, record: &Record<'_>) -> Result<bool, PipeError> {
        let appended = self.end.append_patiently(record)?;
        self.place.counts().sent.fetch_add(appended.into(), Relaxed);
        Ok(appended)
    }

    fn append_latest(&self, key: u64, record: &Record<'_>) -> Result<(), PipeError> {
        self.end.append_latest(key, record)?;
        self.place.counts().sent.fetch_add(1, Relaxed);
        Ok(())
    }

    fn over(&self) -> Option<PipeError> {
        self.end.over()
    }

    fn has_room(&self) -> bool {
        self.end.has_room()
    }

    fn wait_for_room(&self, until_ns: u64) {
        let begun_ns = clock::now_ns();
        self.end.wait_for_room(until_ns);
        self.place.counts().room.add(begun_ns);
    }

    fn poll_room(&self, waker: &Waker) -> bool {
        self.place.polled(self.end.poll_room(waker), &self.place.counts().room)
    }

    fn flush(&self) {
        self.end.flush();
    }

    fn grant(&self, limit: u64) {
        self.end.grant(limit);
    }

    fn close(&self, how: Close) {
        self.end.close(how);
    }

    fn step_ns(&self) -> u64 {
        self.end.step_ns()
    }

    fn item_max(&self) -> usize {
        self.end.item_max()
    }
}

impl Counted<dyn ReceivingEnd> {
    /// How many whole items are there.
    fn items_in(&self, mut bytes: &[u8]) -> u64 {
        let mut items = 0;
        while let Ok(Some(head)) = Head::of(bytes, self.end.item_max())
            && let Some((_, behind)) = bytes.split_at_checked(head.record_len())
        {
            (bytes, items) = (behind, items + 1);
        }
        items
    }
}

impl ReceivingEnd for Counted<dyn ReceivingEnd> {
    fn take(&self, into: &mut Vec<u8>) -> Result<Arrival, PipeError> {
        let before = self.items_in(into);
        let arrival = self.end.take(into)?;
        self.place.counts().received.fetch_add(self.items_in(into) - before, Relaxed);
        Ok(arrival)
    }

    fn has_arrived(&self) -> bool {
        self.end.has_arrived()
    }

    fn taken(&self, up_to: u64, wanted: Option<u64>) -> u64 {
        self.end.taken(up_to, wanted)
    }

    fn wait_for_bytes(&self, until_ns: u64) {
        let begun_ns = clock::now_ns();
        self.end.wait_for_bytes(until_ns);
        self.place.counts().items.add(begun_ns);
    }

    fn poll_bytes(&self, waker: &Waker) -> bool {
        self.place.polled(self.end.poll_bytes(waker), &self.place.counts().items)
    }

    fn poll_bytes_at_once(&self, waker: &Waker) -> bool {
        self.place.polled(self.end.poll_bytes_at_once(waker), &self.place.counts().items)
    }

    fn rest(&self) {
        self.end.rest();
    }

    fn stop(&self) {
        self.end.stop();
    }

    fn item_max(&self) -> usize {
        self.end.item_max()
    }
}
