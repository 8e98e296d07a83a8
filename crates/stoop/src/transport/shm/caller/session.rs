//! The memory of a binding, shared by all its lanes.

use crate::calling::sessions::Generation;
use crate::calling::unbind_notice;
use crate::error::{UnbindReason, UnknownCause};
use crate::transport::shm::caller::death_watch;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stoop_exchange::binder::Bound;
use stoop_net::poller::Bell;
use stoop_net::stream::{Credentials, Stream};
use stoop_net::waiting::Placement;
use stoop_shm::layout::{CHANNELS, LANES};
use stoop_shm::{
    Answers, Arena, Filling, Range, Request, RequestKind, Requests, Segment, Way, attention, listening,
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
    /// Who made the server's end.
    pub(crate) server: Option<Credentials>,
    /// How far the server's clock is ahead of this process's: not at all, but in different time namespaces.
    clock_ahead_ns: i64,
    /// The processor on which the server was last seen.
    pub(crate) server_cpu: AtomicU16,
    lanes: Mutex<Lanes>,
    channels: Mutex<Channels>,
    /// A channel has come free.
    freed: Condvar,
    /// Whether it is lost, and to whom.
    loss: AtomicU8,
    /// Why, in the number of an [`UnbindReason`]; 0 if nobody has said. Written before `loss`.
    why: [AtomicU32; 2],
    /// Bytes of the longest result that is taken.
    pub(crate) longest_result: usize,
}

/// What is shared with the server, and how.
pub(crate) struct Shared {
    pub(crate) stream: Stream,
    pub(crate) segment: Segment,
    pub(crate) arena: Option<Arc<Arena>>,
    pub(crate) bell: Bell,
    pub(crate) server: Option<Credentials>,
    pub(crate) clock_ahead_ns: i64,
}

/// A lane of a session: at most one outstanding call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) number: u16,
    /// The number of its last call.
    pub(crate) last: u32,
}

#[derive(Default)]
struct Lanes {
    made: u16,
    /// Those that nobody uses, and whose calls have been answered.
    free: Vec<Lane>,
    /// Those that nobody uses, and whose calls have not; with channels that the server may still look at.
    owed: Vec<(Lane, Option<(u8, Filling)>)>,
    /// What calls of these last lanes may still use in the arena.
    withheld: Vec<(Lane, Vec<Arc<Range>>)>,
}

#[derive(Default)]
struct Channels {
    taken: [bool; CHANNELS],
    /// The count at which the next message of each begins.
    bases: [u32; CHANNELS],
    /// How often a call was given up that held one.
    abandoned: u64,
    /// Lanes for whose answers somebody sleeps who wants a channel.
    watched: Vec<u16>,
}

impl Channels {
    fn take(&mut self) -> Option<(u8, u32)> {
        let channel = self.taken.iter().position(|taken| !taken)?;
        self.taken[channel] = true;
        Some((channel as u8, self.bases[channel]))
    }
}

const PRESENT: u8 = 0;
/// This end has given it up.
const GIVEN_UP: u8 = 1;
/// The server has ended it, or has died: it takes nothing more.
const ENDED: u8 = 2;

