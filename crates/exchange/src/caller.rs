//! The caller's half of the protocol: what a lane sends, when it sends it again, and when it stops.
//!
//! A [`Lane`] decides; its driver stores the packets, sends and waits. The driver keeps the call packet until the call
//! has ended, so that a retransmission needs no marshaling (Firefly §3.1.3).

mod answered_late;
mod compact;
mod events;
mod giving_up;
mod lanes;
mod large;
mod pipe_state;
mod pipes;
mod sent_back;
mod state;
mod steps;
mod waits;

use crate::outcome::{Sent, Unbound};
use crate::retransmit::Jitter;
use crate::{Instant, RoundTrip};
use alloc::boxed::Box;
pub use compact::CompactCall;
use core::time::Duration;
pub use events::{Due, Effort, Heard, Lost};
pub use lanes::Lanes;
use large::Large;
pub use large::{Framing, Part};
pub use pipe_state::OpenPipes;
use sent_back::{Said, SentBack};
pub use state::CallState;
use state::Step;
pub use steps::{NoResult, Steps, Way};
use stoop_wire::{
    BindingId, CallNumber, FailureCode, HEADER_LEN, Header, Kind, LaneId, PACKET_DATA, Template, Versions,
    flags, left_of_nanos,
};
pub use waits::Waits;

/// Time between two probes of a call that the server works on.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// Time between two probes while the last one is unanswered.
const PROBE_RETRY: Duration = Duration::from_millis(100);

/// Consecutive unanswered probes after which a server counts as silent. Elapsed time alone is not enough: if the caller
/// itself, or the machine of both, was stopped for longer than the silence limit, no probe was sent meanwhile.
const PROBES_UNANSWERED: u32 = 5;

/// Default for how long a server that has acknowledged a call may be silent.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(2);

/// A lane of a binding, with at most one outstanding call.
#[derive(Debug)]
pub struct Lane {
    call: Template,
    probe: Template,
    binding: BindingId,
    lane: LaneId,
    /// Number of the outstanding call, or of the last one.
    number: CallNumber,
    /// Number of times that this call was sent.
    transmissions: u32,
    /// Whether the server has said that it has this call.
    acknowledged: bool,
    outstanding: Option<Outstanding>,
    path: RoundTrip,
    jitter: Jitter,
    silence_limit: Duration,
    counters: Counters,
    /// State of the latest call if it, or its result, has many packets.
    large: Option<Box<Large>>,
    sent_back: SentBack,
    said: Said,
    /// The last call that was answered after more than one transmission.
    answered_late: Option<AnsweredLate>,
}

/// A call that was answered after more than one transmission: for want of patience, or because a packet was lost.
#[derive(Clone, Copy, Debug)]
struct AnsweredLate {
    number: CallNumber,
    transmissions: u32,
    /// From the first transmission to the result, without the time at the server.
    longest: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Outstanding {
    state: CallState,
    procedure: u16,
    message_len: u32,
    started: Instant,
    deadline: Instant,
    /// When the server was last heard about this call; before the first packet from it, when the call was first sent.
    heard: Instant,
    /// Probes since the server was last heard about this call.
    unanswered: u32,
    /// How often the server's port was reported closed since the server was last heard about this call.
    unreachable: u32,
    /// Whether a challenge has been answered since the last transmission after a timeout.
    proven: bool,
    next: Instant,
}

/// The counters of a lane, for example of the calls that took the fast path (F14).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Calls begun.
    pub calls: u64,
    /// Calls that took one packet in each direction.
    pub fast: u64,
    /// Call packets sent again.
    pub retransmissions: u64,
    /// Probes sent.
    pub probes: u64,
    /// Packets that were malformed or not for the outstanding call.
    pub ignored: u64,
}

impl Lane {
    /// Makes a lane of a new binding. `path` is the round trip known so far; `seed` spreads retransmissions.
    pub fn new(binding: BindingId, lane: LaneId, path: RoundTrip, seed: u64) -> Self {
        Self {
            call: Template::new(Kind::Call, binding, lane),
            probe: Template::new(Kind::Probe, binding, lane),
            binding,
            lane,
            number: CallNumber::ZERO,
            transmissions: 0,
            acknowledged: false,
            outstanding: None,
            path,
            jitter: Jitter::new(seed ^ u64::from(lane.0) << 17),
            silence_limit: SILENCE_LIMIT,
            counters: Counters::default(),
            large: None,
            sent_back: SentBack::default(),
            said: Said::default(),
            answered_late: None,
        }
    }

