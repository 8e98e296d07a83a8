//! The lanes and channels of a session: which are free, and which the server still has to answer.

use crate::locked::locked;
use crate::transport::shm::caller::session::Session;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};
use stoop_shm::layout::{CHANNELS, LANES};
use stoop_shm::{AnswerKind, Answers, Filling, Range, Segment, listening, pipe};

/// A lane of a session: at most one outstanding call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) number: u16,
    /// The number of its last call.
    pub(crate) last: u32,
}

impl Lane {
    /// The lane, with the number of its next call.
    #[inline]
    pub(crate) fn next(self) -> Self {
        Self { last: Answers::next_number(self.last), ..self }
    }
}

/// The lanes of a session.
#[derive(Default)]
pub(super) struct Lanes {
    made: u16,
    /// Lanes that no call uses.
    free: Vec<Lane>,
    /// Lanes whose last calls were abandoned and are not answered.
    owed: Vec<Owed>,
}

/// The memory that an abandoned call holds until the server has answered it.
struct Owed {
    lane: Lane,
    /// The channel of its arguments.
    channel: Option<(u8, Filling)>,
    /// The range of the arena that the server may still use: it is given back with this.
    _ranges: Vec<Arc<Range>>,
    pipes: Option<OwedPipes>,
}

/// The pipes of a call that has ended at its caller.
pub(crate) struct OwedPipes {
    /// The program still has their ends.
    pub(crate) in_use: Weak<dyn Send + Sync>,
    /// The server may still write into one.
    pub(crate) from_procedure: bool,
}

impl OwedPipes {
    /// Whether neither end uses the pipes of a lane whose call has been answered.
    fn are_over(&self, segment: &Segment, lane: u16) -> bool {
        // After an answer without a result the server writes nothing more.
        let has_result =
            || Answers::read(segment, lane).is_some_and(|answer| answer.kind == AnswerKind::Result);
        self.in_use.strong_count() == 0
            && (!self.from_procedure || pipe::is_closed(segment, lane) || !has_result())
    }
}

/// The channels of a session for long arguments.
#[derive(Default)]
pub(super) struct Channels {
    taken: [bool; CHANNELS],
    /// The count at which the next message of each begins.
    bases: [u32; CHANNELS],
}

/// While a channel belongs to an abandoned call, or all lanes to such calls: how often a thread that wants one looks whether the server
/// has answered.
const LOOK_EVERY: Duration = Duration::from_millis(1);

impl Lanes {
    /// Lanes that have ever been used.
    pub(super) fn made(&self) -> u16 {
        self.made
    }
}

impl Channels {
    fn take(&mut self) -> Option<(u8, u32)> {
        let channel = self.taken.iter().position(|taken| !taken)?;
        self.taken[channel] = true;
        Some((channel as u8, self.bases[channel]))
    }
}

impl Session {
    /// A lane for a call; `None` when all have calls outstanding.
    pub(crate) fn take_lane(&self) -> Option<Lane> {
        let mut lanes = locked(&self.lanes);
        if lanes.free.is_empty() {
            self.collect(&mut lanes);
        }
        if let Some(free) = lanes.free.pop() {
            return Some(free);
        }
        let number = lanes.made;
        lanes.made += u16::from(usize::from(number) < LANES);
        (lanes.made > number).then_some(Lane { number, last: 0 })
    }

