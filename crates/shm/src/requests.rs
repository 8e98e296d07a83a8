//! The ring by which the threads of one process send calls to their server: a line each, in the order of their tickets.
//!
//! | bytes | field |
//! |-------|-------|
//! | 0–3   | ticket + 1, as far as that goes: written last, it publishes the line |
//! | 4–5   | lane |
//! | 6–7   | processor on which the caller runs |
//! | 8–11  | bytes of the message |
//! | 12–13 | procedure |
//! | 14    | kind |
//! | 15    | channel, if the message is longer than a slot |
//! | 16–23 | deadline, nanoseconds of the server's monotonic clock |
//! | 24–27 | number of the call on its lane |
//! | 28–31 | the count at which its chunks begin in the channel |
//! | 32–63 | the message, if it is no longer than that |
//!
//! A line is written again only after the server has taken its last request. The ring guarantees that by its length. A lane makes
//! its next call after the answer to the one before, so at most three of its requests can be in the ring: the cancel of a call that
//! was answered all the same, the next call, and its cancel. The ring has four lines for each lane. So when the turn of a line comes
//! again, the server has answered calls with later tickets; and it takes requests in the order of their tickets.

use crate::Segment;
use crate::count;
use crate::layout::{self, CANCELS, LANES, SLOT, TAKEN};
use crate::sync::{AtomicU64, Ordering, fence_after_exchange};

/// Bytes of a message that fit into the line.
const INLINE: usize = 32;
const INLINE_AT: usize = 32;

/// Most requests among which a server looks for the cancel of a call. Bounds the work that a hostile peer can cause by one call.
const LOOKS_AHEAD_MAX: u64 = 256;

/// How many tickets later the request is whose line a server that [looks ahead](Requests::look_ahead) fetches.
const FETCHED_AHEAD: u64 = 3;

/// A caller's request to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// A call, or the cancel of one.
    pub kind: RequestKind,
    /// The caller's lane.
    pub lane: u16,
    /// The number of the call on the lane.
    pub number: u32,
    /// The server's number of the procedure.
    pub procedure: u16,
    /// Processor on which the caller ran when it published this.
    pub cpu: u16,
    /// Bytes of the message.
    pub len: u32,
    /// When the caller stops waiting, in nanoseconds of the server's monotonic clock.
    pub deadline_ns: u64,
    /// The channel in which a message longer than [`SLOT`] comes.
    pub channel: u8,
    /// The count at which its chunks begin there.
    pub base: u32,
}

/// The operation that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RequestKind {
    /// The procedure is to be run.
    Call = 1,
    /// No thread waits for that call any more.
    Cancel = 2,
    /// As [`Call`](Self::Call), and some of its arguments are buffers in the arena.
    CallInPlace = 3,
    /// As [`Call`](Self::Call), and its result is to tell how long it was at the server.
    CallTimed = 4,
}

/// The result of a look at the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Took {
    /// The next request has not been published.
    Nothing,
    /// It has been taken.
    Request(Request),
    /// It is none that this version of the protocol knows: the peer is broken or hostile.
    Disorder,
}

/// The callers' side of the ring: draws tickets.
#[derive(Debug, Default)]
pub struct Requests {
    /// With 64 bits, no ticket comes again: [`was_left`](Self::was_left) must not take a call that has been running for an hour, and
    /// billions of others, for one that has not been taken.
    next: AtomicU64,
}

impl Requests {
    /// Publishes a request whose message, if it is no longer than a slot, is `message`. Returns its ticket.
    ///
    /// Ends with the fence that [`attention::is_asleep`](crate::attention::is_asleep) needs.
    #[inline]
    pub fn publish(&self, segment: &Segment, request: &Request, message: &[u8]) -> u64 {
        Self::lay(segment, request.lane, message);
        let ticket = self.draw(1);
        let word0 = Self::prepare(segment, ticket, request, message);
        // Release for the line; an exchange for the fence.
        segment.word(layout::request(ticket)).swap(word0, Ordering::SeqCst);
        fence_after_exchange();
        if request.kind == RequestKind::Cancel {
            segment.half(CANCELS).fetch_add(1, Ordering::Release);
        }
        ticket
    }

