//! The memory of a binding, shared by all its lanes, and whether the binding is lost.

use crate::calling::sessions::Generation;
use crate::calling::unbind_notice;
use crate::error::{UnbindReason, UnknownCause};
use crate::locked::locked;
use crate::transport::shm::caller::death_watch;
use crate::transport::shm::caller::lanes::{Channels, Lane, Lanes};
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use stoop_exchange::binder::Bound;
use stoop_net::poller::Bell;
use stoop_net::stream::{Credentials, Stream};
use stoop_net::waiting::Placement;
use stoop_shm::{
    Answers, Arena, Filling, Request, RequestKind, Requests, Segment, Way, attention, listening,
};

/// A binding and its memory. Once lost it stays lost; the next call makes another.
pub(crate) struct Session {
    pub(crate) generation: u64,
    pub(crate) bound: Bound,
    pub(crate) placement: Placement,
    pub(crate) stream: Stream,
    pub(crate) segment: Segment,
    /// For buffers, if the server gives memory for them.
    pub(crate) arena: Option<Arc<Arena>>,
    pub(crate) requests: Requests,
    bell: Bell,
    /// The process that listens at the server's end.
    pub(crate) server: Option<Credentials>,
    /// How far the server's clock is ahead of this process's; not 0 only in different time namespaces.
    clock_ahead_ns: i64,
    /// The processor on which the server was last seen.
    pub(crate) server_cpu: AtomicU16,
    pub(super) lanes: Mutex<Lanes>,
    pub(super) channels: Mutex<Channels>,
    /// Notified when a channel comes free, or is about to.
    pub(super) channel_freed: Condvar,
    /// 0, or one of the two losses, with the number of its [`UnbindReason`] above it, if there is one; and [`CLOSING`].
    state: AtomicU64,
    /// Longest result that is taken, in bytes.
    pub(crate) longest_result: usize,
}

/// The memory that is shared with the server, and how.
pub(crate) struct Shared {
    pub(crate) stream: Stream,
    pub(crate) segment: Segment,
    pub(crate) arena: Option<Arc<Arena>>,
    pub(crate) bell: Bell,
    pub(crate) server: Option<Credentials>,
    pub(crate) clock_ahead_ns: i64,
}

/// The server shuts down: it finishes the calls that it has, and refuses others.
const CLOSING: u64 = 1;
/// This end has given the binding up.
const GIVEN_UP: u64 = 2;
/// The server has ended it, or has died: it takes no more requests.
const ENDED: u64 = 4;
const LOSSES: u64 = 8;

/// Stands for a processor that is not known.
const NOWHERE: u16 = u16::MAX;

impl Generation for Session {
    fn generation(&self) -> u64 {
        self.generation
    }
}

