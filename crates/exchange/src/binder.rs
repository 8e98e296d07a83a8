//! Binding at the caller: it asks, proves its address by returning a cookie, and learns the server's numbers for its
//! procedures.

mod negotiation;

use self::negotiation::{Next, Page};
pub use crate::interfaces::Found;
use crate::interfaces::fingerprint;
use crate::retransmit::Jitter;
use crate::{Instant, Interface, RoundTrip};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use stoop_wire::bind::{
    BindReply, BindRequest, BindStatus, CHECKSUM, Describe, Description, HostFacts, NO_PROCEDURE, ServerClock,
};
use stoop_wire::metadata::IN_PROCEDURE;
use stoop_wire::{BindingId, CallNumber, Challenge, Header, Kind, LaneId, PACKET_DATA, Versions};

/// A binding that is being made. Its driver sends the packets of [`transmit`](Self::transmit) and passes in the packets
/// that arrive.
#[derive(Debug)]
pub struct Binder {
    interface: Interface,
    nonce: u64,
    host: HostFacts,
    max_message: u32,
    window: u32,
    required: u32,
    wanted: u32,
    cookie: Challenge,
    binding: BindingId,
    /// What the server has of the first procedures, page by page.
    found: Vec<Found>,
    /// The next of the caller's procedures, about which it is being asked.
    page: Page,
    /// Answers so far that have led to another question about the same procedures.
    answers: u32,
    /// The procedure whose signature is asked for, after a mismatch.
    mismatch: Option<usize>,
    path: RoundTrip,
    jitter: Jitter,
    deadline: Instant,
    /// When the present question was first sent, and how often it has been sent.
    asked: Instant,
    transmissions: u32,
    /// Whether a challenge has been answered since the last transmission after a timeout.
    challenged: bool,
    /// Whether the next transmission answers a packet, rather than follows a timeout.
    at_once: bool,
    next: Instant,
}

/// A binding that the server has granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Number of the binding, which is a capability.
    pub binding: BindingId,
    /// The server's number for each of the caller's procedures; empty if the server lacks some, or knows some only in an older form.
    pub procedures: Vec<u16>,
    /// Then, for each procedure, what the server has of it.
    pub forms: Option<Box<[Found]>>,
    /// Number of this start of the server. It tells a restarted server from one that released a silent caller.
    pub incarnation: u64,
    /// Silence of the caller after which the server releases the binding.
    pub silence: Duration,
    /// Bytes of the longest call that the server takes.
    pub max_message: u32,
    /// Bytes of a call that may be sent before the server has sent a receipt.
    pub window: u32,
    /// Facts about the server's machine.
    pub host: HostFacts,
    /// Other addresses of the server; empty unless both are on one machine and the server has some.
    pub offers: String,
    /// The binding flags that hold, among those that the caller asked for.
    pub chosen: u32,
    /// The server's clock when it granted the binding, if the server told it.
    pub clock: Option<ServerClock>,
    /// Bytes of data in a packet of the binding.
    pub packet_data: u32,
    /// Number of lanes that the binding may have.
    pub lanes: u32,
    /// Bytes of the longest block of metadata that the server takes; 0 if it knows none.
    pub metadata: u32,
    /// Calls that may be outstanding before the server grants more;
    /// [`NO_CREDIT_LIMIT`](stoop_wire::bind::NO_CREDIT_LIMIT): as many as there are lanes.
    pub credit: u32,
}

/// The effect of an arriving packet on the binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindStep {
    /// The binding is not made yet. There may be a packet to send at once.
    Continue,
    /// The binding is made.
    Bound(Bound),
    /// The server speaks only these other versions of the protocol.
    OtherVersion(Versions),
    /// The server refuses. The text names its interfaces if it does not export the one asked for.
    Refused(BindStatus, String),
    /// The server declares this procedure with another signature, or not at all (an empty signature).
    Mismatch {
        /// Position among the caller's procedures.
        procedure: usize,
        /// The server's signature of it.
        theirs: String,
    },
}

impl Bound {
    /// The server's number of the procedure at that position among the caller's. With the bit [`IN_PROCEDURE`], for a call with
    /// metadata, the number has that bit, too. A number that no server has if the server lacks the procedure, or knows another form of it.
    #[inline]
    pub fn number(&self, procedure: u16) -> u16 {
        self.known(procedure).unwrap_or(UNKNOWN)
    }

    /// As [`number`](Self::number); `None` if the server lacks the procedure, or knows another form of it.
    #[inline]
    pub fn known(&self, procedure: u16) -> Option<u16> {
        match self.procedures.get(usize::from(procedure)) {
            Some(number) => Some(*number),
            None => self.known_otherwise(procedure),
        }
    }