    /// A lane for the first call of a thread. While the server owes answers on all, waits for one, at most so long. A session that takes
    /// no calls gives a lane on which none is published.
    pub(crate) fn await_lane(&self, limit: Duration) -> Option<Lane> {
        let begun = Instant::now();
        loop {
            let lane = self.take_lane();
            if lane.is_some() {
                return lane;
            }
            if !self.takes_calls() {
                return Some(Lane { number: 0, last: 0 });
            }
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return None;
            }
            thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// Gives lanes back whose calls have been answered.
    pub(crate) fn give_back(&self, lanes: impl IntoIterator<Item = Lane>) {
        locked(&self.lanes).free.extend(lanes);
    }

    /// Frees the lanes and channels of abandoned calls that the server has answered.
    fn collect(&self, lanes: &mut Lanes) {
        let Lanes { free, owed, .. } = lanes;
        owed.retain(|Owed { lane, channel, pipes, .. }| {
            let are_over = |pipes: &OwedPipes| pipes.are_over(&self.segment, lane.number);
            let is_answered = Answers::is_there(&self.segment, lane.number, lane.last)
                && pipes.as_ref().is_none_or(are_over);
            if is_answered {
                free.push(*lane);
                if let Some((channel, sent)) = channel {
                    self.give_channel_back(*channel, sent);
                }
            }
            !is_answered
        });
    }

    /// No thread waits for the last call of a lane any more: the server is told. When it answers, the lane is free, the channel
    /// through which its arguments went, and the ranges of the arena that it named.
    #[cold]
    pub(crate) fn abandon(&self, lane: Lane, channel: Option<(u8, Filling)>, ranges: Vec<Arc<Range>>) {
        self.publish_cancel(lane);
        locked(&self.lanes).owed.push(Owed { lane, channel, _ranges: ranges, pipes: None });
        if channel.is_some() {
            // Threads that wait for a channel have to look for that answer from now on.
            drop(locked(&self.channels));
            self.channel_freed.notify_all();
        }
    }

    /// As [`give_back`](Self::give_back), of a lane whose call had these pipes; or as [`abandon`](Self::abandon), if the call has not been
    /// answered.
    #[cold]
    pub(crate) fn give_piped_back(&self, lane: Lane, channel: Option<(u8, Filling)>, pipes: OwedPipes) {
        let pipes = Some(pipes);
        locked(&self.lanes).owed.push(Owed { lane, channel, _ranges: Vec::new(), pipes });
        if channel.is_some() {
            drop(locked(&self.channels));
            self.channel_freed.notify_all();
        }
    }

    /// Frees the ranges of the arena that abandoned calls named, as far as these have been answered.
    pub(crate) fn release_withheld(&self) {
        self.collect(&mut locked(&self.lanes));
    }

    /// A channel for a long call, and its base; waits for one, at most so long.
    pub(crate) fn take_channel(&self, limit: Duration) -> Option<(u8, u32)> {
        let deadline = Instant::now() + limit;
        loop {
            let mut lanes = locked(&self.lanes);
            self.collect(&mut lanes);
            let mut channels = locked(&self.channels);
            let left = deadline.saturating_duration_since(Instant::now());
            let taken = channels.take();
            if taken.is_some() || left.is_zero() || self.is_lost() {
                return taken;
            }
            let is_owed = lanes.owed.iter().any(|owed| owed.channel.is_some());
            drop(lanes);
            let limit = if is_owed { left.min(LOOK_EVERY) } else { left };
            drop(self.channel_freed.wait_timeout(channels, limit));
        }
    }

    /// A lane for a call, and a channel and its base if the call is `long`; `None` if there is none.
    pub(crate) fn take_lane_with(&self, long: bool) -> Option<(Lane, Option<(u8, u32)>)> {
        let lane = self.take_lane()?;
        if !long {
            return Some((lane, None));
        }
        self.release_withheld();
        let channel = locked(&self.channels).take();
        if channel.is_none() {
            self.give_back([lane]);
        }
        channel.map(|channel| (lane, Some(channel)))
    }

    /// Whether [`take_lane_with`](Self::take_lane_with) would find a lane, and a channel if the call is `long`.
    pub(crate) fn has_room(&self, long: bool) -> bool {
        let mut lanes = locked(&self.lanes);
        self.collect(&mut lanes);
        let has_lane = !lanes.free.is_empty() || usize::from(lanes.made) < LANES;
        drop(lanes);
        has_lane && (!long || locked(&self.channels).taken.contains(&false))
    }

    /// A channel is free: the server looks no more at the last chunks there.
    pub(crate) fn give_channel_back(&self, channel: u8, sent: &Filling) {
        sent.forget(&self.segment);
        let mut channels = locked(&self.channels);
        channels.taken[usize::from(channel)] = false;
        channels.bases[usize::from(channel)] = sent.end();
        drop(channels);
        self.channel_freed.notify_one();
        listening::wake(&self.segment);
    }
}