    /// Sets how long a server that has acknowledged a call may be silent.
    pub fn set_silence_limit(&mut self, limit: Duration) {
        self.silence_limit = limit;
    }

    /// Begins a call of one packet: completes the header of `packet`, which already contains the arguments behind it,
    /// and registers the call. The driver then sends `packet`. A longer call begins with
    /// [`start_large`](Self::start_large).
    ///
    /// # Panics
    /// If the packet is shorter than a header or longer than 4 GiB: a mistake of the driver.
    #[inline]
    pub fn start(&mut self, now: Instant, deadline: Instant, procedure: u16, packet: &mut [u8]) {
        let message_len = u32::try_from(packet.len() - HEADER_LEN).expect("messages are shorter than 4 GiB");
        debug_assert!(message_len as usize <= PACKET_DATA, "a longer call begins by `start_large`");
        if let Some(large) = &mut self.large {
            large.clear();
        }
        self.register(self.number.next(), (now, deadline), procedure, message_len);
        self.stamp(left_of_nanos(deadline.nanos_since(now)), procedure, message_len, packet);
    }

    #[inline]
    fn register(
        &mut self,
        number: CallNumber,
        (started, deadline): (Instant, Instant),
        procedure: u16,
        message_len: u32,
    ) {
        self.number = number;
        self.transmissions = 1;
        self.acknowledged = false;
        self.counters.calls += 1;
        // Differs from Firefly §3.1.3, which registers the call while the packet is on the wire: on one machine the
        // result can arrive before that.
        self.outstanding = Some(Outstanding {
            state: CallState::Sent,
            procedure,
            message_len,
            started,
            deadline,
            heard: started,
            unanswered: 0,
            unreachable: 0,
            proven: false,
            next: started.after_nanos(self.path.timeout_nanos()).min(deadline),
        });
    }

    #[inline]
    fn stamp(&self, left: u32, procedure: u16, message_len: u32, packet: &mut [u8]) {
        let header = packet.first_chunk_mut().expect("a call packet has room for its header");
        self.call.stamp(header, procedure, self.number, (message_len, 0), left);
    }