    #[cold]
    #[inline(never)]
    fn known_otherwise(&self, procedure: u16) -> Option<u16> {
        let form = procedure & !IN_PROCEDURE;
        let number = match &self.forms {
            None => *self.procedures.get(usize::from(form))?,
            Some(forms) => forms.iter().find(|found| found.form == form)?.number,
        };
        Some(match procedure & IN_PROCEDURE != 0 {
            false => number,
            // A server that knows no metadata would drop the call, and has no procedure of this number: it refuses.
            true if self.metadata == 0 => UNKNOWN,
            true => number | IN_PROCEDURE,
        })
    }

    /// The number of the form in which a procedure is called, for [`known`](Self::known); `None` if the server lacks it.
    pub fn form(&self, procedure: u16) -> Option<u16> {
        let Some(forms) = &self.forms else { return Some(procedure) };
        forms.get(usize::from(procedure)).map(|found| found.form).filter(|form| *form != NO_PROCEDURE)
    }
}

/// A number that no server gives to a procedure.
const UNKNOWN: u16 = NO_PROCEDURE & !IN_PROCEDURE;

impl Binder {
    /// Begins to bind to `interface` as the caller knows it. `nonce` is 64 random bits.
    pub fn new(now: Instant, deadline: Instant, interface: Interface, host: HostFacts, nonce: u64) -> Self {
        let page = Page::newest(&interface, 0);
        Self {
            interface,
            nonce,
            host,
            max_message: PACKET_DATA as u32,
            window: PACKET_DATA as u32,
            required: 0,
            wanted: 0,
            cookie: Challenge(0),
            binding: BindingId::NONE,
            found: Vec::new(),
            page,
            answers: 0,
            mismatch: None,
            path: RoundTrip::default(),
            jitter: Jitter::new(nonce),
            deadline,
            asked: now,
            transmissions: 0,
            challenged: false,
            at_once: false,
            next: now,
        }
    }

    /// Accepts results of up to `max_message` bytes, and `window` bytes of them before the first receipt. The default
    /// is one packet.
    #[must_use]
    pub fn accepting(self, max_message: u32, window: u32) -> Self {
        Self { max_message, window, ..self }
    }

    /// Asks for binding flags. A server that does not know one of the `required` flags refuses; it ignores unknown
    /// `wanted` flags. The default is none.
    #[must_use]
    pub fn asking(self, required: u32, wanted: u32) -> Self {
        let checksum = (required | wanted) & CHECKSUM != 0;
        Self { required, wanted, binding: BindingId::NONE.with_checksum(checksum), ..self }
    }

