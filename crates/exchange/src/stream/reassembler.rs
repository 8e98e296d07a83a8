//! Reassembles messages from an arriving byte stream.

use crate::stream::buffers::{Buffers, INPUT_LEN};
use crate::stream::message::{Body, Message, StreamEvent};
use crate::stream::piped::{ArrivingData, OfPipe};
use crate::stream::terms::{Account, Bounds, Unbounded, Violation};
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::{
    HEADER_LEN, Header, HeaderError, Kind, MAGIC, PACKET_DATA, PipeReceipt, RefusalCode, STREAM_FRAGMENT,
    Versions,
};

/// An arriving byte stream. Receive into [`space`](Self::space), pass the number of bytes to
/// [`received`](Self::received), and [`poll`](Self::poll) until there is nothing left.
///
/// While nothing of a message has arrived, the input buffer can be taken away, and lent again before the next receipt:
/// [`give_input_back`](Self::give_input_back), [`lend_input`](Self::lend_input).
#[derive(Debug)]
pub struct Reassembler {
    bounds: Bounds,
    pub(super) buffers: Buffers,
    /// The fragment whose payload is arriving.
    pub(super) fragment: Option<Fragment>,
    incomplete: Vec<Incomplete>,
    /// Bytes that the incomplete messages announce.
    announced: usize,
    /// The packet of a pipe's data that is arriving, if the present fragment is one.
    pub(super) data: ArrivingData,
}

#[derive(Debug)]
pub(super) struct Fragment {
    /// Index of its message, or [`DATA`].
    pub(super) of: usize,
    /// Bytes of its payload still to come.
    pub(super) left: usize,
    /// Whether the last [`Reassembler::space`] was in the message itself.
    pub(super) direct: bool,
}

/// Of a packet of data, which belongs to no message.
pub(super) const DATA: usize = usize::MAX;

#[derive(Debug)]
struct Incomplete {
    /// Of the latest fragment.
    header: Header,
    /// Bytes of the message that have arrived, whether stored or skipped.
    received: usize,
    /// The message behind space for its header, or the reason why it is not accepted.
    packet: Result<Vec<u8>, RefusalCode>,
}

/// A message that has ended: complete, or not accepted.
type Complete = (Header, Result<Vec<u8>, RefusalCode>);

/// From this length on, the rest of a fragment is received directly into its message and not copied.
const DIRECT_MIN: usize = 4 * 1024;

impl Reassembler {
    /// Length of a buffer into which [`Message::take`] can move a message without a copy.
    pub const BUFFER_LEN: usize = INPUT_LEN;

    /// Begins a stream.
    pub fn new(bounds: Bounds) -> Self {
        let mut stream = Self::with_account(bounds, Box::new(Unbounded));
        stream.lend_input(&mut Vec::new());
        stream
    }

    /// Begins a stream without an input buffer, whose memory for messages is counted.
    pub fn with_account(bounds: Bounds, account: Box<dyn Account>) -> Self {
        let (buffers, data) = (Buffers::new(account), ArrivingData::default());
        Self { bounds, buffers, fragment: None, incomplete: Vec::new(), announced: 0, data }
    }

    /// Whether there is an input buffer.
    #[inline]
    pub fn has_input(&self) -> bool {
        !self.buffers.input.is_empty()
    }

    /// Takes `spare` as the input buffer, if it was one, or makes one. To be called while there is none.
    #[cold]
    pub fn lend_input(&mut self, spare: &mut Vec<u8>) {
        self.buffers.lend_input(spare);
    }

    /// Gives the input buffer back, if it holds nothing, into `spare`.
    pub fn give_input_back(&mut self, spare: &mut Vec<u8>) {
        self.buffers.give_input_back(spare);
    }

    /// Memory for the next bytes of the stream; never empty after [`poll`](Self::poll) has returned nothing, if there is an
    /// [input buffer](Self::has_input).
    #[inline]
    pub fn space(&mut self) -> &mut [u8] {
        if let Some(fragment) = &mut self.fragment {
            fragment.direct = false;
            if self.buffers.is_empty() && fragment.left >= DIRECT_MIN {
                if fragment.of == DATA {
                    fragment.direct = true;
                    return self.data.space(fragment.left);
                }
                let message = &mut self.incomplete[fragment.of];
                let room = message.make_room(fragment.left, &mut self.announced, &mut *self.buffers.account);
                if let Ok(packet) = &mut message.packet {
                    fragment.direct = true;
                    let at = HEADER_LEN + message.received;
                    return &mut packet[at..at + room];
                }
            }
        }
        self.buffers.space()
    }