    /// Fetches the line of a request that this thread is about to publish, after `behind` others. (A hint: it does no harm if the
    /// request gets another line, or is never published.)
    #[inline]
    pub fn expect(&self, segment: &Segment, behind: u32) {
        // The line moves from the cache of the server's processor, which has read it, while this thread writes the arguments.
        segment.will_write(layout::request(self.next.load(Ordering::Relaxed) + u64::from(behind)));
    }

    /// Draws `count` tickets in a row, for requests that this thread [posts](Self::post) at once: until it has done so, the server
    /// sees no request with a later ticket.
    #[inline]
    pub fn draw(&self, count: usize) -> u64 {
        // AcqRel: the server read the line before it answered some lane, and that lane has drawn a ticket since. Its release makes
        // that read happen before this thread's writes to the line.
        self.next.fetch_add(count as u64, Ordering::AcqRel)
    }

    /// As [`publish`](Self::publish), with a ticket that has been [drawn](Self::draw), and without the fence: for several requests in
    /// a row, after which [`attention::is_asleep_after_all`](crate::attention::is_asleep_after_all) is asked once. A message that is
    /// longer than a line has been [laid](Self::lay) into its slot.
    #[inline]
    pub fn post(segment: &Segment, ticket: u64, request: &Request, message: &[u8]) {
        let word0 = Self::prepare(segment, ticket, request, message);
        segment.word(layout::request(ticket)).store(word0, Ordering::Release);
    }

    /// Copies the message of a call that will be published on `lane` into the lane's slot. Does nothing for a message that fits into
    /// the line, or that needs a channel.
    #[inline]
    pub fn lay(segment: &Segment, lane: u16, message: &[u8]) {
        if message.len() > INLINE && message.len() <= SLOT {
            segment.put(layout::call_slot(lane), message);
        }
    }

    /// Writes a ticket's line, except for the word that publishes it, which it returns.
    #[inline]
    fn prepare(segment: &Segment, ticket: u64, request: &Request, message: &[u8]) -> u64 {
        let word1 = u64::from(request.len)
            | u64::from(request.procedure) << 32
            | u64::from(request.kind as u8) << 48
            | u64::from(request.channel) << 56;
        let word3 = u64::from(request.number) | u64::from(request.base) << 32;
        let at = layout::request(ticket);
        segment.put_word(at + 8, word1);
        segment.put_word(at + 16, request.deadline_ns);
        segment.put_word(at + 24, word3);
        if message.len() <= INLINE {
            put_words(segment, at + INLINE_AT, message);
        }
        u64::from(tag(ticket)) | u64::from(request.lane) << 32 | u64::from(request.cpu) << 48
    }

    /// Whether the server has not taken the request with that ticket. To be asked after the server's process has died, when it can
    /// take no more.
    pub fn was_left(segment: &Segment, ticket: u64) -> bool {
        segment.word(TAKEN).load(Ordering::Acquire) <= ticket
    }

    /// The server's side: whether the request with that ticket has been published.
    #[inline]
    pub fn is_there(segment: &Segment, ticket: u64) -> bool {
        segment.word(layout::request(ticket)).load(Ordering::Acquire) as u32 == tag(ticket)
    }

    /// The server's side: the lane of the request with that ticket, if it has been published. Also fetches the line of a later
    /// request, for a server that takes one after the other.
    #[inline]
    pub fn look_ahead(segment: &Segment, ticket: u64) -> Option<u16> {
        segment.will_read(layout::request(ticket + FETCHED_AHEAD));
        let word0 = segment.word(layout::request(ticket)).load(Ordering::Acquire);
        (word0 as u32 == tag(ticket)).then_some((word0 >> 32) as u16)
    }

    /// The server's side: how many cancels have been published. While this differs from the number of cancels that the server has
    /// taken, there are cancels among the requests in the ring.
    #[inline]
    pub fn cancels(segment: &Segment) -> u32 {
        segment.half(CANCELS).load(Ordering::Relaxed)
    }