    /// Returns the packet that is due now, if any.
    pub fn transmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        if now < self.next || self.has_expired(now) {
            return None;
        }
        if self.transmissions == 0 {
            self.asked = now;
        }
        self.challenged &= core::mem::take(&mut self.at_once);
        self.transmissions += 1;
        self.next = self.jitter.after(now, self.path.timeout_after(self.transmissions)).min(self.deadline);
        let (kind, payload) = match self.mismatch {
            None => (Kind::Bind, self.request().encode()),
            Some(procedure) => (Kind::Describe, self.describe(procedure).encode()),
        };
        let mut header = Header::bare(kind, self.binding, LaneId(0), self.number());
        header.message_len = payload.len() as u32;
        let mut packet = header.to_bytes().to_vec();
        packet.extend_from_slice(&payload);
        Some(packet)
    }

    /// When to call [`transmit`](Self::transmit) next, at the latest. The deadline may have passed by then.
    pub fn next_timeout(&self) -> Instant {
        self.next
    }

    /// Whether the deadline has passed.
    pub fn has_expired(&self, now: Instant) -> bool {
        now >= self.deadline
    }

    /// Number of times that the present question has been sent.
    pub fn transmissions(&self) -> u32 {
        self.transmissions
    }

    /// Round-trip time to the server, as far as the binding has measured it.
    pub fn path(&self) -> RoundTrip {
        self.path
    }

    fn number(&self) -> CallNumber {
        // Late answers to an earlier question about the same procedures have another number. A description has that of the nonce.
        let answers = if self.mismatch.is_some() { 0 } else { self.answers };
        CallNumber((self.nonce as u32).wrapping_add(answers))
    }

    fn request(&self) -> BindRequest {
        BindRequest {
            nonce: self.nonce,
            cookie: self.cookie,
            required: self.required,
            wanted: self.wanted,
            max_message: self.max_message,
            window: self.window,
            host: self.host,
            first: self.first(),
            interface: self.interface.name.clone(),
            fingerprints: self.page.asked(&self.interface).map(fingerprint).collect(),
            packet_data: None,
            lanes: None,
        }
    }

    /// The position that the present question names: 0 as long as there is no binding.
    fn first(&self) -> u16 {
        let is_bound = self.binding.with_checksum(false) != BindingId::NONE;
        (self.found.len() as u16).max(u16::from(is_bound))
    }

    fn describe(&self, procedure: usize) -> Describe {
        let procedure = self.interface.procedures[procedure].name.clone();
        Describe { nonce: self.nonce, interface: self.interface.name.clone(), procedure }
    }

    /// Handles a packet that arrived.
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) -> BindStep {
        let Ok((header, payload)) = Header::parse(packet) else { return BindStep::Continue };
        if header.number != self.number() {
            return BindStep::Continue;
        }
        let is_checked = header.binding.has_checksum() || self.required & CHECKSUM == 0;
        match header.kind {
            Kind::Challenge => self.on_challenge(now, &header),
            Kind::Versions => Versions::in_packet(&header).map_or(BindStep::Continue, BindStep::OtherVersion),
            Kind::BindReply => match BindReply::decode(payload) {
                // A server that does not know checksums sends none, so only its refusal of the flag is accepted without
                // one. Any other reply without a checksum may be corrupt.
                Some(reply) if !is_checked && !matches!(reply.status, BindStatus::UnknownFlags(_)) => {
                    BindStep::Continue
                }
                Some(reply) if reply.nonce == self.nonce => self.on_reply(now, header.binding, reply),
                _ => BindStep::Continue,
            },
            Kind::Description if is_checked => match (Description::decode(payload), self.mismatch) {
                (Some(description), Some(procedure)) if description.nonce == self.nonce => {
                    BindStep::Mismatch { procedure, theirs: description.signature }
                }
                _ => BindStep::Continue,
            },
            _ => BindStep::Continue,
        }
    }

    fn on_challenge(&mut self, now: Instant, header: &Header) -> BindStep {
        if let Some(cookie) = header.challenge()
            && cookie != self.cookie
        {
            self.cookie = cookie;
            // At most one immediate answer until the next timeout. Where a network duplicates packets and a server
            // restarts again and again, every challenge has another cookie, and an answer to each would never end.
            if !core::mem::replace(&mut self.challenged, true) {
                self.answered(now);
            }
        }
        BindStep::Continue
    }

    /// The question has been answered: the next one is sent at once.
    fn answered(&mut self, now: Instant) {
        if self.transmissions == 1 {
            self.path.sample(now.since(self.asked));
        }
        self.transmissions = 0;
        self.at_once = true;
        self.next = now;
    }

    fn on_reply(&mut self, now: Instant, binding: BindingId, reply: BindReply) -> BindStep {
        if reply.first != self.first() || self.mismatch.is_some() {
            return BindStep::Continue;
        }
        match reply.status {
            BindStatus::Bound => self.on_page(now, binding, reply),
            BindStatus::Mismatch => {
                let is_marked = reply.procedures.contains(&NO_PROCEDURE);
                if !is_marked || reply.procedures.len() != self.page.len() {
                    return BindStep::Continue;
                }
                match self.page.answered(&self.interface, &reply.procedures) {
                    Next::Ask => self.answers += 1,
                    Next::Describe(procedure) => self.mismatch = Some(procedure),
                    Next::Done => unreachable!("a mark is no end"),
                }
                self.answered(now);
                BindStep::Continue
            }
            status => BindStep::Refused(status, reply.text),
        }
    }

    fn on_page(&mut self, now: Instant, binding: BindingId, reply: BindReply) -> BindStep {
        let (asked, lacking) = (self.required | self.wanted, self.required & !reply.chosen);
        // Both sides read from the binding's number whether packets have checksums, so number and flags must agree.
        let other_number = binding.has_checksum() != (reply.chosen & CHECKSUM != 0);
        let other_flags = reply.chosen & !asked != 0 || lacking != 0;
        if other_flags || other_number || reply.procedures.len() != self.page.len() {
            return BindStep::Continue;
        }
        self.answered(now);
        self.binding = binding;
        match self.page.answered(&self.interface, &reply.procedures) {
            Next::Ask => {
                self.answers += 1;
                return BindStep::Continue;
            }
            Next::Describe(procedure) => {
                self.mismatch = Some(procedure);
                return BindStep::Continue;
            }
            Next::Done => self.page.found(&mut self.found),
        }
        if self.found.len() < self.interface.procedures.len() {
            self.page = Page::newest(&self.interface, self.found.len());
            return BindStep::Continue;
        }
        let found = core::mem::take(&mut self.found);
        let is_newest = (0..).zip(&found).all(|(procedure, found)| found.form == procedure);
        let (procedures, forms) = match is_newest {
            true => (found.iter().map(|found| found.number).collect(), None),
            false => (Vec::new(), Some(found.into_boxed_slice())),
        };
        BindStep::Bound(Bound {
            binding,
            procedures,
            forms,
            incarnation: reply.incarnation,
            silence: Duration::from_millis(u64::from(reply.silence_ms)),
            max_message: reply.max_message,
            window: reply.window,
            host: reply.host,
            offers: reply.text,
            chosen: reply.chosen,
            clock: reply.clock,
            packet_data: reply.packet_data,
            lanes: reply.lanes,
            metadata: reply.metadata,
            credit: reply.credit,
        })
    }
}

#[cfg(test)]
mod tests;