    /// Records that `len` bytes have been put into the [`space`](Self::space).
    #[inline]
    pub fn received(&mut self, len: usize) {
        match &mut self.fragment {
            Some(fragment) if fragment.direct && fragment.of == DATA => self.data.received(len),
            Some(fragment) if fragment.direct => {
                fragment.left -= len;
                self.incomplete[fragment.of].received += len;
            }
            _ => self.buffers.end += len,
        }
    }

    /// Takes the bytes that have been received behind the last message: they are no part of another. `None`: a message is incomplete, or a
    /// fragment.
    pub fn take_unread(&mut self) -> Option<Vec<u8>> {
        let is_between = self.fragment.is_none() && self.incomplete.is_empty();
        is_between.then(|| self.buffers.take_unread())
    }

    /// Whether the stream is between two messages, and none is incomplete.
    pub fn is_at_rest(&self) -> bool {
        self.buffers.is_empty() && self.fragment.is_none() && self.incomplete.is_empty()
    }

    /// Whether part of a fragment has arrived and the rest has not.
    #[inline]
    pub fn is_in_fragment(&self) -> bool {
        !self.buffers.is_empty() || self.fragment.is_some()
    }

    /// Bytes of memory held for the stream.
    pub fn bytes_held(&self) -> usize {
        let messages = self.incomplete.iter().filter_map(|message| message.packet.as_ref().ok());
        self.data.bytes_held() + self.buffers.bytes_held() + messages.map(Vec::len).sum::<usize>()
    }

    /// Recycles `spare` as memory for a long message, if it is larger than the present one.
    pub fn recycle(&mut self, spare: Vec<u8>) {
        self.buffers.recycle(spare);
    }