    /// The server's side: whether the cancel of a call is among the requests from that ticket on, of which it looks at a bounded number.
    #[cold]
    pub fn is_cancelled_after(segment: &Segment, ticket: u64, lane: u16, number: u32) -> bool {
        let requests =
            (ticket..ticket + LOOKS_AHEAD_MAX).take_while(|&ticket| Self::is_there(segment, ticket));
        let mut cancels = requests.filter_map(|ticket| {
            let at = layout::request(ticket);
            let [word0, word1, word3] =
                [0, 8, 24].map(|word| segment.word(at + word).load(Ordering::Relaxed));
            ((word1 >> 48) as u8 == 2).then_some(((word0 >> 32) as u16, word3 as u32))
        });
        cancels.any(|cancel| cancel == (lane, number))
    }

    /// The server's side: takes the request with that ticket, the next one. Counted as taken before anything is done about it.
    #[inline]
    pub fn take(segment: &Segment, ticket: u64) -> Took {
        let at = layout::request(ticket);
        let word0 = segment.word(at).load(Ordering::Acquire);
        if word0 as u32 != tag(ticket) {
            return Took::Nothing;
        }
        segment.word(TAKEN).store(ticket + 1, Ordering::Release);
        let word1 = segment.get_word(at + 8);
        let deadline_ns = segment.get_word(at + 16);
        let word3 = segment.get_word(at + 24);
        let lane = (word0 >> 32) as u16;
        let kind = match (word1 >> 48) as u8 {
            1 => RequestKind::Call,
            2 => RequestKind::Cancel,
            3 => RequestKind::CallInPlace,
            4 => RequestKind::CallTimed,
            _ => return Took::Disorder,
        };
        let number = word3 as u32;
        // A number of more bits would name the same call in some places, and another one elsewhere.
        if usize::from(lane) >= LANES || number > count::MASK {
            return Took::Disorder;
        }
        Took::Request(Request {
            kind,
            lane,
            number,
            procedure: (word1 >> 32) as u16,
            cpu: (word0 >> 48) as u16,
            len: word1 as u32,
            deadline_ns,
            channel: (word1 >> 56) as u8,
            base: (word3 >> 32) as u32,
        })
    }

    /// The server's side: copies the message of the request with that ticket to the end of `message`. Only before any later request
    /// is answered: then its line may be written again.
    ///
    /// # Panics
    /// When it is longer than a slot: then it comes through a channel.
    #[inline]
    pub fn message(segment: &Segment, ticket: u64, request: &Request, message: &mut Vec<u8>) {
        let len = request.len as usize;
        assert!(len <= SLOT);
        if len <= INLINE {
            get_words(segment, layout::request(ticket) + INLINE_AT, len, message);
        } else {
            segment.append(layout::call_slot(request.lane), len, message);
        }
    }
}

/// The value of a line that holds the request with that ticket. Any other value belongs to another round.
#[inline]
fn tag(ticket: u64) -> u32 {
    ticket.wrapping_add(1) as u32
}

/// Stores bytes word by word, the last one padded.
#[inline]
pub(crate) fn put_words(segment: &Segment, at: usize, bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<8>();
    for (index, chunk) in whole.iter().enumerate() {
        segment.put_word(at + 8 * index, u64::from_le_bytes(*chunk));
    }
    if !rest.is_empty() {
        let mut padded = [0; 8];
        padded[..rest.len()].copy_from_slice(rest);
        segment.put_word(at + 8 * whole.len(), u64::from_le_bytes(padded));
    }
}

