//! The acknowledged calls of one binding, which are probed together.
//!
//! A server that works on a call says nothing until it is asked. A caller with thousands of such calls would ask about each of them
//! twice a second, in a packet of its own. [`Waits`] keeps what a lane needs for that in one list, asks about many calls in a packet
//! ([`CallList`]), and does not touch their lanes while the server goes on acknowledging. Each call is asked about as often as its
//! lane alone would ask, and is given up after the same time; one with pipes [less often](PATIENCE). When anything else happens to a call, it
//! [leaves](Waits::leave) the list, and its lane goes on.

use super::state::CallState;
use super::{Lane, PROBE_INTERVAL, PROBE_RETRY, PROBES_UNANSWERED, SILENCE_LIMIT};
use crate::Instant;
use crate::retransmit::Jitter;
use alloc::vec::Vec;
use core::time::Duration;
use stoop_wire::{BindingId, CallList, CallNumber, Header, Kind, LaneId, MAX_DATAGRAM};

/// When a probe is due, those calls are asked about, too, of which nothing has been heard for so long. So the calls of a binding, which
/// began at any time, are soon asked about at the same time.
const ASKED_ALONG: Duration = PROBE_INTERVAL.checked_div(2).expect("not zero");

/// Between two questions about a call with pipes the caller waits so many times longer: such a call may be quiet for days, and both ends
/// send its lost packets again without being asked. So the caller notices [a second and a half later](later) that its server is gone, and a
/// thousand clients that wait for callbacks cost their server 500 questions a second in place of 2,000.
const PATIENCE: u8 = 4;

/// The patience with a call with pipes: its questions are not farther apart than its server may be silent.
fn patience(silence_limit: Duration) -> u8 {
    let intervals = silence_limit.as_millis() / PROBE_INTERVAL.as_millis();
    intervals.clamp(1, PATIENCE.into()) as u8
}

/// How much later than about others the first question is asked about a call with this patience. Its server may be silent for so much longer:
/// before that question it has no reason to say anything.
fn later(patience: u8) -> Duration {
    PROBE_INTERVAL * u32::from(patience.saturating_sub(1))
}

/// Time between two rounds of probes, at least. A round has so many packets as the driver allows.
const ROUND_EVERY: Duration = Duration::from_millis(1);

/// Calls in a packet after two packets without an answer: perhaps the path does not carry the longest.
const CALLS_IN_SHORT: usize = 64;

/// The acknowledged calls of one binding that only wait.
#[derive(Debug)]
pub struct Waits {
    binding: BindingId,
    all: Vec<Wait>,
    /// Index in `all` of the call of each lane.
    by_lane: Vec<u32>,
    /// No call is due earlier.
    next: Instant,
    /// The earliest time of the next round.
    next_round: Instant,
    /// The last round had more calls than its packets took.
    goes_on: bool,
    /// From an acknowledgement to the next probe: drawn for each round, so that its calls stay together.
    interval: Duration,
    /// Calls that were asked about and have not been heard of since.
    asked: usize,
    silence_limit: Duration,
    jitter: Jitter,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    heard: Instant,
    /// When to ask next.
    next: Instant,
    number: CallNumber,
    /// The driver's name of the call.
    call: u32,
    lane: LaneId,
    /// Probes since the server was last heard about this call; saturates.
    unanswered: u8,
    /// How many times longer than others it waits to be asked about.
    patience: u8,
}

const _: () = assert!(size_of::<Wait>() <= 32 && PROBES_UNANSWERED < u8::MAX as u32);

/// Stands in `by_lane` for no call.
const NONE: u32 = u32::MAX;

impl Default for Waits {
    fn default() -> Self {
        Self {
            binding: BindingId::NONE,
            all: Vec::new(),
            by_lane: Vec::new(),
            next: Instant::NEVER,
            next_round: Instant::default(),
            goes_on: false,
            interval: PROBE_INTERVAL,
            asked: 0,
            silence_limit: SILENCE_LIMIT,
            jitter: Jitter::new(1),
        }
    }
}

