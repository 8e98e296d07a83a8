//! Long messages under way: calls whose chunks are taken as they come, and results whose chunks go as there is room.
//!
//! No thread waits for a peer: whoever receives takes and sends what can be at the moment, and looks again.

use crate::context::cancelled;
use crate::error::{FailureCode, RefusalCode};
use crate::message_buffer;
use crate::transport::shm::server::ShmEndpoint;
use crate::transport::shm::server::binding::Binding;
use crate::transport::shm::server::call::ShmCall;
use crate::transport::shm::server::worker::WorkerState;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use stoop_shm::layout::CHANNELS;
use stoop_shm::{Answer, AnswerKind, Disorder, Emptying, Filling, Request, Way, listening};
use stoop_wire::HEADER_LEN;

/// Calls that arrive in chunks.
#[derive(Default)]
pub(super) struct Incoming {
    channels: [Option<Arriving>; CHANNELS],
    /// A buffer for the next: whoever sent one long message is likely to send another.
    spare: Vec<u8>,
}

/// A call of which chunks are still to come.
struct Arriving {
    request: Request,
    emptying: Emptying,
    message: Vec<u8>,
}

/// Results that leave in chunks.
#[derive(Default)]
pub(super) struct Outgoing {
    channels: [Option<Leaving>; CHANNELS],
    /// What has left through each channel last: its caller may not have taken it, and never will if it cancels the call.
    left: [Option<(u16, u32, Filling)>; CHANNELS],
    /// The count at which the next message of each channel begins.
    bases: [u32; CHANNELS],
    /// Results that wait for a channel.
    waiting: VecDeque<Waiting>,
    /// Bytes of all these.
    bytes: usize,
    /// A buffer for the next result.
    spare: Vec<u8>,
}

struct Leaving {
    lane: u16,
    number: u32,
    filling: Filling,
    packet: Vec<u8>,
}

struct Waiting {
    lane: u16,
    number: u32,
    word: u32,
    len: usize,
    packet: Vec<u8>,
}

/// Chunks of one message that are taken or sent before others have their turn.
const ROUNDS: usize = 8;
/// Messages of the greatest length that may be under way to a caller, or wait until it takes them.
const LONG_MESSAGES: usize = 4;

/// A call that arrives in chunks no more.
enum Ended {
    /// All of it is there.
    Arrived(Request, Vec<u8>),
    /// This process has no memory for the rest.
    NoMemory(Arriving),
}

impl Incoming {
    /// Begins to receive the message of a request.
    ///
    /// # Errors
    /// There is no such channel, or it is in use.
    pub(super) fn begin(&mut self, request: Request) -> Result<(), Disorder> {
        let emptying = Emptying::new(Way::Call, request.channel, request.base, request.len as usize);
        let place = self.channels.get_mut(usize::from(request.channel));
        let (Some(emptying), Some(place @ None)) = (emptying, place) else { return Err(Disorder) };
        let mut message = std::mem::take(&mut self.spare);
        message.clear();
        *place = Some(Arriving { request, emptying, message });
        Ok(())
    }

    /// Takes what is there, and sets `moved` if there is something. Returns a call that arrives no more.
    fn advance(&mut self, binding: &Binding, moved: &mut bool) -> Result<Option<Ended>, Disorder> {
        for place in &mut self.channels {
            let Some(arriving) = place else { continue };
            for _ in 0..ROUNDS {
                if !arriving.emptying.has_more(&binding.segment)? {
                    break;
                }
                if !arriving.make_room() {
                    return Ok(place.take().map(Ended::NoMemory));
                }
                arriving.emptying.take(&binding.segment, &mut arriving.message);
                *moved = true;
                listening::tell_of_chunks(&binding.segment);
            }
            if arriving.emptying.is_done() {
                return Ok(place.take().map(|arrived| Ended::Arrived(arrived.request, arrived.message)));
            }
        }
        Ok(None)
    }

    /// Whether there is something to take, or to find fault with.
    fn can_advance(&self, binding: &Binding) -> bool {
        let arriving = self.channels.iter().flatten();
        let mut there = arriving.map(|arriving| arriving.emptying.has_more(&binding.segment));
        there.any(|there| there != Ok(false))
    }

