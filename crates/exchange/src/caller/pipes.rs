//! The pipes of a lane's call, at its caller.

use super::pipe_state::{OpenPipes, Pipes};
use super::{CallState, Due, Heard, Lane, PROBE_INTERVAL};
use crate::Instant;
use crate::bulk::{Path, Run};
use crate::pipe::{Added, Drawn, Framing, News, Rest, Sending};
use crate::room::PacketRoom;
use alloc::vec::Vec;
use stoop_wire::{Data, FailureCode, Header, Kind, PipeReceipt, Receipt, ReceiptBehind};

impl Lane {
    pub(super) fn pipes(&self) -> Option<&Pipes> {
        self.large.as_ref()?.pipes.as_deref()
    }

    fn pipes_mut(&mut self) -> Option<&mut Pipes> {
        self.large.as_mut()?.pipes.as_deref_mut()
    }

    /// Gives the call that has just begun pipes, before it is sent. `packet` is its packet; of a call of many packets, none. After the
    /// end of the call, the driver calls [`settle`](Self::settle).
    pub fn open_pipes(&mut self, pipes: OpenPipes, packet: Option<&mut [u8]>) {
        let large = self.large.get_or_insert_default();
        let pipes = large.pipes.insert(Pipes::new(pipes).into());
        if let Some(call) = &mut self.outstanding {
            pipes.hold(&mut call.next);
        }
        if let Some(packet) = packet {
            packet[3] |= pipes.flags;
        }
    }

    /// The flags of the call that say that it has pipes.
    pub(super) fn pipe_flags(&self) -> u8 {
        self.pipes().map_or(0, |pipes| pipes.flags)
    }

    /// Has the lane's timer be due when that of a pipe is. To be called after the call's own was set.
    pub(super) fn hold_pipe_timer(&mut self) {
        let Self { large: Some(large), outstanding: Some(call), .. } = self else { return };
        if let Some(pipes) = &mut large.pipes {
            pipes.hold(&mut call.next);
        }
    }

    /// The work for which the timer of a pipe has run out; `None`: it has not.
    pub(super) fn pipe_due(&mut self, now: Instant) -> Option<Due> {
        let Self { large: Some(large), outstanding: Some(call), .. } = self else { return None };
        let pipes = large.pipes.as_mut().filter(|pipes| now >= pipes.next)?;
        (pipes.next, call.next) = (Instant::NEVER, pipes.of_call);
        Some(Due::Pipes)
    }

    /// Does what is due after [`Due::Pipes`]. Afterwards there may be more to send.
    pub fn on_pipe_timeout(&mut self, now: Instant, path: &mut Path) {
        let Self { large: Some(large), outstanding, .. } = self else { return };
        let Some(pipes) = &mut large.pipes else { return };
        if let Some(to) = pipes.to.as_deref_mut().filter(|to| now >= to.next_timeout(path)) {
            to.on_timeout(now, path);
        }
        if let Some(from) = &mut pipes.from {
            from.on_timeout(now);
        }
        pipes.rearm(outstanding.as_mut().map(|call| &mut call.next), path);
    }

    /// Handles a packet that was [`Heard::Pipe`]. Afterwards there may be more to send, and [`pipe_news`](Self::pipe_news).
    pub fn take_pipe_packet(&mut self, now: Instant, packet: &[u8], path: &mut Path) {
        let Self { large: Some(large), outstanding, .. } = self else { return };
        let (Some(pipes), Ok((header, payload))) = (&mut large.pipes, Header::parse(packet)) else { return };
        let is_right = match (Data::of(&header), PipeReceipt::of(&header)) {
            (Some(data), _) => {
                let (bytes, behind) = data.split(&header, payload);
                if let (Some(ReceiptBehind { number, of_pipe, receipt }), Some(to)) = (behind, &mut pipes.to)
                {
                    pipes.news.writable |= to.on_receipt(now, number, (of_pipe, &receipt), path);
                }
                pipes.from.as_deref_mut().is_some_and(|from| {
                    from.on_data(now, &data, bytes).map(|new| pipes.news.readable |= new).is_ok()
                })
            }
            (_, Some(of_pipe)) => match (&mut pipes.to, Receipt::decode(payload)) {
                (Some(to), Some(receipt)) => {
                    pipes.news.writable |= to.on_receipt(now, header.time, (of_pipe, &receipt), path);
                    true
                }
                _ => false,
            },
            _ => false,
        };
        if pipes.has_result && pipes.is_whole() {
            *outstanding = None;
        }
        pipes.rearm(outstanding.as_mut().map(|call| &mut call.next), path);
        if !is_right {
            self.counters.ignored += 1;
        }
    }

