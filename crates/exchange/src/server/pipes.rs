//! The pipes of calls that run, and the rest of pipes whose calls have been answered.

use super::agenda::LaneKey;
use super::assignment::Assignment;
use super::lane::{Age, Answer, LaneState};
use super::pipe_state::{CallKey, PipeDue, Pipes};
use super::sending::Transmission;
use super::shares::{Share, Shares};
use super::{Effect, PacketRoom, Peer, Server};
use crate::bulk::Path;
use crate::pipe::{Added, Drawn, FIRST_WINDOW, News, Receiving, Rest, Sending};
use crate::{Instant, RoundTrip};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use stoop_wire::{CallNumber, Data, Header, Receipt, ReceiptBehind, RefusalCode, flags};

/// Bytes that a window may grow to without the program's asking for more.
const WINDOW_MAX: u32 = 4 << 20;

/// Bytes that a program may ask for.
const WINDOW_MAX_ASKED: u32 = 1 << 30;

/// Time until the next look for memory.
const RETRY: Duration = Duration::from_millis(20);

impl<P: Peer> Server<P> {
    /// Gives a call that begins the pipes that its `flags` name, or refuses it if there is no memory for them.
    #[cold]
    pub(super) fn open_pipes(
        &mut self,
        now: Instant,
        effect: Effect<P>,
        flags: u8,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let mut assignment = match effect {
            Effect::Run(assignment) if flags & (flags::PIPE_IN | flags::PIPE_OUT) != 0 => assignment,
            other => return other,
        };
        let window = self.first_window();
        let (id, lane, number) = assignment.identity();
        let Some(binding) = self.bindings.get_mut(id) else { return Effect::Run(assignment) };
        let counted = if flags & flags::PIPE_IN != 0 { window as usize } else { 0 };
        if !self.shares.take_pipe(&mut binding.share, counted) {
            return self.refuse_pipes(now, assignment, reply);
        }
        let from = (counted > 0).then(|| Box::new(Receiving::new(0, window, WINDOW_MAX)));
        let to = (flags & flags::PIPE_OUT != 0).then(|| Box::new(Sending::new(0, 0, false)));
        assignment.set_pipes(to.is_some());
        let pipes = Pipes::new(assignment.peer, number, (from, to), counted, now);
        let check = pipes.check;
        let largest = binding.longest.max(id.packet_data() as u32);
        let new = || Box::new(Path::of(id, largest, RoundTrip::default(), id.0));
        binding.path.get_or_insert_with(new);
        let lane = binding.lanes.get_mut(lane).expect("a lane that runs is there");
        let large = lane.large.get_or_insert_default();
        debug_assert!(large.pipes.is_none(), "those of the call before have ended");
        large.pipes = Some(Box::new(pipes));
        self.agenda.set_timer(&mut large.timer, check, (id, assignment.identity().1));
        Effect::Run(assignment)
    }

    /// Bytes of a pipe that a caller may send before the first receipt.
    fn first_window(&self) -> u32 {
        FIRST_WINDOW.min(self.limits.window).max(1)
    }

    fn refuse_pipes(
        &mut self,
        now: Instant,
        mut assignment: Assignment<P>,
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        self.counters.dropped += 1;
        reply.clear();
        reply.extend_from_slice(assignment.refuse(RefusalCode::Overloaded, "no memory for its pipes"));
        // No call can be parked behind one that has only just begun.
        let _: super::Next<P> = self.finish(now, assignment);
        Effect::Reply
    }

    /// Handles a packet of data, and the receipt that may be behind it.
    #[cold]
    pub(super) fn on_data(
        &mut self,
        now: Instant,
        peer: P,
        header: &Header,
        payload: &[u8],
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let data = Data::of(header).expect("parsed data is valid");
        let (bytes, behind) = data.split(header, payload);
        let told = behind.map_or(Effect::Nothing, |behind| self.on_pipe_receipt(now, peer, header, &behind));
        match (told, self.take_data(now, peer, (header, &data, bytes), reply)) {
            (Effect::Pipe(call, told), Effect::Pipe(_, news)) => {
                Effect::Pipe(call, News { writable: told.writable, ..news })
            }
            (told, Effect::Nothing) => told,
            (told @ Effect::Pipe(..), Effect::Transmit) => told,
            (_, effect) => effect,
        }
    }