    /// Forgets a call that has not arrived whole. Returns whether there was one.
    fn cancel(&mut self, lane: u16, number: u32) -> bool {
        let is_it = |arriving: &Arriving| (arriving.request.lane, arriving.request.number) == (lane, number);
        let place = self.channels.iter_mut().find(|place| place.as_ref().is_some_and(is_it));
        place.and_then(Option::take).is_some()
    }

    /// Takes the buffer of a call that has been served.
    pub(super) fn give_spare(&mut self, spare: Vec<u8>) {
        if spare.capacity() > self.spare.capacity() {
            self.spare = spare;
        }
    }
}

impl Arriving {
    /// Makes room for the next chunk. `false`: this process has no memory for it.
    fn make_room(&mut self) -> bool {
        message_buffer::reserve(&mut self.message, self.emptying.next_len(), self.request.len as usize)
            .is_ok()
    }
}

impl Outgoing {
    /// A buffer for a result, if there is one that has been used for another of this caller's.
    pub(super) fn spare(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
    }

    /// Whether so many bytes more would be more than a caller may leave lying.
    fn is_full(&self, bytes: usize, message_max: usize) -> bool {
        self.bytes + bytes > message_max.saturating_mul(LONG_MESSAGES)
    }

    /// Begins to send a result that has a channel, and what follows it.
    fn begin_waiting(&mut self, binding: &Binding, cpu: u16) {
        while let Some(channel) = self.channels.iter().position(Option::is_none)
            && let Some(Waiting { lane, number, word, len, packet }) = self.waiting.pop_front()
        {
            let filling = Filling::new(Way::Result, channel as u8, self.bases[channel], len);
            let base = filling.base();
            let mut leaving = Leaving { lane, number, filling, packet };
            // The first chunks are there when the caller is told.
            leaving.advance(binding);
            let (kind, channel_number) = (AnswerKind::Result, channel as u8);
            let answer = Answer { kind, len: len as u32, word, cpu, channel: channel_number, base };
            binding.answer(lane, number, &answer, &[]);
            self.channels[channel] = Some(leaving);
        }
    }

    /// Sends what there is room for, and sets `moved` if there is some. Returns how many results have left.
    fn advance(&mut self, binding: &Binding, moved: &mut bool) -> usize {
        let mut left = 0;
        for channel in 0..CHANNELS {
            let Some(leaving) = &mut self.channels[channel] else { continue };
            *moved |= leaving.advance(binding);
            if leaving.filling.is_done() {
                self.end(channel);
                left += 1;
            }
        }
        left
    }

    /// Whether there is room for something.
    fn can_advance(&self, binding: &Binding) -> bool {
        let mut leaving = self.channels.iter().flatten();
        leaving.any(|leaving| leaving.filling.is_done() || leaving.filling.has_room(&binding.segment))
    }

    /// The channel is free for another.
    fn end(&mut self, channel: usize) {
        let Some(leaving) = self.channels[channel].take() else { return };
        self.bases[channel] = leaving.filling.end();
        if leaving.filling.has_begun() {
            self.left[channel] = Some((leaving.lane, leaving.number, leaving.filling));
        }
        self.bytes -= leaving.packet.len();
        if leaving.packet.capacity() > self.spare.capacity() {
            self.spare = leaving.packet;
        }
    }

    /// If the result of a call has left, its caller takes no more of it: it makes room for the next.
    fn forget_left(&mut self, binding: &Binding, lane: u16, number: u32) {
        let is_it = |left: &&mut Option<(u16, u32, Filling)>| {
            left.as_ref().is_some_and(|left| (left.0, left.1) == (lane, number))
        };
        if let Some((_, _, filling)) = self.left.iter_mut().find(is_it).and_then(Option::take) {
            filling.forget(&binding.segment);
        }
    }

