//! The sending half of a connection: many threads, one fragment at a time.

use crate::locked::Turns;
use crate::transport::stream::channel::Channel;
use crate::transport::stream::pipes::{PacketsSent, PipeTable};
use std::io::{self, IoSlice};
use std::sync::{MutexGuard, OnceLock};
use std::time::Duration;
use stoop_exchange::stream::OutgoingMessage;
use stoop_net::clock;
use stoop_net::poller::{Events, Interest, Poller};
use stoop_wire::{BindingId, HEADER_LEN, left_of_nanos};

/// The right to send, and the bytes of a fragment that the stream has not taken.
#[derive(Default)]
pub(crate) struct SendingHalf {
    rest: Turns<Rest>,
    /// For waiting until there is room; made when it is first needed.
    room: OnceLock<Poller>,
}

/// The bytes that the next thread to send has to send first.
#[derive(Default)]
struct Rest {
    bytes: Vec<u8>,
    sent: usize,
    /// Bytes that were ever kept, and how many of them the stream has taken.
    kept: u64,
    taken: u64,
}

/// Why a message was not sent.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// The stream is broken. Part of the message is missing at the server, which cannot have acted on it.
    Lost,
    /// The deadline passed before the stream took it all. Part of it is missing for good.
    Late,
    /// The deadline passed while the last of it waited for room; it will still be sent.
    LateButOnItsWay,
}

/// How long a thread waits for room in the stream, and what else it does meanwhile.
struct Waiting<'m> {
    deadline_ns: u64,
    meanwhile: Option<&'m mut dyn FnMut()>,
}

/// How long that can wait.
const MEANWHILE_NS: u64 = 1_000_000;

/// Bytes of what has been sent that are kept, and of the room for what is left over.
const KEPT_MAX: usize = 256 * 1024;

impl SendingHalf {
    /// Sends a message, in turn with those of other threads, fragment by fragment. Returns whether it was sent by
    /// one system call.
    #[inline]
    pub(crate) fn send(
        &self,
        stream: &Channel,
        packet: &[u8],
        mut message: OutgoingMessage,
        deadline_ns: u64,
    ) -> Result<bool, Unsent> {
        let rest = self.rest.turn();
        if rest.bytes.is_empty() && begin_fragment(stream, packet, &mut message)? && message.is_done() {
            return Ok(true);
        }
        let waiting = Waiting { deadline_ns, meanwhile: None };
        self.send_in_parts(rest, stream, packet, message, waiting).map(|()| false)
    }

    /// The same, for a thread that has more to see to: while the stream takes nothing, it does `meanwhile` every millisecond.
    #[cold]
    pub(crate) fn send_beside(
        &self,
        stream: &Channel,
        packet: &[u8],
        message: OutgoingMessage,
        deadline_ns: u64,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), Unsent> {
        let waiting = Waiting { deadline_ns, meanwhile: Some(meanwhile) };
        self.send_in_parts(self.rest.turn(), stream, packet, message, waiting)
    }

    /// Sends whole fragments, all of them together, without ever waiting: what the stream does not take goes before
    /// any other message. Returns whether it took all.
    pub(crate) fn post(&self, stream: &Channel, fragments: &[u8]) -> io::Result<bool> {
        let mut rest = self.rest.turn();
        let sent = match rest.bytes.is_empty() {
            true => stream.try_send(&[IoSlice::new(fragments)])?,
            false => 0,
        };
        rest.keep_bytes(&fragments[sent..]);
        Ok(rest.bytes.is_empty())
    }

    /// Sends what is due of the pipes, without waiting: nothing more is taken from them while something is left over.
    #[cold]
    pub(crate) fn send_pipes(
        &self,
        stream: &Channel,
        pipes: &PipeTable,
        binding: BindingId,
    ) -> io::Result<()> {
        loop {
            let mut rest = self.rest.turn();
            if !rest.flush(stream)? {
                return Ok(());
            }
            let kept = rest.bytes.len();
            let sent = pipes.send_next(binding, |slices| stream.try_send(slices), &mut rest.bytes)?;
            rest.kept += (rest.bytes.len() - kept) as u64;
            drop(rest);
            if sent != PacketsSent::Whole {
                return Ok(());
            }
            self.rest.let_others_pass();
        }
    }

    /// Waits until the stream may take what has been left over, at most for so long.
    #[cold]
    pub(crate) fn await_room(&self, stream: &Channel, limit: Duration) {
        if let Ok(poller) = self.poller(stream) {
            let _ = poller.wait(&mut Events::with_capacity(1), Some(limit));
        }
    }