    fn take_data(
        &mut self,
        now: Instant,
        peer: P,
        (header, data, bytes): (&Header, &Data, &[u8]),
        reply: &mut Vec<u8>,
    ) -> Effect<P> {
        let binding =
            self.bindings.get_mut(header.binding).expect("packets without a binding are answered before");
        let Some(lane) = binding.lanes.get_mut(header.lane) else {
            self.counters.stale += 1;
            return Effect::Nothing;
        };
        match lane.on_data(Age::of(header.number, lane.number)) {
            Answer::TakeData => {}
            Answer::Drop => {
                self.counters.stale += 1;
                return Effect::Nothing;
            }
            answer => return self.repeat(peer, answer, header, reply),
        }
        let large = lane.large.as_mut();
        let Some((Pipes { from: Some(from), peer: at, heard, .. }, owes)) =
            large.and_then(|large| large.pipes.as_deref_mut().zip(Some(&mut large.owes)))
        else {
            self.counters.malformed += 1;
            return Effect::Nothing;
        };
        *at = peer;
        heard.set(now);
        let Ok(readable) = from.on_data(now, data, bytes) else {
            self.counters.malformed += 1;
            return Effect::Nothing;
        };
        let place = (header.binding, header.lane);
        if from.owes_receipt(false) {
            if self.agenda.receipts.last() != Some(&place) {
                self.agenda.receipts.push(place);
            }
        } else if !*owes && from.owes_receipt(true) {
            *owes = true;
            self.agenda.owing.push(place);
        }
        self.set_pipe_timer(place);
        self.tell_driver(header, News { readable, writable: false })
    }

    /// Handles a receipt for data of a call that runs, by itself or behind data, or has been answered before all of it had arrived.
    #[cold]
    pub(super) fn on_pipe_receipt(
        &mut self,
        now: Instant,
        peer: P,
        header: &Header,
        &ReceiptBehind { number, of_pipe, ref receipt }: &ReceiptBehind,
    ) -> Effect<P> {
        let place = (header.binding, header.lane);
        let binding = self.bindings.get_mut(place.0).expect("packets without a binding are answered before");
        let lane = binding.lanes.get_mut(place.1).filter(|lane| lane.number == header.number);
        let Some(lane) = lane else {
            self.counters.stale += 1;
            return Effect::Nothing;
        };
        lane.redirect(peer);
        let is_running = lane.is_running();
        let large = lane.large.as_deref_mut();
        let (Some(large), Some(path)) = (large, &mut binding.path) else { return Effect::Nothing };
        let Some(pipes) = &mut large.pipes else { return Effect::Nothing };
        pipes.heard.set(now);
        pipes.resume(path);
        let Some(to) = &mut pipes.to else {
            self.counters.malformed += 1;
            return Effect::Nothing;
        };
        let before = to.held();
        let writable = to.on_receipt(now, number, (of_pipe, receipt), path);
        if to.held() < before || to.is_done() {
            self.progress += 1;
        } else if !is_running && !core::mem::replace(&mut large.asks, true) {
            // It reports nothing new, so it asks whether the server is alive.
            self.agenda.questions.push(place);
        }
        // The result has told where the pipe ends: an abort, which has an offset of its own, would contradict it.
        let is_over = !is_running && (to.is_done() || to.is_stopped());
        pipes.recount(&mut self.shares, &mut binding.share);
        if is_over {
            large.end_pipes(&mut binding.path, &mut self.shares, &mut binding.share);
        }
        self.enqueue_senders(place.0);
        self.enqueue_sender(place);
        self.set_pipe_timer(place);
        self.tell_driver(header, News { readable: false, writable: writable && is_running })
    }

    /// The caller asks about a call that runs: what is sent to it goes to `peer` from now on.
    pub(super) fn hear_of_pipes(&mut self, peer: P, header: &Header) {
        let Some(binding) = self.bindings.get_mut(header.binding) else { return };
        let Some(lane) = binding.lanes.get_mut(header.lane) else { return };
        let (Some(pipes), Some(path)) =
            (lane.large.as_mut().and_then(|large| large.pipes.as_mut()), &mut binding.path)
        else {
            return;
        };
        pipes.peer = peer;
        pipes.heard.set(binding.heard);
        pipes.resume(path);
        self.enqueue_sender((header.binding, header.lane));
        self.set_pipe_timer((header.binding, header.lane));
    }

    fn tell_driver(&self, header: &Header, news: News) -> Effect<P> {
        match news.is_nothing() {
            false => Effect::Pipe((header.binding, header.lane, header.number), news),
            true if self.may_transmit() => Effect::Transmit,
            true => Effect::Nothing,
        }
    }