    /// Its caller does not want a result any more. Returns whether it was here.
    fn cancel(&mut self, binding: &Binding, lane: u16, number: u32) -> bool {
        let is_it = |leaving: &Leaving| (leaving.lane, leaving.number) == (lane, number);
        if let Some(channel) = self.channels.iter().position(|place| place.as_ref().is_some_and(is_it)) {
            if let Some(leaving) = &self.channels[channel] {
                // Its caller looks there no more.
                leaving.filling.forget(&binding.segment);
            }
            self.end(channel);
            return true;
        }
        let waits = |waiting: &Waiting| (waiting.lane, waiting.number) == (lane, number);
        let Some(place) = self.waiting.iter().position(waits) else {
            self.forget_left(binding, lane, number);
            return false;
        };
        if let Some(waiting) = self.waiting.remove(place) {
            self.bytes -= waiting.packet.len();
            answer_cancelled(binding, lane, number);
        }
        true
    }
}

/// Answers a call whose result nobody wants. Nobody reads it: it makes the lane free.
fn answer_cancelled(binding: &Binding, lane: u16, number: u32) {
    let code = RefusalCode::Cancelled.code();
    let answer = Answer { kind: AnswerKind::Failure, len: 0, word: code, cpu: 0, channel: 0, base: 0 };
    binding.answer(lane, number, &answer, &[]);
}

impl Leaving {
    /// Sends what there is room for. Returns whether there was some.
    fn advance(&mut self, binding: &Binding) -> bool {
        for round in 0..ROUNDS {
            if self.filling.is_done() || !self.filling.has_room(&binding.segment) {
                return round > 0;
            }
            let sent = HEADER_LEN + self.filling.sent();
            let next = &self.packet[sent..sent + self.filling.next_len()];
            let mut chunk = self.filling.chunk(&binding.segment);
            chunk.put(next);
            chunk.finish();
            listening::tell_of_chunks(&binding.segment);
        }
        true
    }
}

impl Binding {
    /// Whether a long message can go on at this moment.
    pub(super) fn can_move(&self) -> bool {
        self.has_transfers() && (self.incoming().can_advance(self) || self.outgoing().can_advance(self))
    }
}