impl Session {
    pub(crate) fn new(
        generation: u64,
        bound: Bound,
        placement: Placement,
        shared: Shared,
        longest_result: usize,
    ) -> Self {
        let Shared { stream, segment, arena, bell, server, clock_ahead_ns } = shared;
        Self {
            generation,
            bound,
            placement,
            stream,
            segment,
            arena,
            requests: Requests::default(),
            bell,
            server,
            clock_ahead_ns,
            server_cpu: AtomicU16::new(NOWHERE),
            lanes: Mutex::default(),
            channels: Mutex::default(),
            channel_freed: Condvar::new(),
            state: AtomicU64::new(0),
            longest_result,
        }
    }

    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.state.load(Ordering::Acquire) > CLOSING
    }

    /// Whether a call can leave: the binding is not lost, and its server does not shut down.
    #[inline]
    pub(crate) fn takes_calls(&self) -> bool {
        self.state.load(Ordering::Acquire) == 0
    }

    /// The server has said that it shuts down, or has refused a call for that reason.
    #[cold]
    pub(crate) fn note_closing(&self) {
        self.state.fetch_or(CLOSING, Ordering::Relaxed);
    }

    /// Whether the server finishes the calls that it has, and refuses others.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CLOSING != 0
    }

    /// Of a lost binding: whether the server has certainly not taken a request, and never will. A server may still serve a binding
    /// that this end has given up, until it learns of that.
    pub(crate) fn was_left(&self, ticket: u64) -> bool {
        self.state.load(Ordering::Acquire) & ENDED != 0 && Requests::was_left(&self.segment, ticket)
    }

    /// This end gives the binding up: the server is told why, and all threads that wait for it are woken.
    pub(crate) fn lose(&self, why: UnbindReason) {
        if self.lose_to(GIVEN_UP, Some(why)) {
            unbind_notice::send(&self.stream, self.bound.binding, why);
            self.wake_all();
        }
    }

    /// The server has ended the binding, or has died. No effect if this end has given it up before.
    pub(crate) fn end(&self, why: Option<UnbindReason>) {
        if self.lose_to(ENDED, why) {
            self.wake_all();
        }
    }

    /// The error for the caller of a call that may have run before the loss.
    pub(crate) fn cause_of_loss(&self) -> UnknownCause {
        let loss = self.state.load(Ordering::Acquire);
        let why = match (loss / LOSSES) as u32 {
            0 => return UnknownCause::ConnectionLost,
            code => UnbindReason::from_code(code),
        };
        match loss & GIVEN_UP {
            0 => UnknownCause::EndedByServer(why),
            _ => UnknownCause::GivenUp(why),
        }
    }

    /// Returns whether it was not lost before.
    fn lose_to(&self, loss: u64, why: Option<UnbindReason>) -> bool {
        let loss = loss + u64::from(why.map_or(0, UnbindReason::code)) * LOSSES;
        let lose = |state| (state <= CLOSING).then_some(state | loss);
        self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose).is_ok()
    }

    /// No call is left, and none comes.
    pub(crate) fn close(&self) {
        death_watch::remove(&self.stream);
        // A forked child may have it open still.
        let _ = self.stream.shutdown();
    }

    /// Wakes all threads that sleep on this session, for good.
    fn wake_all(&self) {
        // An error says that the socket is broken already.
        let _ = self.stream.shutdown();
        for lane in 0..locked(&self.lanes).made() {
            Answers::give_up(&self.segment, lane);
        }
        Filling::give_up(&self.segment, Way::Call);
        Filling::give_up(&self.segment, Way::Result);
        listening::give_up(&self.segment);
        drop(locked(&self.channels));
        self.channel_freed.notify_all();
    }

    /// The request for the next call on `lane`, of the procedure with that number at the server and with `len` bytes of
    /// arguments. `deadline_ns` is by this process's clock, `cpu` the present processor.
    #[inline]
    pub(crate) fn request(
        &self,
        lane: Lane,
        procedure: u16,
        len: usize,
        deadline_ns: u64,
        cpu: u16,
    ) -> Request {
        Request {
            kind: RequestKind::Call,
            lane: lane.number,
            number: lane.last,
            procedure,
            cpu,
            len: len as u32,
            deadline_ns: deadline_ns.saturating_add_signed(self.clock_ahead_ns),
            channel: 0,
            base: 0,
        }
    }

    /// Publishes a request, and wakes the server if it sleeps. Returns the ticket.
    #[inline]
    pub(crate) fn publish(&self, request: &Request, message: &[u8]) -> u64 {
        let ticket = self.requests.publish(&self.segment, request, message);
        self.ring();
        ticket
    }

    /// Tells the server that no thread waits for the last call of `lane` any more.
    pub(crate) fn publish_cancel(&self, lane: Lane) {
        let request = Request {
            kind: RequestKind::Cancel,
            lane: lane.number,
            number: lane.last,
            procedure: 0,
            cpu: NOWHERE,
            len: 0,
            deadline_ns: 0,
            channel: 0,
            base: 0,
        };
        self.publish(&request, &[]);
    }

    /// Wakes the server if it sleeps: there is something for it, which was published just now.
    #[inline]
    pub(crate) fn ring(&self) {
        if attention::is_asleep(&self.segment) {
            self.bell.ring();
        }
    }

    /// As [`ring`](Self::ring), for requests that were posted.
    #[inline]
    pub(crate) fn ring_after_post(&self) {
        if attention::is_asleep_after_all(&self.segment) {
            self.bell.ring();
        }
    }

    /// An answer has told on which processor the server runs.
    #[inline]
    pub(crate) fn saw_server_on(&self, cpu: u16) {
        // Written only when it has changed: all threads read it in each of their calls.
        if self.server_cpu.load(Ordering::Relaxed) != cpu {
            self.server_cpu.store(cpu, Ordering::Relaxed);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}