    /// Sets the lane's timer to that of its pipes, if it is earlier.
    fn set_pipe_timer(&mut self, place: LaneKey) {
        let Some(binding) = self.bindings.get_mut(place.0) else { return };
        let large = binding.lanes.get_mut(place.1).and_then(|lane| lane.large.as_mut());
        let (Some(large), Some(path)) = (large, &binding.path) else { return };
        let Some(pipes) = &large.pipes else { return };
        let next = pipes.next_timeout(path);
        self.agenda.set_timer(&mut large.timer, next, place);
    }

    /// Puts the next packets of a lane's pipe into `room`, or the lane into the list of those that wait for space on the path.
    pub(super) fn pipe_transmission(
        &mut self,
        now: Instant,
        place: LaneKey,
        most: usize,
        room: &mut impl PacketRoom,
    ) -> Option<Transmission<P>> {
        let binding = self.bindings.get_mut(place.0)?;
        let large = binding.lanes.get_mut(place.1)?.large.as_mut()?;
        let path = binding.path.as_mut()?;
        let pipes = large.pipes.as_mut().filter(|pipes| pipes.is_sending())?;
        let framing = pipes.framing(place);
        let to = pipes.to.as_deref_mut()?;
        let run = to.next_run(now, path, most);
        let has_more = to.has_more();
        let timer = to.next_timeout(path);
        self.agenda.set_timer(&mut large.timer, timer, place);
        if let Some(run) = run {
            let segment = path.packet_len(run.fragment);
            to.frame(now, framing, (&run, segment), pipes.from.as_deref_mut(), room);
            let peer = pipes.peer;
            self.agenda.enqueue(large, place);
            return Some(Transmission { peer, segment });
        }
        if has_more && !core::mem::replace(&mut large.waits, true) {
            binding.waiting.get_or_insert_default().push_back(place.1);
        } else if !has_more {
            self.enqueue_waiting(place.0, 1);
        }
        None
    }

    /// Writes the receipt that a lane's pipe owes into `packet`, and returns its caller.
    pub(super) fn pipe_receipt(&mut self, now: Instant, place: LaneKey, packet: &mut Vec<u8>) -> Option<P> {
        let large = self.bindings.get_mut(place.0)?.lanes.get_mut(place.1)?.large.as_mut()?;
        let pipes = large.pipes.as_mut().filter(|pipes| pipes.owes_receipt(true))?;
        let framing = pipes.framing(place);
        let mut out = [0; Receipt::MAX_PACKET];
        let len = pipes.from.as_deref_mut()?.receipt(now, framing, &mut out);
        packet.clear();
        packet.extend_from_slice(&out[..len]);
        Some(pipes.peer)
    }

    /// The call of a lane was answered: its caller sends no more, and gets the rest of what was sent before a result.
    #[cold]
    pub(super) fn answer_pipes(&mut self, place: LaneKey, tells_length: bool) {
        let Some(binding) = self.bindings.get_mut(place.0) else { return };
        let Some(large) = binding.lanes.get_mut(place.1).and_then(|lane| lane.large.as_mut()) else { return };
        let Some(pipes) = &mut large.pipes else { return };
        (pipes.from, pipes.check) = (None, Instant::NEVER);
        if let Some(to) = &mut pipes.to {
            to.close();
        }
        let goes_on = tells_length && pipes.to.as_deref().is_some_and(|to| !to.is_done() && !to.is_stopped());
        pipes.recount(&mut self.shares, &mut binding.share);
        if goes_on {
            self.agenda.enqueue(large, place);
        } else {
            large.end_pipes(&mut binding.path, &mut self.shares, &mut binding.share);
        }
    }

    /// The pipes of a call that runs, and what counts and carries them.
    #[allow(clippy::type_complexity)]
    fn pipes_of(
        &mut self,
        (id, lane, number): CallKey,
    ) -> Option<(&mut Pipes<P>, &mut Option<Box<Path>>, &mut Shares, &mut Share)> {
        let binding = self.bindings.get_mut(id)?;
        let lane = binding.lanes.get_mut(lane).filter(|lane| lane.number == number && lane.is_running())?;
        let pipes = lane.large.as_mut()?.pipes.as_deref_mut()?;
        Some((pipes, &mut binding.path, &mut self.shares, &mut binding.share))
    }

    /// The caller of a call that runs takes the bytes of its pipe before `limit`: its arguments say so.
    pub fn pipe_allow(&mut self, call: CallKey, limit: u64) {
        if let Some((Pipes { to: Some(to), .. }, ..)) = self.pipes_of(call) {
            to.allow(limit);
        }
    }