    /// Returns the next event.
    ///
    /// # Errors
    /// If the peer broke the protocol. No later byte of the stream can be understood.
    #[inline]
    pub fn poll(&mut self) -> Result<Option<StreamEvent<'_>>, Violation> {
        loop {
            if let Some(fragment) = &self.fragment {
                if fragment.of == DATA {
                    return Ok(self.poll_data().map(StreamEvent::Data));
                }
                match self.continue_fragment() {
                    None => return Ok(None),
                    Some(None) => continue,
                    Some(Some((header, Ok(packet)))) => {
                        let body = Body::Packet { buffers: &mut self.buffers, packet };
                        return Ok(Some(StreamEvent::Message(Message { header, body })));
                    }
                    Some(Some((header, Err(why)))) => return Ok(Some(StreamEvent::NotTaken(header, why))),
                }
            }
            if let Some(header) = self.short_message() {
                return Ok(Some(self.give(header)));
            }
            let unread = self.buffers.unread();
            let Some(bytes) = unread.first_chunk::<HEADER_LEN>() else {
                // Another protocol is known by its first byte: the peer may send no more until it is spoken to.
                return match unread.first() {
                    Some(&other) if other != MAGIC => Err(Violation::Header(HeaderError::Magic(other))),
                    _ => Ok(None),
                };
            };
            let header = Header::from_bytes(bytes).map_err(|why| no_header(why, bytes))?;
            let payload_len = self.check(&header)?;
            let whole = payload_len == header.message_len as usize;
            let there = self.buffers.unread().len() - HEADER_LEN >= payload_len;
            if matches!(header.kind, Kind::Data | Kind::Receipt) {
                match self.take_of_pipe(header, payload_len)? {
                    OfPipe::Data => continue,
                    OfPipe::Receipt => return Ok(Some(self.give(header))),
                    OfPipe::Nothing => return Ok(None),
                }
            }
            if header.kind == Kind::Cancel {
                self.drop_cancelled(&header);
            }
            let after_incomplete = header.kind != Kind::Cancel
                && self.incomplete.iter().any(|message| message.header.lane == header.lane);
            if whole && there && !after_incomplete && !self.is_too_long(&header) {
                return Ok(Some(self.give(header)));
            }
            self.buffers.start += HEADER_LEN;
            self.begin_fragment(header, payload_len)?;
        }
    }

    /// Header of a call or result of one packet that has arrived whole while no message is incomplete. That is nearly
    /// always the case, and this test takes fewer steps than the general one.
    #[inline]
    fn short_message(&self) -> Option<Header> {
        let header = Header::parse_whole(self.bounds.long, self.buffers.unread())?;
        let is_taken = header.lane.0 < self.bounds.lanes && !self.is_too_long(&header);
        (is_taken && self.incomplete.is_empty()).then_some(header)
    }

    /// Gives out the message with this header, which is wholly in the input buffer.
    #[inline]
    fn give(&mut self, header: Header) -> StreamEvent<'_> {
        let at = self.buffers.start;
        self.buffers.start += HEADER_LEN + header.message_len as usize;
        StreamEvent::Message(Message { header, body: Body::Input { buffers: &mut self.buffers, at } })
    }

    /// Checks a header by itself and returns the length of its payload.
    #[inline]
    fn check(&self, header: &Header) -> Result<usize, Violation> {
        let payload_len = header.payload_len(STREAM_FRAGMENT).map_err(Violation::Header)?;
        if header.lane.0 >= self.bounds.lanes {
            return Err(Violation::Lane(header.lane));
        }
        if self.bounds.pipes && (header.kind == Kind::Data || PipeReceipt::of(header).is_some()) {
            return Ok(payload_len);
        }
        let is_short = header.offset == 0 && header.message_len as usize <= PACKET_DATA;
        if !is_short && header.kind != self.bounds.long || header.kind == Kind::Cancel && payload_len > 0 {
            return Err(or_version(header, Violation::Length(header.kind)));
        }
        // An empty fragment of a message would make no progress. A challenge, whose cookie looks like a length, is not
        // allowed on a stream.
        if payload_len == 0 && header.message_len > 0 {
            return Err(or_version(header, Violation::Fragment(header.lane)));
        }
        Ok(payload_len)
    }

    #[inline]
    fn is_too_long(&self, header: &Header) -> bool {
        header.kind == self.bounds.long && header.message_len as usize > self.bounds.message_max
    }

    /// Drops the incomplete message of a call that is cancelled: the rest of it will not be sent.
    #[cold]
    fn drop_cancelled(&mut self, cancel: &Header) {
        let is_cancelled = |message: &Incomplete| {
            message.header.lane == cancel.lane && !message.header.number.is_after(cancel.number)
        };
        if let Some(known) = self.incomplete.iter().position(is_cancelled) {
            self.drop_message(known);
        }
    }

    /// Begins a fragment, of a new message or of an incomplete one.
    #[cold]
    fn begin_fragment(&mut self, header: Header, payload_len: usize) -> Result<(), Violation> {
        let known = self.incomplete.iter().position(|message| message.header.lane == header.lane);
        if header.offset > 0 {
            let of = known.ok_or(Violation::Fragment(header.lane))?;
            let message = &mut self.incomplete[of];
            if !continues(message, &header) {
                return Err(Violation::Fragment(header.lane));
            }
            message.header = header;
            self.fragment = Some(Fragment { of, left: payload_len, direct: false });
            return Ok(());
        }
        if let Some(known) = known {
            // The lane's next message: the sender has abandoned this one.
            if !header.number.is_after(self.incomplete[known].header.number) {
                return Err(Violation::Fragment(header.lane));
            }
            self.drop_message(known);
        }
        let packet = self.begin_message(&header, payload_len);
        let of = self.incomplete.len();
        self.incomplete.push(Incomplete { header, received: 0, packet });
        self.fragment = Some(Fragment { of, left: payload_len, direct: false });
        Ok(())
    }

    /// Memory for the first fragment of a message, if the message is accepted.
    fn begin_message(&mut self, header: &Header, payload_len: usize) -> Result<Vec<u8>, RefusalCode> {
        let announced = header.message_len as usize;
        if self.is_too_long(header) {
            return Err(RefusalCode::MessageTooLarge);
        }
        if announced > self.bounds.announced_max - self.announced {
            return Err(RefusalCode::Overloaded);
        }
        let mut packet = if announced > INPUT_LEN { self.buffers.take_spare() } else { Vec::new() };
        let len = if packet.len() < HEADER_LEN { HEADER_LEN + payload_len } else { packet.len() };
        if !self.buffers.account.take(len) {
            return Err(RefusalCode::Overloaded);
        }
        if !crate::lengthen(&mut packet, len) {
            self.buffers.account.give_back(len);
            return Err(RefusalCode::Overloaded);
        }
        self.announced += announced;
        Ok(packet)
    }

    /// Takes the bytes of the present fragment that are there. `None`: more must arrive. `Some(None)`: the fragment is
    /// complete, its message is not.
    #[cold]
    fn continue_fragment(&mut self) -> Option<Option<Complete>> {
        let fragment = self.fragment.as_mut().expect("a fragment is arriving");
        let message = &mut self.incomplete[fragment.of];
        let announced = message.header.message_len as usize;
        while fragment.left > 0 && !self.buffers.is_empty() {
            let len = fragment.left.min(self.buffers.unread().len());
            let room = message.make_room(len, &mut self.announced, &mut *self.buffers.account);
            let len = match &mut message.packet {
                Ok(packet) => {
                    let at = HEADER_LEN + message.received;
                    let len = len.min(room);
                    packet[at..at + len].copy_from_slice(&self.buffers.unread()[..len]);
                    len
                }
                Err(_) => len,
            };
            self.buffers.start += len;
            fragment.left -= len;
            message.received += len;
        }
        if fragment.left > 0 {
            return None;
        }
        let of = fragment.of;
        let complete = message.received == announced;
        self.fragment = None;
        if !complete {
            return Some(None);
        }
        let Incomplete { header, mut packet, .. } = self.remove(of);
        let header = Header { offset: 0, ..header };
        if let Ok(packet) = &mut packet {
            packet[..HEADER_LEN].copy_from_slice(&header.to_bytes());
            self.buffers.uncount(packet);
        }
        Some(Some((header, packet)))
    }

    /// Drops an incomplete message.
    fn drop_message(&mut self, index: usize) {
        if let Ok(packet) = self.remove(index).packet {
            self.buffers.account.give_back(packet.len());
        }
    }

    fn remove(&mut self, index: usize) -> Incomplete {
        let removed = self.incomplete.swap_remove(index);
        if removed.packet.is_ok() {
            self.announced -= removed.header.message_len as usize;
        }
        removed
    }
}