    /// Whether something has been left over.
    pub(crate) fn has_rest(&self) -> bool {
        !self.rest.turn().bytes.is_empty()
    }

    /// Sends what has been left over, as far as the stream takes it.
    pub(crate) fn flush(&self, stream: &Channel) -> io::Result<()> {
        self.rest.turn().flush(stream).map(|_| ())
    }

    #[cold]
    fn send_in_parts<'a>(
        &'a self,
        mut rest: MutexGuard<'a, Rest>,
        stream: &Channel,
        packet: &[u8],
        mut message: OutgoingMessage,
        mut waiting: Waiting<'_>,
    ) -> Result<(), Unsent> {
        loop {
            if message.is_done() {
                return Ok(());
            }
            if !message.is_between_fragments() {
                let own = rest.keep(packet, &mut message);
                if message.is_done() {
                    return self.await_sent(rest, own, stream, waiting);
                }
            }
            let has_room = rest.flush(stream)? && {
                message.set_time(time_left(waiting.deadline_ns));
                begin_fragment(stream, packet, &mut message)?
            };
            if has_room || !message.is_between_fragments() {
                // A fragment has gone, or begun to.
                if message.is_between_fragments() && !message.is_done() {
                    drop(rest);
                    self.rest.let_others_pass();
                    rest = self.rest.turn();
                }
                continue;
            }
            drop(rest);
            self.wait_for_room(stream, &mut waiting, Unsent::Late)?;
            rest = self.rest.turn();
        }
    }

    /// Waits until the stream has taken the last of a message, from this thread or another: `own` of all bytes that were ever kept.
    fn await_sent<'a>(
        &'a self,
        mut rest: MutexGuard<'a, Rest>,
        own: u64,
        stream: &Channel,
        mut waiting: Waiting<'_>,
    ) -> Result<(), Unsent> {
        loop {
            let flushed = rest.flush(stream);
            // Bytes of other messages behind it may be left.
            if rest.taken >= own {
                return Ok(());
            }
            flushed?;
            drop(rest);
            let waited = self.wait_for_room(stream, &mut waiting, Unsent::LateButOnItsWay);
            // Another thread may still send it.
            waited.map_err(|_| Unsent::LateButOnItsWay)?;
            rest = self.rest.turn();
        }
    }

    /// Waits until there is room, or it is time to do something else; and does that. The caller holds no lock.
    fn wait_for_room(&self, stream: &Channel, waiting: &mut Waiting<'_>, late: Unsent) -> Result<(), Unsent> {
        let left_ns = waiting.deadline_ns.saturating_sub(clock::now_ns());
        if left_ns == 0 {
            return Err(late);
        }
        let limit_ns = if waiting.meanwhile.is_some() { left_ns.min(MEANWHILE_NS) } else { left_ns };
        let wait = self.poller(stream).and_then(|poller| {
            poller.wait(&mut Events::with_capacity(1), Some(Duration::from_nanos(limit_ns)))
        });
        if let Some(meanwhile) = &mut waiting.meanwhile {
            meanwhile();
        }
        wait.map_err(|_| Unsent::Lost)
    }

    fn poller(&self, stream: &Channel) -> io::Result<&Poller> {
        if let Some(poller) = self.room.get() {
            return Ok(poller);
        }
        let poller = Poller::new()?;
        poller.add(stream, 0, Interest::WRITE)?;
        // Another thread's is as good.
        Ok(self.room.get_or_init(|| poller))
    }
}

impl From<io::Error> for Unsent {
    fn from(_: io::Error) -> Self {
        Self::Lost
    }
}

/// Sends a fragment as far as the stream takes it. Returns whether it took all.
#[inline]
fn begin_fragment(stream: &Channel, packet: &[u8], message: &mut OutgoingMessage) -> io::Result<bool> {
    let mut room = [0; HEADER_LEN];
    let [first, second] = message.next_slices(packet, &mut room);
    let sent = stream.try_send(&[IoSlice::new(first), IoSlice::new(second)])?;
    message.advance(sent);
    Ok(sent > 0 && message.is_between_fragments())
}

impl Rest {
    /// Keeps what is left of the present fragment. Returns how many bytes have been kept so far.
    fn keep(&mut self, packet: &[u8], message: &mut OutgoingMessage) -> u64 {
        debug_assert!(self.bytes.is_empty(), "a fragment begins when the one before has left");
        let mut room = [0; HEADER_LEN];
        let slices = message.next_slices(packet, &mut room);
        slices.iter().for_each(|slice| self.keep_bytes(slice));
        message.advance(self.bytes.len());
        self.kept
    }