impl Waits {
    /// Takes the call of `lane`, which the driver calls `call`, if the server has acknowledged it and nothing else is known of it, and if
    /// it is of the binding of the others. Returns whether the call is here now: then the lane's timeouts do not count until the call
    /// [leaves](Self::leave), only its deadline.
    pub fn enter(&mut self, call: u32, lane: &Lane) -> bool {
        let Some(outstanding) = lane.outstanding.filter(|call| call.state == CallState::Acknowledged) else {
            return false;
        };
        if self.all.is_empty() {
            (self.binding, self.next, self.asked) = (lane.binding, Instant::NEVER, 0);
            (self.silence_limit, self.jitter) = (lane.silence_limit, lane.jitter);
        }
        if lane.binding != self.binding {
            return false;
        }
        if let Some(position) = self.position(lane.lane) {
            debug_assert_eq!(self.all[position].number, lane.number, "a call leaves before the lane's next");
            return true;
        }
        let place = usize::from(lane.lane.0);
        if place >= self.by_lane.len() {
            self.by_lane.resize(place + 1, NONE);
        }
        self.by_lane[place] = self.all.len() as u32;
        let unanswered = u8::try_from(outstanding.unanswered).unwrap_or(u8::MAX);
        let (heard, patience) = (outstanding.heard, lane.pipes().map_or(1, |_| patience(lane.silence_limit)));
        let next = match (unanswered, patience) {
            (1.., _) | (0, 1) => outstanding.next,
            (0, _) => outstanding.next.max(heard + PROBE_INTERVAL * patience.into()),
        };
        let (number, lane) = (lane.number, lane.lane);
        self.all.push(Wait { heard, next, number, call, lane, unanswered, patience });
        self.asked += usize::from(unanswered > 0);
        self.next = self.next.min(next);
        true
    }

    /// Gives the call of `lane` back to it, if it is here. A packet about the call, a timeout or a cancel is for the lane.
    pub fn leave(&mut self, lane: &mut Lane) {
        let Some(position) = self.position(lane.lane).filter(|_| lane.binding == self.binding) else {
            return;
        };
        let wait = self.all.swap_remove(position);
        self.by_lane[usize::from(wait.lane.0)] = NONE;
        if let Some(moved) = self.all.get(position) {
            self.by_lane[usize::from(moved.lane.0)] = position as u32;
        }
        self.asked -= usize::from(wait.unanswered > 0);
        let Some(outstanding) = lane.outstanding.as_mut().filter(|_| lane.number == wait.number) else {
            return;
        };
        if wait.heard > outstanding.heard {
            outstanding.unreachable = 0;
        }
        (outstanding.heard, outstanding.unanswered) = (wait.heard, wait.unanswered.into());
        outstanding.next = wait.next.min(outstanding.deadline);
        lane.hold_pipe_timer();
    }

    fn position(&self, LaneId(lane): LaneId) -> Option<usize> {
        self.by_lane.get(usize::from(lane)).filter(|position| **position != NONE).map(|it| *it as usize)
    }

    /// The number of calls here.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// When [`ask`](Self::ask) is due; [`Instant::NEVER`] without a call.
    pub fn next_timeout(&self) -> Instant {
        match (self.all.is_empty(), self.goes_on) {
            (true, _) => Instant::NEVER,
            (false, true) => self.next_round,
            (false, false) => self.next.max(self.next_round),
        }
    }

