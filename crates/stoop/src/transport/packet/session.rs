//! A session: a server's grant to a binding, and the lanes of that grant.

use crate::calling::sessions::Generation;
use crate::transport::packet::link::CallerEndpoint;
use crate::transport::packet::now;
use crate::transport::packet::protection::Protection;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stoop_exchange::binder::Bound;
use stoop_exchange::bulk::Path;
use stoop_exchange::caller::{Lanes, Lost};
use stoop_exchange::outcome::{Evidence, Grant, Unbound, Verdict};
use stoop_exchange::{Instant, RoundTrip, caller};
use stoop_net::host;
use stoop_net::waiting::Placement;
use stoop_wire::bind::HostFacts;
use stoop_wire::{HEADER_LEN, LaneId, MAX_DATAGRAM};

/// A grant of a server.
pub(crate) struct Session {
    /// How many sessions of the binding there were before it.
    pub(crate) generation: u64,
    pub(crate) uri: String,
    /// The server's address.
    pub(crate) server: String,
    pub(crate) bound: Bound,
    /// The round trip that binding measured.
    pub(crate) round_trip: RoundTrip,
    pub(crate) placement: Placement,
    /// The server runs on this machine, so that no network repeats packets.
    pub(crate) is_here: bool,
    /// The refusal because of which it replaced the session before it.
    pub(crate) because: Option<Unbound>,
    /// When the grant was read, by a clock that goes on while the machine sleeps.
    pub(crate) read: Instant,
    /// How long this machine had been asleep then, in nanoseconds.
    pub(crate) asleep_ns: u64,
    /// This machine.
    pub(crate) own: HostFacts,
    /// The mechanism of the endpoint on which the first lane makes its calls.
    pub(crate) mechanism: String,
    /// Bytes of the longest arguments.
    pub(crate) longest_call: usize,
    /// How long the server may be silent about a call before the call is given up.
    pub(crate) silence_limit: Duration,
    /// The path to the server, which the large calls of all threads share; made for the first of them.
    pub(crate) path: OnceLock<Mutex<Path>>,
    pub(crate) lanes: Mutex<Lanes>,
    /// Lanes that the server grants. It refuses calls on others.
    pub(crate) most_lanes: u16,
    /// When the caller heard that the server shuts down: it finishes the calls that it has, and refuses others. 0: it does not.
    pub(crate) closing_ns: AtomicU64,
    /// What protects its packets.
    pub(crate) protection: Protection,
    /// Packets whose checksum was wrong or missing, in all sessions of the binding.
    pub(crate) corrupt: Arc<AtomicU64>,
}

/// Lanes of a session, however many the server grants.
pub(crate) const MOST_LANES: u16 = 16_384;

/// One of this many granted lanes is reserved for threads that wait for their calls.
const FOR_THREADS: u16 = 16;

impl Generation for Session {
    fn generation(&self) -> u64 {
        self.generation
    }
}

impl Session {
    /// Has the system keep the packets that a closed port sends back, if the server runs on this machine: over a network, they prove
    /// nothing about other copies of the packet.
    pub(crate) fn prepare(&self, endpoint: &impl CallerEndpoint) {
        if self.is_here {
            endpoint.keep_sent_back();
        }
    }

    /// Gives `take` the beginnings of the packets that a closed port has sent back.
    #[cold]
    pub(crate) fn take_sent_back(&self, endpoint: &impl CallerEndpoint, mut take: impl FnMut(&[u8])) {
        if !self.is_here {
            return;
        }
        let mut packet = [0; HEADER_LEN];
        while let Some(len) = endpoint.next_sent_back(&mut packet) {
            take(&packet[..len]);
        }
    }

    /// Whether the latest call of `lane`, which is given up, has certainly not run: each time it was sent, the server's port was
    /// closed.
    pub(crate) fn shows_closed_port(&self, lane: &caller::Lane, lost: Lost) -> bool {
        lost == Lost::PortClosed && self.is_here && lane.last_came_back()
    }

    /// Whether the latest call of `lane`, first sent on this session at `sent`, is sent again on `session`. `refusal`: how the server
    /// refused this call itself, if it did, because it did not know this session.
    pub(crate) fn verdict(
        &self,
        lane: &caller::Lane,
        (sent, refusal): (Instant, Option<Unbound>),
        session: &Self,
        idempotent: bool,
    ) -> Verdict {
        // Not later than the true time: this machine may have slept between the grant and the call.
        let first = sent.after_nanos(self.asleep_ns);
        // The refusal of another call counts if it was on the same session.
        let of_others = session.because.filter(|_| session.generation == self.generation + 1);
        let refused = refusal.or(of_others).unwrap_or(Unbound::ANOTHER_VERSION);
        let call = lane.sent(first, refused, refusal.is_some());
        let evidence = Evidence::new(&call, self.grant(), session.grant(), &session.own);
        match self.bound.binding.is_sealed() {
            true => evidence.believing_no_hints().verdict(idempotent),
            false => evidence.verdict(idempotent),
        }
    }

    /// The grant, for the exchange's decision about a call whose session was lost.
    fn grant(&self) -> Grant<'_> {
        let closing_ns = self.closing_ns.load(Ordering::Relaxed);
        let closed = (closing_ns != 0).then(|| Instant::from_nanos(closing_ns).after_nanos(self.asleep_ns));
        Grant { bound: &self.bound, read: self.read, closed }
    }

    /// The server has refused a call, or the next one, because it shuts down.
    #[cold]
    pub(crate) fn note_closing(&self) {
        // Only the first time counts.
        let _ = self.closing_ns.compare_exchange(0, now().as_nanos(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the server finishes the calls that it has, and refuses others.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing_ns.load(Ordering::Relaxed) != 0
    }

    /// The path to the server, if a long call has been made.
    pub(crate) fn known_path(&self) -> Option<MutexGuard<'_, Path>> {
        self.path.get().map(|path| path.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The path to the server, for long calls. `endpoint` leads there.
    pub(crate) fn path(&self, endpoint: &impl CallerEndpoint, round_trip: RoundTrip) -> MutexGuard<'_, Path> {
        let path = self.path.get_or_init(|| {
            let largest = self.bound.binding.data_in(endpoint.largest_packet().unwrap_or(MAX_DATAGRAM));
            let seed = u64::from_le_bytes(host::random_bytes());
            let largest = u32::try_from(largest).unwrap_or(u32::MAX);
            Mutex::new(Path::of(self.bound.binding, largest, round_trip, seed))
        });
        path.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lane that no call uses.
    pub(crate) fn lane(&self) -> caller::Lane {
        self.lanes().take(now(), self.most_lanes, |number| self.open(number))
    }

    /// A lane for begun calls; `None` while the remaining lanes are reserved for threads that wait.
    pub(crate) fn another_lane(&self) -> Option<caller::Lane> {
        let (mut lanes, now, most) = (self.lanes(), now(), self.most_lanes);
        let is_free = lanes.has_one(now, most, most.div_ceil(FOR_THREADS));
        is_free.then(|| lanes.take(now, most, |number| self.open(number)))
    }

    /// Replaces a lane whose call was given up. The lane counts from zero.
    pub(crate) fn replace_lane(&self, lane: &mut caller::Lane) {
        lane.reset_counters();
        self.lanes().replace(now(), self.most_lanes, lane, |number| self.open(number));
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, number: LaneId) -> caller::Lane {
        let seed = u64::from_le_bytes(host::random_bytes());
        let mut lane = caller::Lane::new(self.bound.binding, number, self.round_trip, seed);
        lane.set_silence_limit(self.silence_limit);
        lane
    }
}