    /// Writes the header of the outstanding one-packet call again, for a retransmission. `packet` is the packet that
    /// was passed to [`start`](Self::start), or one with the same arguments.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn stamp_again(&mut self, now: Instant, packet: &mut [u8]) {
        if let Some(Outstanding { procedure, message_len, .. }) = self.outstanding {
            let left = self.left_again(now);
            self.stamp(left, procedure, message_len, packet);
            packet[3] |= self.pipe_flags();
        }
    }

    /// Handles a packet that arrived for this lane.
    #[inline]
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) -> Heard {
        match Header::parse_whole(Kind::Result, packet) {
            // A result ends the call in every state, as the table says.
            Some(header) if self.is_for_this_call(&header) && self.outstanding.is_some() => {
                self.finish(now, &header)
            }
            _ => self.handle_other_packet(now, packet),
        }
    }

    #[inline]
    fn is_for_this_call(&self, header: &Header) -> bool {
        header.binding == self.binding && header.lane == self.lane && header.number == self.number
    }

    /// Handles a packet that is not a whole result of the outstanding call.
    #[inline(never)]
    fn handle_other_packet(&mut self, now: Instant, packet: &[u8]) -> Heard {
        let has_pipes = self.pipe_flags() > 0;
        let (Ok((header, payload)), Some(call)) = (Header::parse(packet), &mut self.outstanding) else {
            self.note_repeated_result(packet);
            return self.on_repeated_part(now, packet);
        };
        if (header.binding, header.lane, header.number) != (self.binding, self.lane, self.number) {
            self.note_repeated_result(packet);
            return self.ignore();
        }
        call.unreachable = 0;
        // A long result may come in one packet, too; the server then retains it until a receipt has arrived.
        if header.kind == Kind::Result && header.message_len as usize > self.binding.packet_data() {
            return self.on_part(now, &header, payload);
        }
        let is_of_pipe = pipe_state::is_of_pipe(&header);
        if is_of_pipe && !has_pipes {
            return self.ignore();
        }
        let kind = if is_of_pipe { Kind::Data } else { header.kind };
        match call.state.on_packet(kind) {
            Step::Finish if header.kind == Kind::Result && has_pipes => {
                self.finish_with_pipes(now, &header, payload)
            }
            Step::Finish if header.kind == Kind::Result => self.finish(now, &header),
            Step::Finish if header.kind == Kind::Refusal => {
                self.outstanding = None;
                match header.incarnation() {
                    Some(incarnation) => {
                        let up = Duration::from_secs(u64::from(header.procedure));
                        Heard::Unbound(Unbound { incarnation, up })
                    }
                    None => Heard::Refused(header.refused()),
                }
            }
            // The caller binds again, and learns by that which versions the server speaks.
            Step::Finish if header.kind == Kind::Versions => match Versions::in_packet(&header) {
                Some(_) => {
                    self.outstanding = None;
                    Heard::Unbound(Unbound::ANOTHER_VERSION)
                }
                None => self.ignore(),
            },
            Step::Finish if has_pipes && packet[3] & flags::PIPE_OUT != 0 => {
                self.fail_behind_pipe(now, &header, payload)
            }
            Step::Finish => {
                self.outstanding = None;
                Heard::Failed(FailureCode::from_code(header.time))
            }
            Step::Become(state) => {
                let was_asked = call.state != CallState::Sent || self.transmissions > 1;
                call.state = state;
                self.acknowledged = true;
                call.heard = now;
                call.unanswered = 0;
                let is_one_packet = call.message_len as usize <= self.binding.packet_data() && !has_pipes;
                if was_asked || !is_one_packet {
                    call.next = self.jitter.after(now, PROBE_INTERVAL).min(call.deadline);
                }
                // Else it asks when it would have sent the call again: a result that comes before is missed no later if it is lost.
                self.hold_pipe_timer();
                if is_of_pipe { Heard::Pipe } else { Heard::Progress }
            }
            // At most once until the next timeout. Where a network changes our address with every packet, or duplicates
            // packets, two packets for each challenge would never end.
            Step::Prove if call.proven => self.ignore(),
            Step::Prove => {
                call.proven = true;
                self.transmissions += 1;
                let cookie = header.challenge().expect("challenges carry a cookie");
                Heard::Prove(header.with_challenge(Kind::Proof, cookie).to_bytes())
            }
            Step::TakeReceipt if self.large.is_some() => Heard::Receipt,
            Step::TakeReceipt | Step::Ignore => self.ignore(),
        }
    }

    #[inline]
    fn finish(&mut self, now: Instant, header: &Header) -> Heard {
        if let Some(Outstanding { started, state, .. }) = self.outstanding {
            if self.transmissions > 1 {
                self.finish_again(now, started, header.time);
            } else {
                // The server's figure is used only as far as it is plausible.
                if header.time != u32::MAX {
                    let trip = now.nanos_since(started).saturating_sub(u64::from(header.time));
                    self.path.sample_nanos(trip);
                }
                let is_large = self.large.as_ref().is_some_and(|large| large.is_sending());
                self.counters.fast += u64::from(state == CallState::Sent && !is_large);
            }
        }
        self.outstanding = None;
        Heard::Result { len: header.message_len as usize, at_server_ns: header.time }
    }

    #[cold]
    fn ignore(&mut self) -> Heard {
        self.counters.ignored += 1;
        Heard::Ignored
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due; [`Instant::NEVER`] without a call.
    #[inline]
    pub fn next_timeout(&self) -> Instant {
        self.outstanding.as_ref().map_or(Instant::NEVER, |call| call.next)
    }

    /// Deadline of the outstanding call; [`Instant::NEVER`] without one.
    #[inline]
    pub fn deadline(&self) -> Instant {
        self.outstanding.as_ref().map_or(Instant::NEVER, |call| call.deadline)
    }

    /// Does what is due. `packet` is what was passed to [`start`](Self::start), or a packet with the same arguments.
    pub fn handle_timeout(&mut self, now: Instant, packet: &mut [u8]) -> Due {
        let Some(mut call) = self.outstanding else { return Due::Nothing };
        if now < call.next {
            return Due::Nothing;
        }
        if now >= call.deadline {
            return Due::Abandon(Lost::DeadlinePassed);
        }
        if let Some(due) = self.pipe_due(now) {
            return due;
        }
        call.proven = false;
        let silent = now.since(call.heard) >= self.silence_limit && call.unanswered >= PROBES_UNANSWERED;
        let due = match call.state.on_timeout() {
            Kind::Call if call.message_len as usize > self.binding.packet_data() => {
                self.transmissions += 1;
                // `resume` sets a better time.
                call.next = self.jitter.after(now, self.path.timeout_after(self.transmissions));
                Due::Resume
            }
            Kind::Call => {
                self.transmissions += 1;
                self.counters.retransmissions += 1;
                call.next = self.jitter.after(now, self.path.timeout_after(self.transmissions));
                self.stamp_again(now, packet);
                Due::Retransmit
            }
            Kind::Receipt if now.since(call.heard) < PROBE_INTERVAL => {
                call.next = call.heard + PROBE_INTERVAL;
                Due::Nothing
            }
            Kind::Cancel if !self.acknowledged => {
                self.transmissions += 1;
                call.next = self.jitter.after(now, self.path.timeout_after(self.transmissions));
                Due::Cancel(self.cancel_packet())
            }
            _ if silent => return Due::Abandon(Lost::ServerSilent),
            asks => {
                call.unanswered += 1;
                self.counters.probes += 1;
                call.next = self.jitter.after(now, PROBE_RETRY.min(self.silence_limit / 4));
                match asks {
                    Kind::Cancel => Due::Cancel(self.cancel_packet()),
                    Kind::Receipt => {
                        self.ask_by_pipe();
                        Due::Receipt
                    }
                    _ => {
                        let mut probe = [0; HEADER_LEN];
                        self.probe.stamp(&mut probe, call.procedure, self.number, (0, 0), 0);
                        Due::Probe(probe)
                    }
                }
            }
        };
        call.next = call.next.min(call.deadline);
        self.outstanding = Some(call);
        self.hold_pipe_timer();
        due
    }

    /// Handles an ICMP report that the server's port is closed. One may be about an earlier process at that port. The
    /// second in a row ends the call, or a later one if transmissions are on their way [back](Self::handle_sent_back).
    pub fn handle_unreachable(&mut self, now: Instant) -> Due {
        let Some(call) = &mut self.outstanding else { return Due::Nothing };
        call.unreachable += 1;
        let reports = call.unreachable;
        if reports == 1 {
            // Sends the call again at once, because the report may be stale.
            call.next = now;
        } else if !self.awaits_reports(reports) {
            return Due::Abandon(Lost::PortClosed);
        }
        Due::Nothing
    }

    /// Effort spent on the outstanding call so far.
    pub fn effort(&self, now: Instant) -> Option<Effort> {
        let call = self.outstanding.as_ref()?;
        Some(Effort { transmissions: self.transmissions, waited: now.since(call.started) })
    }

    /// How the latest call was sent, after a refusal because the server does not know the binding. `refused_itself`:
    /// whether this call was refused, or another one on the binding. `first`: when the call was first sent, by a clock
    /// that does not stop while the machine sleeps.
    pub fn sent(&self, first: Instant, refusal: Unbound, refused_itself: bool) -> Sent {
        let acknowledged = self.acknowledged || self.large.as_ref().is_some_and(|large| large.is_heard());
        Sent { transmissions: self.transmissions, acknowledged, refusal, refused_itself, first }
    }

    /// Number of times that the latest call, ended or not, was sent.
    pub fn last_transmissions(&self) -> u32 {
        self.transmissions
    }

    /// Whether the server has acknowledged the latest call, ended or not.
    pub fn last_was_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Sets the counters to zero, after they have been added up elsewhere.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }

    /// Goes on counting where an earlier lane of the same caller has stopped.
    pub fn go_on_counting(&mut self, from: Counters) {
        self.counters = from;
    }

    /// The lane's number.
    pub fn id(&self) -> LaneId {
        self.lane
    }

    /// Round-trip time to the server, as far as it is known.
    pub fn path(&self) -> RoundTrip {
        self.path
    }

    /// This lane's counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Number of the outstanding call, or of the last one.
    pub fn number(&self) -> CallNumber {
        self.number
    }
}

#[cfg(test)]
mod tests;