    /// Asks about the calls that are due, if any is, in at most `most` packets, each of which `send` gets. The calls of which the server
    /// was silent for too long are added to `silent`: the driver has them leave, and their lanes give them up.
    pub fn ask(&mut self, now: Instant, most: u32, mut send: impl FnMut(&[u8]), silent: &mut Vec<u32>) {
        if now < self.next_timeout() {
            return;
        }
        let Self { binding, ref mut all, silence_limit, .. } = *self;
        let is_silent = |wait: &Wait| {
            u32::from(wait.unanswered) >= PROBES_UNANSWERED
                && now.since(wait.heard) >= silence_limit + later(wait.patience)
        };
        let (mut is_any_due, mut is_short) = (core::mem::take(&mut self.goes_on), false);
        for wait in all.iter().filter(|wait| wait.next <= now) {
            is_any_due = true;
            is_short |= wait.unanswered >= 2;
            if is_silent(wait) {
                silent.push(wait.call);
            }
        }
        if is_any_due {
            let again = self.jitter.after(now, PROBE_RETRY.min(silence_limit / 4));
            self.interval = self.jitter.after(now, PROBE_INTERVAL).since(now);
            let calls_most = if is_short { CALLS_IN_SHORT } else { usize::MAX };
            let is_along = |wait: &Wait| {
                wait.unanswered == 0 && now.since(wait.heard) >= ASKED_ALONG * wait.patience.into()
            };
            let mut due =
                all.iter_mut().filter(|wait| (wait.next <= now || is_along(wait)) && !is_silent(wait));
            let mut packet = [0; MAX_DATAGRAM];
            for _ in 0..most {
                let calls = due.by_ref().take(calls_most.min(CallList::most(binding))).map(|wait| {
                    self.asked += usize::from(wait.unanswered == 0);
                    wait.unanswered = wait.unanswered.saturating_add(1);
                    wait.next = again;
                    (wait.lane, wait.number)
                });
                let len = CallList::put_probes(binding, calls, &mut packet);
                if len == 0 {
                    break;
                }
                send(&packet[..len]);
            }
            self.goes_on = due.next().is_some();
            self.next_round = now + ROUND_EVERY;
        }
        self.note_next();
    }

    /// Handles a packet of acknowledgements for this binding. The calls that were asked about and that the server does not have are added
    /// to `others`: the driver has them leave, and their lanes [ask](Self::leave_to_ask) about them one by one. Returns whether the packet
    /// was about a call here.
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8], others: &mut Vec<u32>) -> bool {
        let Some((list, acknowledged)) = self.parse(packet) else { return false };
        let mut is_known = false;
        for (place, (lane, number)) in list.calls().enumerate() {
            let Some(position) = self.position(lane) else { continue };
            let wait = &mut self.all[position];
            if wait.number != number {
                continue;
            }
            is_known = true;
            if place < acknowledged {
                self.asked -= usize::from(wait.unanswered > 0);
                (wait.heard, wait.unanswered) = (now, 0);
                wait.next = now + self.interval * wait.patience.into();
            } else if wait.unanswered > 0 {
                others.push(wait.call);
            }
        }
        if self.asked == 0 {
            self.note_next();
        }
        is_known
    }

    fn parse<'a>(&self, packet: &'a [u8]) -> Option<(CallList<'a>, usize)> {
        let (header, payload) = Header::parse(packet).ok()?;
        if header.kind != Kind::Acknowledgements || header.binding != self.binding {
            return None;
        }
        let list = CallList::decode(&header, payload)?;
        Some((list, list.acknowledged(&header)?))
    }

    /// As [`leave`](Self::leave), for a call that the server has answered, or does not know: its lane asks at once, by a probe that is
    /// counted in place of the one that has been answered.
    pub fn leave_to_ask(&mut self, now: Instant, lane: &mut Lane) {
        self.leave(lane);
        if let Some(outstanding) = &mut lane.outstanding {
            outstanding.unanswered = outstanding.unanswered.saturating_sub(1);
            outstanding.next = now;
        }
    }

    fn note_next(&mut self) {
        self.next = self.all.iter().map(|wait| wait.next).min().unwrap_or(Instant::NEVER);
    }
}

#[cfg(test)]
mod tests;