    #[inline]
    fn keep_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.kept += bytes.len() as u64;
    }

    /// Sends what is left, as far as the stream takes it. Returns whether nothing is left.
    fn flush(&mut self, stream: &Channel) -> io::Result<bool> {
        while self.sent < self.bytes.len() {
            match stream.try_send(&[IoSlice::new(&self.bytes[self.sent..])])? {
                0 => {
                    self.drop_sent();
                    return Ok(false);
                }
                sent => {
                    self.sent += sent;
                    self.taken += sent as u64;
                }
            }
        }
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_MAX);
        self.sent = 0;
        Ok(true)
    }

    /// Drops the bytes that have been sent, if they are most of the buffer: it would grow without end while threads post and the
    /// stream is never empty.
    fn drop_sent(&mut self) {
        if self.sent > KEPT_MAX && self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

/// The time left, in the form of the header.
fn time_left(deadline_ns: u64) -> u32 {
    left_of_nanos(deadline_ns.saturating_sub(clock::now_ns()))
}

#[cfg(test)]
mod tests {
    use crate::transport::stream::caller::sending_half::*;
    use stoop_net::Patience;
    use stoop_net::stream::{Stream, StreamArrival};

    /// Receives what is there, so many bytes at most. Returns how many.
    fn drain(theirs: &Stream, at_most: usize) -> usize {
        let (mut buffer, mut taken) = (vec![0; at_most], 0);
        while taken < at_most
            && let Ok(StreamArrival::Bytes(len)) = theirs.recv(&mut buffer[taken..], Patience::DontWait)
        {
            taken += len;
        }
        taken
    }

    #[test]
    fn a_message_has_been_sent_when_the_stream_has_its_last_byte_though_others_are_left_behind_it() {
        let (ours, theirs) = Stream::pair().unwrap();
        let ours = Channel::new(ours);
        let outgoing = SendingHalf::default();
        // The stream takes nothing more, and a tail is kept; behind it is another message, of which some will be left.
        while outgoing.rest.turn().bytes.is_empty() {
            outgoing.post(&ours, &[7; 64 * 1024]).unwrap();
        }
        let own = outgoing.rest.turn().kept;
        outgoing.post(&ours, &vec![8; 16 << 20]).unwrap();
        while outgoing.rest.turn().taken < own {
            assert!(drain(&theirs, 64 * 1024) > 0);
            outgoing.flush(&ours).unwrap();
        }
        assert!(!outgoing.rest.turn().bytes.is_empty(), "the other message is left");
        drop(theirs);
        let waiting = Waiting { deadline_ns: clock::now_ns() + 60_000_000_000, meanwhile: None };
        outgoing.await_sent(outgoing.rest.turn(), own, &ours, waiting).unwrap();
        assert!(outgoing.flush(&ours).is_err(), "the stream is broken");
    }

    #[test]
    fn what_has_been_sent_is_not_kept_though_something_is_always_left_over() {
        let (ours, theirs) = Stream::pair().unwrap();
        let ours = Channel::new(ours);
        let outgoing = SendingHalf::default();
        let (fragments, mut buffer) = ([7; 64 * 1024], [0; 64 * 1024]);
        for _ in 0..16 {
            outgoing.post(&ours, &fragments).unwrap();
        }
        for _ in 0..400 {
            outgoing.post(&ours, &fragments).unwrap();
            let mut taken = 0;
            while taken < fragments.len() {
                let room = &mut buffer[taken..];
                let Ok(StreamArrival::Bytes(len)) = theirs.recv(room, Patience::DontWait) else { panic!() };
                taken += len;
                outgoing.flush(&ours).unwrap();
            }
            assert!(!outgoing.rest.turn().bytes.is_empty());
        }
        assert!(
            outgoing.rest.turn().bytes.capacity() < 100 * fragments.len(),
            "{}",
            outgoing.rest.turn().bytes.capacity()
        );
        while theirs
            .recv(&mut buffer, Patience::DontWait)
            .is_ok_and(|arrival| arrival != StreamArrival::Nothing)
        {
            outgoing.flush(&ours).unwrap();
        }
        assert!(outgoing.rest.turn().bytes.capacity() <= KEPT_MAX);
    }
}