    /// Handles packets of data from the beginning of `datagrams`, as [`Receiving::take_parts`](crate::pipe::Receiving::take_parts)
    /// does, after one that was [`Heard::Pipe`].
    pub fn take_pipe_parts(&mut self, now: Instant, datagrams: &[u8], segment: usize) -> usize {
        let first = datagrams.get(..segment).and_then(|first| Header::parse(first).ok());
        let is_own = |(header, _): &(Header, _)| header.kind == Kind::Data && self.is_for_this_call(header);
        if first.as_ref().is_none_or(|first| !is_own(first)) || self.outstanding.is_none() {
            return 0;
        }
        let Some(Pipes { from: Some(from), news, .. }) = self.pipes_mut() else { return 0 };
        let taken = from.take_parts(now, datagrams, segment);
        news.readable |= taken > 0;
        taken
    }

    /// The result of a call with pipes is here. It ends them, as soon as everything is here that was sent before it.
    #[cold]
    pub(super) fn finish_with_pipes(&mut self, now: Instant, header: &Header, payload: &[u8]) -> Heard {
        if self.pipes().is_some_and(|pipes| pipes.has_result) {
            return Heard::Progress;
        }
        if self.outstanding.is_some_and(|call| call.state == CallState::Cancelled) {
            // Its pipes ended when it was cancelled.
            return self.finish(now, header);
        }
        if !self.pipes_end_with(payload) {
            return self.ignore();
        }
        let call = self.outstanding;
        let heard = self.finish(now, header);
        self.outstanding = call;
        self.end_with_pipes(now);
        heard
    }

    /// The call has failed. That ends its pipes, as soon as everything is here that was sent before.
    #[cold]
    pub(super) fn fail_behind_pipe(&mut self, now: Instant, header: &Header, payload: &[u8]) -> Heard {
        if self.pipes().is_some_and(|pipes| pipes.has_result) {
            return Heard::Progress;
        }
        let is_cancelled = self.outstanding.is_some_and(|call| call.state == CallState::Cancelled);
        if !is_cancelled && !self.pipes_end_with(payload) {
            return self.ignore();
        }
        match is_cancelled {
            true => self.outstanding = None,
            false => self.end_with_pipes(now),
        }
        Heard::Failed(FailureCode::from_code(header.time))
    }

    /// A result begins with these bytes: the length of the pipe from the server, if there is one. Returns whether that can be.
    pub(super) fn pipes_end_with(&mut self, payload: &[u8]) -> bool {
        let Some(Pipes { from: Some(from), .. }) = self.pipes_mut() else { return true };
        payload.first_chunk().is_some_and(|len| from.ends_at(u64::from_le_bytes(*len)))
    }

    /// The call ends, or goes on until its pipe is whole.
    pub(super) fn end_with_pipes(&mut self, now: Instant) {
        let Self { large: Some(large), outstanding, .. } = self else { return };
        let (Some(pipes), Some(call)) = (&mut large.pipes, outstanding.as_mut()) else { return };
        pipes.has_result = true;
        pipes.news.readable = true;
        if pipes.is_whole() {
            return *outstanding = None;
        }
        (call.state, call.heard, call.unanswered) = (CallState::Receiving, now, 0);
        call.next = (now + PROBE_INTERVAL).min(call.deadline);
        pipes.hold(&mut call.next);
    }