/// Loads `len` bytes word by word to the end of `bytes`.
#[inline]
pub(crate) fn get_words(segment: &Segment, at: usize, len: usize, bytes: &mut Vec<u8>) {
    let mut done = 0;
    while done < len {
        let word = segment.get_word(at + done).to_le_bytes();
        bytes.extend_from_slice(&word[..(len - done).min(8)]);
        done += 8;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::layout::RING;

    fn call(lane: u16, len: usize) -> Request {
        Request {
            kind: RequestKind::Call,
            lane,
            number: 7,
            procedure: 3,
            cpu: 1,
            len: len as u32,
            deadline_ns: u64::MAX - 1,
            channel: 2,
            base: u32::MAX,
        }
    }

    #[test]
    fn a_call_of_any_length_up_to_a_slot_arrives_as_it_was_published() {
        let (segment, _file) = Segment::create().unwrap();
        let requests = Requests::default();
        let bytes: Vec<u8> = (0..SLOT).map(|n| n as u8).collect();
        for (ticket, len) in [0, 1, 7, 8, 9, 31, 32, 33, 1440, SLOT].into_iter().enumerate() {
            let ticket = ticket as u64;
            assert_eq!(Requests::take(&segment, ticket), Took::Nothing);
            let published = call(5, len);
            assert_eq!(requests.publish(&segment, &published, &bytes[..len]), ticket);
            let Took::Request(request) = Requests::take(&segment, ticket) else { panic!("{len}") };
            assert_eq!(request, published);
            let mut message = vec![9];
            Requests::message(&segment, ticket, &request, &mut message);
            assert_eq!(message[1..], bytes[..len]);
        }
    }

    #[test]
    fn lines_are_used_again_round_after_round() {
        let (segment, _file) = Segment::create().unwrap();
        // The tickets pass the largest value that fits in a line.
        let requests = Requests { next: AtomicU64::new(u64::from(u32::MAX) - RING as u64) };
        for round in 0..3 * RING as u32 {
            let ticket = requests.publish(&segment, &call(0, 4), &round.to_le_bytes());
            assert!(matches!(Requests::take(&segment, ticket), Took::Request(_)));
            assert_eq!(Requests::take(&segment, ticket + 1), Took::Nothing);
        }
    }

    #[test]
    fn what_was_left_is_known_after_the_servers_death() {
        let (segment, _file) = Segment::create().unwrap();
        let requests = Requests::default();
        let first = requests.publish(&segment, &call(0, 0), &[]);
        let second = requests.publish(&segment, &call(1, 0), &[]);
        Requests::take(&segment, first);
        assert!(!Requests::was_left(&segment, first));
        assert!(Requests::was_left(&segment, second));
        // However much later that is.
        segment.word(TAKEN).store((1 << 32) + first, Ordering::Relaxed);
        assert!(!Requests::was_left(&segment, first));
        assert!(Requests::was_left(&segment, (1 << 32) + first));
    }

    #[test]
    fn a_cancel_is_seen_before_its_turn_has_come() {
        let (segment, _file) = Segment::create().unwrap();
        let requests = Requests::default();
        let first = requests.draw(3);
        (0..3).for_each(|lane| Requests::post(&segment, first + u64::from(lane), &call(lane, 4), b"four"));
        let cancel = Request { kind: RequestKind::Cancel, ..call(1, 0) };
        assert_eq!(Requests::cancels(&segment), 0);
        requests.publish(&segment, &cancel, &[]);
        assert_eq!(Requests::cancels(&segment), 1);
        assert!(matches!(Requests::take(&segment, 0), Took::Request(_)));
        let is_cancelled = |lane, number| Requests::is_cancelled_after(&segment, 1, lane, number);
        assert!(is_cancelled(1, 7) && !is_cancelled(1, 6) && !is_cancelled(2, 7));
        assert!(!Requests::is_cancelled_after(&segment, 4, 1, 7));
    }

    #[test]
    fn nonsense_is_disorder() {
        let (segment, _file) = Segment::create().unwrap();
        let requests = Requests::default();
        let ticket = requests.publish(&segment, &call(LANES as u16, 0), &[]);
        assert_eq!(Requests::take(&segment, ticket), Took::Disorder);
        let ticket = requests.publish(&segment, &call(0, 0), &[]);
        segment.word(layout::request(ticket) + 8).store(u64::MAX, Ordering::Relaxed);
        assert_eq!(Requests::take(&segment, ticket), Took::Disorder);
        let ticket = requests.publish(&segment, &Request { number: count::MASK + 1, ..call(0, 0) }, &[]);
        assert_eq!(Requests::take(&segment, ticket), Took::Disorder);
    }
}