impl ShmEndpoint {
    /// Goes on with the long messages of a binding. Returns a call that has arrived whole.
    ///
    /// # Errors
    /// The peer has said something impossible.
    #[cold]
    pub(super) fn advance(
        &self,
        worker: &mut WorkerState,
        binding: &Binding,
    ) -> Result<Option<(Request, Vec<u8>)>, Disorder> {
        let mut moved = false;
        let left = {
            let mut outgoing = binding.outgoing();
            let left = outgoing.advance(binding, &mut moved);
            outgoing.begin_waiting(binding, worker.cpu);
            left
        };
        self.moved(binding, left);
        let ended = binding.incoming().advance(binding, &mut moved)?;
        if moved {
            worker.moved_ns = worker.clock_ns;
            if self.shutting_down.load(Ordering::Relaxed) {
                self.moves.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (request, message) = match ended {
            Some(Ended::Arrived(request, message)) => (request, message),
            Some(Ended::NoMemory(arriving)) => {
                self.refuse_for_memory(worker, binding, arriving);
                return Ok(None);
            }
            None => return Ok(None),
        };
        // What copying its arguments took is not the procedure's time.
        worker.read_clock();
        self.moved(binding, 1);
        Ok(self.admit(worker, binding, &request).then_some((request, message)))
    }

    /// A call whose message comes in chunks.
    ///
    /// # Errors
    /// The peer has said something impossible. The call is forgotten: it neither runs nor is answered.
    pub(super) fn begin_arrival(&self, binding: &Binding, request: &Request) -> Result<(), Disorder> {
        let begun = binding.incoming().begin(*request);
        match begun {
            Ok(()) => {
                binding.transfers.fetch_add(1, Ordering::SeqCst);
                self.moving.fetch_add(1, Ordering::SeqCst);
            }
            Err(Disorder) => binding.forget(request.lane, request.number),
        }
        begun
    }

    /// Refuses a call of which this process cannot hold the rest.
    #[cold]
    fn refuse_for_memory(&self, worker: &WorkerState, binding: &Binding, arriving: Arriving) {
        let Arriving { request, emptying, message } = arriving;
        // Freed before the refusal is written, which takes memory.
        drop(message);
        let detail =
            format!("the server's process has no memory left for {} bytes of arguments", request.len);
        self.refuse_request(binding, &request, RefusalCode::Overloaded, &detail, worker.cpu);
        emptying.decline(&binding.segment);
        self.moved(binding, 1);
    }

    /// So many long messages are under way no more.
    fn moved(&self, binding: &Binding, messages: usize) {
        if messages > 0 {
            binding.transfers.fetch_sub(messages, Ordering::SeqCst);
            self.moving.fetch_sub(messages, Ordering::SeqCst);
            self.announce_end();
        }
    }

    /// Sends a result that is longer than a slot, as far as there is room; the rest goes as its reader takes it.
    #[cold]
    pub(super) fn send_long(&self, worker: &mut WorkerState, call: &ShmCall, word: u32, len: usize) {
        let binding = &call.binding;
        let id = binding.call_id(call.request.lane, call.request.number);
        let packet = std::mem::take(&mut worker.result);
        let mut outgoing = binding.outgoing();
        if outgoing.is_full(packet.len(), self.message_max) {
            let detail = format!(
                "{} bytes of earlier results of this binding have not been taken yet, of at most {}; ask for less at a time, or \
                 raise Server::max_message",
                outgoing.bytes,
                self.message_max.saturating_mul(LONG_MESSAGES),
            );
            drop(outgoing);
            return self.send_failure(worker, call, FailureCode::ResultTooLarge, &detail);
        }
        // Looked at under the lock: who closes it empties this under it afterwards, and who cancels a call looks for it here.
        if binding.is_closed() {
            return binding.forget(call.request.lane, call.request.number);
        }
        if cancelled::is_cancelled(id) {
            drop(outgoing);
            worker.result = packet;
            return answer_cancelled(binding, call.request.lane, call.request.number);
        }
        binding.transfers.fetch_add(1, Ordering::SeqCst);
        self.moving.fetch_add(1, Ordering::SeqCst);
        outgoing.bytes += packet.len();
        let (lane, number) = (call.request.lane, call.request.number);
        outgoing.waiting.push_back(Waiting { lane, number, word, len, packet });
        outgoing.begin_waiting(binding, worker.cpu);
        let left = outgoing.advance(binding, &mut false);
        drop(outgoing);
        self.moved(binding, left);
        if binding.has_transfers() {
            self.notify(binding);
        }
    }

    /// The caller does not want a call any more.
    #[cold]
    pub(super) fn take_cancel(&self, worker: &WorkerState, binding: &Binding, request: &Request) {
        let (lane, number) = (request.lane, request.number);
        if binding.incoming().cancel(lane, number) {
            self.refuse_request(binding, request, RefusalCode::Cancelled, "", worker.cpu);
            return self.moved(binding, 1);
        }
        // First: a result that begins to leave at this moment is found there, or it is seen that nobody wants it.
        binding.cancel(lane, number);
        let mut outgoing = binding.outgoing();
        let was_leaving = outgoing.cancel(binding, lane, number);
        outgoing.begin_waiting(binding, worker.cpu);
        drop(outgoing);
        if was_leaving {
            self.moved(binding, 1);
        }
    }

    /// The binding is closed: nothing of it is under way any more.
    pub(super) fn drop_transfers(&self, binding: &Binding) {
        let incoming = std::mem::take(&mut *binding.incoming());
        let outgoing = std::mem::take(&mut *binding.outgoing());
        // Those that are under way have been answered; those that are arriving have not begun.
        outgoing.waiting.iter().for_each(|waiting| binding.forget(waiting.lane, waiting.number));
        let arriving = incoming.channels.iter().flatten().map(|arriving| &arriving.request);
        arriving.for_each(|request| binding.forget(request.lane, request.number));
        let calls = incoming.channels.iter().flatten().count();
        let results = outgoing.channels.iter().flatten().count() + outgoing.waiting.len();
        self.moved(binding, calls + results);
    }
}