    /// Adds bytes to the pipe to the caller of a call that runs, as many as the caller takes now, and a few more, if there is memory
    /// for them. Returns how many. Afterwards [`next_transmission`](Self::next_transmission) may have something to send.
    pub fn pipe_send<'a>(&mut self, now: Instant, call: CallKey, bytes: impl Into<Added<'a>>) -> usize {
        let bytes = bytes.into();
        let Some((pipes, _, shares, share)) = self.pipes_of(call) else { return 0 };
        let Some(to) = &mut pipes.to else { return 0 };
        let taken = to.would_take(bytes.len());
        if taken == 0 || !shares.take_pipe(share, taken) {
            return 0;
        }
        let sent = to.append_first(now, bytes, taken);
        pipes.counted += taken;
        pipes.recount(shares, share);
        self.enqueue_sender((call.0, call.1));
        sent
    }

    /// Sends all bytes so far of the pipe to the caller, as [`Sending::flush`].
    pub fn pipe_flush(&mut self, call: CallKey) {
        let Some((Pipes { to: Some(to), .. }, ..)) = self.pipes_of(call) else { return };
        to.flush();
        self.enqueue_sender((call.0, call.1));
    }

    /// How many more bytes the caller of a call that runs takes now; `None` if it takes no more: it has stopped the pipe or cancelled the
    /// call, or the binding has ended.
    pub fn pipe_room(&mut self, call: CallKey) -> Option<u64> {
        let (pipes, ..) = self.pipes_of(call)?;
        pipes.to.as_deref().filter(|to| to.is_open()).map(Sending::room)
    }

    /// Ends the pipe to the caller of a call that runs, before it is answered. Returns how many bytes it has: the answer begins with
    /// that number. 0 if there is no such pipe.
    pub fn pipe_close(&mut self, call: CallKey) -> u64 {
        let Some((Pipes { to: Some(to), .. }, ..)) = self.pipes_of(call) else { return 0 };
        to.close();
        to.len()
    }

    /// Adds the last bytes to the pipe to the caller of a call that is about to be answered: those that the procedure has sent, and
    /// that there was no room for. They are counted as far as there is memory.
    pub fn pipe_send_rest<'a>(&mut self, now: Instant, call: CallKey, bytes: impl Into<Added<'a>>) {
        let Some((pipes, _, shares, share)) = self.pipes_of(call) else { return };
        let Some(to) = &mut pipes.to else { return };
        let sent = to.append(now, bytes);
        if shares.take_pipe(share, sent) {
            pipes.counted += sent;
        }
    }

    /// The limit up to which the caller of a call that runs takes its pipe; `None` if it takes no more.
    pub fn pipe_limit(&mut self, call: CallKey) -> Option<u64> {
        let (pipes, ..) = self.pipes_of(call)?;
        pipes.to.as_deref().filter(|to| to.is_open()).map(Sending::limit)
    }

    /// The procedure has more to send than the caller of a call that runs takes.
    pub fn pipe_want(&mut self, now: Instant, call: CallKey) {
        if let Some((Pipes { to: Some(to), .. }, Some(path), ..)) = self.pipes_of(call) {
            to.want(now, path);
            self.set_pipe_timer((call.0, call.1));
        }
    }

    /// Which pipes a call that runs has: from its caller, and to its caller.
    pub fn pipe_kinds(&mut self, call: CallKey) -> (bool, bool) {
        self.pipes_of(call).map_or((false, false), |(pipes, ..)| (pipes.from.is_some(), pipes.to.is_some()))
    }

    /// Whether the caller of a call that runs has said that it takes no more of its pipe.
    pub fn pipe_is_stopped(&mut self, call: CallKey) -> bool {
        self.pipes_of(call).and_then(|(pipes, ..)| pipes.to.as_deref()).is_some_and(Sending::is_stopped)
    }

    /// Looks again for memory for the pipes of a call that runs, after a while: [`next_due_pipe`](Self::next_due_pipe) gives it then.
    pub fn pipe_retry(&mut self, now: Instant, call: CallKey) {
        let Some((pipes, ..)) = self.pipes_of(call) else { return };
        pipes.retry = pipes.retry.min(now + RETRY);
        self.set_pipe_timer((call.0, call.1));
    }

    /// A call that runs, and what has become due for its pipes by the clock.
    pub fn next_due_pipe(&mut self) -> Option<(CallKey, PipeDue)> {
        self.agenda.due_pipes.pop()
    }

    /// The bytes that have come from the caller of a call that runs and were not taken, and what comes behind them. `None` if there is no
    /// such pipe (any more).
    pub fn pipe_received(&mut self, call: CallKey) -> Option<(&[u8], Rest)> {
        let (pipes, ..) = self.pipes_of(call)?;
        pipes.from.as_deref().map(Receiving::received)
    }

    /// The procedure has taken `len` of these bytes. Afterwards [`next_transmission`](Self::next_transmission) may have something to
    /// send.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn pipe_take(&mut self, call: CallKey, len: usize) {
        let Some((Pipes { from: Some(from), .. }, ..)) = self.pipes_of(call) else { return };
        from.take(len);
        let wider = if from.is_held_up() { from.wider() } else { 0 };
        if let Some((pipes, _, shares, share)) = self.pipes_of(call) {
            pipes.recount(shares, share);
        }
        self.widen(call, wider);
    }

    /// The driver keeps these bytes until the procedure [takes](Self::pipe_credit) them: as [`Receiving::draw`]. What it keeps counts as
    /// received.
    pub fn pipe_draw(&mut self, call: CallKey, into: &mut Vec<u8>) -> Option<Drawn> {
        let (pipes, ..) = self.pipes_of(call)?;
        pipes.from.as_deref_mut().map(|from| from.draw(into))
    }

    /// The procedure has taken the bytes before `up_to`, and may be sent those before `limit`, as far as there is memory for them: if
    /// not, the driver [looks again](Self::pipe_retry). `is_needed`: for an item that has begun to arrive. Returns whether there was. Afterwards
    /// [`next_transmission`](Self::next_transmission) may have something to send.
    pub fn pipe_credit(&mut self, call: CallKey, up_to: u64, limit: u64, is_needed: bool) -> bool {
        let Some((pipes, _, shares, share)) = self.pipes_of(call) else { return true };
        let Some(from) = &mut pipes.from else { return true };
        from.credit(up_to);
        let wanted = u32::try_from(limit.saturating_sub(up_to)).unwrap_or(u32::MAX).min(WINDOW_MAX_ASKED);
        let more = (wanted as usize).saturating_sub(from.reserved());
        // Windows that grow leave room for the pipes to callers, without which no procedure may come to its end.
        let may_grow = more == 0 || is_needed || shares.has_little_of_pipes(share, more);
        let has_memory = may_grow && shares.take_pipe(share, more);
        match has_memory {
            true => {
                pipes.counted += more;
                from.set_window(wanted);
            }
            false => from.set_window(from.window()),
        }
        let owes = from.owes_receipt(false);
        pipes.recount(shares, share);
        if owes {
            self.agenda.receipts.push((call.0, call.1));
        }
        has_memory
    }

    /// Grants a larger window, as far as there is memory for it, and has the caller told what is owed.
    fn widen(&mut self, call: CallKey, window: u32) {
        let Some((pipes, _, shares, share)) = self.pipes_of(call) else { return };
        let Some(from) = &mut pipes.from else { return };
        let more = window.saturating_sub(from.window()) as usize;
        // Windows that grow leave room for the pipes to callers, without which no procedure may come to its end.
        if more > 0 && shares.has_little_of_pipes(share, more) && shares.take_pipe(share, more) {
            pipes.counted += more;
            from.widen(window);
        }
        if from.owes_receipt(false) {
            self.agenda.receipts.push((call.0, call.1));
        }
    }

    /// The procedure takes no more of the pipe from its caller.
    pub fn pipe_stop(&mut self, now: Instant, call: CallKey) {
        let Some((Pipes { from: Some(from), .. }, ..)) = self.pipes_of(call) else { return };
        from.stop(now);
        self.agenda.receipts.push((call.0, call.1));
        self.set_pipe_timer((call.0, call.1));
    }

    /// Bytes that pipes hold, or that their callers may send; at most [`Limits::pipes`](super::Limits::pipes).
    pub fn pipe_bytes(&self) -> usize {
        self.shares.pipes.held()
    }
}

impl<P> LaneState<P> {
    /// The caller has asked about this call.
    pub(super) fn note_asked(&self, now: Instant, number: CallNumber) {
        if let Some(pipes) = self.pipes().filter(|_| number == self.number) {
            pipes.heard.set(now);
        }
    }

    /// Bytes that its pipes count for.
    pub(super) fn pipe_bytes(&self) -> usize {
        self.pipes().map_or(0, |pipes| pipes.counted)
    }
}