/// Stands for a processor that is not known.
const NOWHERE: u16 = u16::MAX;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
            freed: Condvar::new(),
            loss: AtomicU8::new(PRESENT),
            why: Default::default(),
            longest_result,
        }
    }

    /// A deadline of this process's clock, by the server's.
    #[inline]
    pub(crate) fn deadline_there(&self, deadline_ns: u64) -> u64 {
        deadline_ns.saturating_add_signed(self.clock_ahead_ns)
    }

    #[inline]
    pub(crate) fn is_lost(&self) -> bool {
        self.loss.load(Ordering::Acquire) != PRESENT
    }

    /// Of a lost binding: whether the server has certainly not taken a request, and never will. One that this end has given up may
    /// still be served, until its server learns of it.
    pub(crate) fn was_left(&self, ticket: u64) -> bool {
        self.loss.load(Ordering::Acquire) == ENDED && Requests::was_left(&self.segment, ticket)
    }

    /// The binding is of no more use: everybody who waits learns it, and the server why.
    pub(crate) fn lose(&self, why: UnbindReason) {
        if self.lose_to(GIVEN_UP, Some(why)) {
            unbind_notice::send(&self.stream, self.bound.binding, why);
            self.part();
        }
    }

    /// The same, for the server has ended it, or has died. If this end has given it up before, nothing is learnt by that.
    pub(crate) fn end(&self, why: Option<UnbindReason>) {
        if self.lose_to(ENDED, why) {
            self.part();
        }
    }

    /// As whoever's call may have run is told of a loss.
    pub(crate) fn cause_of_loss(&self) -> UnknownCause {
        let loss = self.loss.load(Ordering::Acquire);
        let why = |loss: u8| match self.why[usize::from(loss - GIVEN_UP)].load(Ordering::Relaxed) {
            0 => None,
            code => Some(UnbindReason::from_code(code)),
        };
        match loss {
            GIVEN_UP => why(loss).map_or(UnknownCause::ConnectionLost, UnknownCause::GivenUp),
            ENDED => why(loss).map_or(UnknownCause::ConnectionLost, UnknownCause::EndedByServer),
            _ => UnknownCause::ConnectionLost,
        }
    }

    /// Returns whether it is this that it is lost to.
    fn lose_to(&self, loss: u8, why: Option<UnbindReason>) -> bool {
        // Each of the two has its place: who is first is not known yet.
        let place = &self.why[usize::from(loss - GIVEN_UP)];
        let _ = place.compare_exchange(
            0,
            why.map_or(0, UnbindReason::code),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        self.loss.compare_exchange(PRESENT, loss, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Lets everybody know that it is lost.
    fn part(&self) {
        // That it is broken already is no error.
        let _ = self.stream.shutdown();
        let made = locked(&self.lanes).made;
        (0..made).for_each(|lane| Answers::give_up(&self.segment, lane));
        Filling::give_up(&self.segment, Way::Call);
        Filling::give_up(&self.segment, Way::Result);
        listening::give_up(&self.segment);
        drop(locked(&self.channels));
        self.freed.notify_all();
    }

    /// A lane for a call; `None` when all have calls outstanding.
    pub(crate) fn lane(&self) -> Option<Lane> {
        let mut lanes = locked(&self.lanes);
        if let Some(free) = lanes.free.pop() {
            return Some(free);
        }
        self.collect(&mut lanes);
        if let Some(free) = lanes.free.pop() {
            return Some(free);
        }
        let number = lanes.made;
        if usize::from(number) >= LANES {
            return None;
        }
        lanes.made += 1;
        Some(Lane { number, last: 0 })
    }

    /// Lanes that nobody uses, and whose calls have been answered.
    pub(crate) fn give_back(&self, lanes: impl IntoIterator<Item = Lane>) {
        locked(&self.lanes).free.extend(lanes);
    }

    /// What the server has answered meanwhile of what it owed is free.
    fn collect(&self, lanes: &mut Lanes) {
        let Lanes { free, owed, withheld, .. } = lanes;
        owed.retain(|&(lane, channel)| {
            let answered = Answers::is_there(&self.segment, lane.number, lane.last);
            if answered {
                free.push(lane);
                withheld.retain(|(of, _)| *of != lane);
                if let Some((channel, filling)) = channel {
                    self.give_channel_back(channel, &filling);
                }
            }
            !answered
        });
    }

    /// Nobody waits for the last call of a lane any more: the server is told, and whenever it answers, the lane is free, and
    /// a channel that the call was in the midst of.
    #[cold]
    pub(crate) fn abandon(&self, lane: Lane, channel: Option<(u8, Filling)>) {
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
        locked(&self.lanes).owed.push((lane, channel));
        if channel.is_some() {
            locked(&self.channels).abandoned += 1;
            self.freed.notify_all();
        }
    }

    /// The last call of a lane is about to be given up: what it has in the arena is not given to others before it is answered.
    pub(crate) fn withhold(&self, lane: Lane, ranges: Vec<Arc<Range>>) {
        locked(&self.lanes).withheld.push((lane, ranges));
    }

    /// Lets go what calls had in the arena that were given up, and have been answered.
    pub(crate) fn release_withheld(&self) {
        let lanes = &mut *locked(&self.lanes);
        if !lanes.withheld.is_empty() {
            self.collect(lanes);
        }
    }

    /// Publishes a request, and wakes the server if it sleeps. Returns the ticket.
    #[inline]
    pub(crate) fn publish(&self, request: &Request, message: &[u8]) -> u64 {
        let ticket = self.requests.publish(&self.segment, request, message);
        self.ring();
        ticket
    }

    /// Something for the server has just been published: wakes it if it sleeps.
    #[inline]
    pub(crate) fn ring(&self) {
        if attention::is_asleep(&self.segment) {
            self.bell.ring();
        }
    }

    /// As [`ring`](Self::ring), for what has been posted.
    #[inline]
    pub(crate) fn ring_after_all(&self) {
        if attention::is_asleep_after_all(&self.segment) {
            self.bell.ring();
        }
    }

    /// A channel for a long call, and its base; waits for one, at most so long.
    pub(crate) fn take_channel(&self, limit: Duration) -> Option<(u8, u32)> {
        let deadline = Instant::now() + limit;
        loop {
            let (owed, abandoned) = {
                let mut lanes = locked(&self.lanes);
                self.collect(&mut lanes);
                let mut channels = locked(&self.channels);
                if let Some(taken) = channels.take() {
                    return Some(taken);
                }
                let owed = lanes.owed.iter().find(|(_, channel)| channel.is_some()).map(|&(lane, _)| lane);
                if let Some(lane) = owed {
                    channels.watched.push(lane.number);
                }
                (owed, channels.abandoned)
            };
            let left = deadline.saturating_duration_since(Instant::now());
            match owed {
                Some(lane) => self.watch(lane, left),
                None => {
                    let is_vain = |channels: &mut Channels| {
                        !channels.taken.contains(&false) && channels.abandoned == abandoned && !self.is_lost()
                    };
                    let channels = locked(&self.channels);
                    drop(self.freed.wait_timeout_while(channels, left, is_vain));
                }
            }
            if left.is_zero() || self.is_lost() {
                return locked(&self.channels).take();
            }
        }
    }

    /// Sleeps until the server answers a call that was given up, or until a channel comes free otherwise: nobody else looks for
    /// such an answer. May return for no reason.
    fn watch(&self, lane: Lane, limit: Duration) {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Answers::sleep_unless(&self.segment, lane.number, lane.last, limit_ns, || {
            locked(&self.channels).taken.contains(&false)
        });
        let watched = &mut locked(&self.channels).watched;
        if let Some(place) = watched.iter().position(|watched| *watched == lane.number) {
            watched.swap_remove(place);
        }
        if !watched.is_empty() && Answers::is_there(&self.segment, lane.number, lane.last) {
            Answers::pass_on(&self.segment, lane.number);
        }
    }

    /// A channel, if there is one.
    pub(crate) fn try_take_channel(&self) -> Option<(u8, u32)> {
        self.collect(&mut locked(&self.lanes));
        locked(&self.channels).take()
    }

    /// Whether there is one.
    pub(crate) fn has_free_channel(&self) -> bool {
        self.collect(&mut locked(&self.lanes));
        locked(&self.channels).taken.contains(&false)
    }

    /// A channel is free: the server looks no more at what was sent there last.
    pub(crate) fn give_channel_back(&self, channel: u8, sent: &Filling) {
        sent.forget(&self.segment);
        self.give_unused_channel_back(channel, sent.end());
    }

    /// A channel is free: nothing has been sent there since it was taken.
    pub(crate) fn give_unused_channel_back(&self, channel: u8, base: u32) {
        let mut channels = locked(&self.channels);
        channels.taken[usize::from(channel)] = false;
        channels.bases[usize::from(channel)] = base;
        channels.watched.iter().for_each(|lane| Answers::poke(&self.segment, *lane));
        drop(channels);
        self.freed.notify_one();
        listening::wake(&self.segment);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        death_watch::over_no_more(&self.stream);
        // A forked child may have it open still.
        let _ = self.stream.shutdown();
    }
}