/// The violation by bytes that are not a valid header.
#[cold]
fn no_header(why: HeaderError, bytes: &[u8; HEADER_LEN]) -> Violation {
    match Versions::answer_to(bytes) {
        Some(answer) if matches!(why, HeaderError::Version(_)) => Violation::Version { answer },
        _ => Violation::Header(why),
    }
}

/// The violation by a header that is not allowed here: a list of versions says that the peer speaks others.
#[cold]
fn or_version(header: &Header, violation: Violation) -> Violation {
    Versions::in_packet(header).map_or(violation, Violation::OtherVersion)
}

/// Whether a fragment continues its incomplete message.
fn continues(message: &Incomplete, next: &Header) -> bool {
    let last = &message.header;
    next.offset as usize == message.received
        && (next.kind, next.procedure, next.binding) == (last.kind, last.procedure, last.binding)
        && (next.number, next.message_len) == (last.number, last.message_len)
}

impl Incomplete {
    /// Makes space for up to `wanted` bytes more of the present fragment. The message's memory is never more than twice
    /// the bytes of the fragments that have begun. Returns how many bytes there is space for: at least one, if the message
    /// is accepted. If there is no memory, the message is no longer accepted, and its length is subtracted from
    /// `announced_in_all`.
    fn make_room(&mut self, wanted: usize, announced_in_all: &mut usize, account: &mut dyn Account) -> usize {
        let Ok(packet) = &mut self.packet else { return 0 };
        let (at, announced) = (HEADER_LEN + self.received, self.header.message_len as usize);
        if packet.len() <= at {
            let len = (2 * packet.len()).max(at + wanted).min(HEADER_LEN + announced).max(at + 1);
            let more = len - packet.len();
            let taken = account.take(more);
            if !taken || !crate::lengthen(packet, len) {
                account.give_back(packet.len() + if taken { more } else { 0 });
                self.packet = Err(RefusalCode::Overloaded);
                *announced_in_all -= announced;
                return 0;
            }
        }
        wanted.min(packet.len() - at)
    }
}