    /// Handles data for the last call, whose result is here.
    pub(super) fn on_repeated_data(&mut self, now: Instant, header: &Header, payload: &[u8]) -> Heard {
        let Some((Pipes { from: Some(from), .. }, data)) = self.pipes_mut().zip(Data::of(header)) else {
            return self.ignore();
        };
        let (bytes, _) = data.split(header, payload);
        match from.on_data(now, &data, bytes) {
            Ok(_) => Heard::Progress,
            Err(()) => self.ignore(),
        }
    }

    /// The program has more to send than the server takes.
    pub fn pipe_want(&mut self, now: Instant, path: &Path) {
        if let Some(to) = self.open_pipe_to() {
            to.want(now, path);
        }
    }

    /// Whether bytes that were added to the pipe to the server have not arrived there, as far as is known.
    pub fn pipe_is_under_way(&self) -> bool {
        self.pipes().and_then(|pipes| pipes.to.as_deref()).is_some_and(Sending::is_under_way)
    }

    /// Whether more of the pipe to the server could be sent, if the window had space.
    pub fn pipe_has_more(&self) -> bool {
        self.pipes().and_then(|pipes| pipes.to.as_deref()).is_some_and(Sending::has_more)
    }

    /// When a timer of a pipe is due: until then [`Waits`](super::Waits) may ask about the call.
    pub fn next_pipe_timeout(&self) -> Instant {
        self.pipes().map_or(Instant::NEVER, |pipes| pipes.next)
    }

    /// What has changed for the program since the last call of this method.
    pub fn pipe_news(&mut self) -> News {
        self.pipes_mut().map_or(News::default(), |pipes| core::mem::take(&mut pipes.news))
    }

    /// Whether the latest call goes on: it has no result yet, or has one, and bytes of its pipe that were sent before are missing.
    pub fn is_outstanding(&self) -> bool {
        self.outstanding.is_some()
    }

    /// The pipe to the server, while the call takes more of it.
    fn open_pipe_to(&mut self) -> Option<&mut Sending> {
        let is_open = self.outstanding.is_some_and(|call| call.state != CallState::Cancelled);
        let pipes = self.pipes_mut().filter(|pipes| is_open && !pipes.has_result)?;
        pipes.to.as_deref_mut()
    }

    /// Adds bytes to the pipe to the server, as many as it takes now and a few more. Returns how many; none after the end of the call. They
    /// do not wait for more: the program's thread sends them itself, and would have to wait for a receipt first.
    pub fn pipe_send<'a>(&mut self, now: Instant, bytes: impl Into<Added<'a>>) -> usize {
        let Some(to) = self.open_pipe_to() else { return 0 };
        let sent = to.send(now, bytes);
        to.flush();
        sent
    }

    /// How many more bytes the server takes now; `None` if it takes no more: it has stopped the pipe, or the call has ended.
    pub fn pipe_room(&mut self) -> Option<u64> {
        self.open_pipe_to().filter(|to| to.is_open()).map(|to| to.room())
    }

    /// Ends the pipe to the server: all of it was sent.
    pub fn pipe_finish(&mut self, now: Instant) {
        if let Some(to) = self.open_pipe_to() {
            to.finish(now);
        }
    }

    /// Aborts the pipe to the server: it is not whole. The call goes on.
    pub fn pipe_abort(&mut self, now: Instant, path: &mut Path) {
        if let Some(to) = self.open_pipe_to() {
            to.abort(now, path);
        }
    }

    /// All bytes of the pipe to the server so far, if the server's program has taken none: a call that was refused is made again with
    /// them.
    pub fn pipe_kept(&self) -> Option<Vec<u8>> {
        self.pipes()?.to.as_deref()?.all_bytes()
    }

    /// The bytes of the pipe from the server that are here and were not taken, and what comes behind them. Those of a call that has
    /// ended without a result stay, and nothing comes behind them.
    pub fn pipe_received(&self) -> Option<(&[u8], Rest)> {
        Some(self.pipes()?.from.as_deref()?.received())
    }

    /// The program has taken `len` of these bytes.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn pipe_take(&mut self, len: usize) {
        let Some(Pipes { from: Some(from), .. }) = self.pipes_mut() else { return };
        from.take(len);
        if from.is_held_up() {
            from.widen(from.wider());
        }
    }

    /// The driver keeps these bytes until the program [takes](Self::pipe_credit) them: as
    /// [`Receiving::draw`](crate::pipe::Receiving::draw).
    pub fn pipe_draw(&mut self, into: &mut Vec<u8>) -> Option<Drawn> {
        Some(self.pipes_mut()?.from.as_deref_mut()?.draw(into))
    }

    /// The program has taken the bytes before `up_to`, and may be sent those before `limit`.
    pub fn pipe_credit(&mut self, up_to: u64, limit: u64) {
        if let Some(Pipes { from: Some(from), .. }) = self.pipes_mut() {
            from.credit(up_to);
            from.set_window(u32::try_from(limit.saturating_sub(up_to)).unwrap_or(u32::MAX));
        }
    }

    /// The limit up to which the server takes the pipe to it; `None` if it takes no more.
    pub fn pipe_limit(&mut self) -> Option<u64> {
        self.open_pipe_to().filter(|to| to.is_open()).map(|to| to.limit())
    }

    /// Whether the server has said that it takes no more of the pipe to it.
    pub fn pipe_is_stopped(&self) -> bool {
        self.pipes().and_then(|pipes| pipes.to.as_deref()).is_some_and(Sending::is_stopped)
    }

    /// The program takes no more of the pipe from the server.
    pub fn pipe_stop(&mut self, now: Instant) {
        let Self { large: Some(large), outstanding, .. } = self else { return };
        let Some(pipes) = &mut large.pipes else { return };
        let Some(from) = &mut pipes.from else { return };
        from.stop(now);
        pipes.next = pipes.next.min(from.next_timeout());
        if pipes.has_result && pipes.is_whole() {
            *outstanding = None;
        }
        if let Some(call) = outstanding {
            call.next = call.next.min(pipes.next);
        }
    }

    /// The next packets of the pipe to the server, of at most `most_bytes` with their headers; `None` if none may be sent now.
    pub fn next_pipe_run(&mut self, now: Instant, path: &mut Path, most_bytes: usize) -> Option<Run> {
        let run = self.open_pipe_to()?.next_run(now, path, most_bytes);
        let Self { large: Some(large), outstanding, .. } = self else { return None };
        if let Some(pipes) = &mut large.pipes {
            pipes.rearm(outstanding.as_mut().map(|call| &mut call.next), path);
        }
        run
    }

    /// Writes the packets of such a run, perhaps with the receipt that is owed, and returns the length of each but the last.
    pub fn frame_pipe_run(
        &mut self,
        now: Instant,
        run: &Run,
        path: &Path,
        room: &mut impl PacketRoom,
    ) -> usize {
        let (segment, framing) = (path.packet_len(run.fragment), self.pipe_framing());
        if let Some(Pipes { to: Some(to), from, .. }) = self.pipes_mut() {
            to.frame(now, framing, (run, segment), from.as_deref_mut(), room);
        }
        segment
    }

    fn pipe_framing(&self) -> Framing {
        Framing { binding: self.binding, lane: self.lane, number: self.number }
    }

    /// Writes the receipt for data that is owed when nothing more has arrived. Returns its length; 0 if none is.
    pub fn pipe_receipt(&mut self, now: Instant, out: &mut [u8; Receipt::MAX_PACKET]) -> usize {
        let framing = self.pipe_framing();
        match self.pipes_mut() {
            Some(Pipes { from: Some(from), .. }) if from.owes_receipt(true) => {
                from.receipt(now, framing, out)
            }
            _ => 0,
        }
    }

    /// Has a receipt for data sent again, to hear whether the server is alive.
    pub(super) fn ask_by_pipe(&mut self) {
        if let Some(Pipes { from: Some(from), has_result: true, .. }) = self.pipes_mut() {
            from.ask();
        }
    }
}
