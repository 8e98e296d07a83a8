//! One call that is published on a lane: its arguments on their way to the server, and its result on its way back.
//!
//! Blocking and begun calls go through the same steps. They differ in the thread that waits between them, and in where bytes lie: `inline` and
//! `gathered` are the arguments, `result` and `gathered` take the result. A begun call's list is empty.

use crate::error::{CallError, Failure, FailureCode, Refusal, RefusalCode};
use crate::message_buffer;
use crate::transport::shm::caller::lanes::Lane;
use crate::transport::shm::caller::session::Session;
use stoop_marshal::GatherList;
use stoop_shm::layout::SLOT;
use stoop_shm::{Answer, AnswerKind, Answers, Disorder, Emptying, Filling, Progress, Request, Sending, Way};
use stoop_wire::{Refused, RetryAfter};

/// A call that has been published, or a lane whose last call has ended.
pub(crate) struct PublishedCall {
    pub(crate) lane: Lane,
    pub(crate) ticket: u64,
    sending: Sending,
    /// A result that comes in chunks.
    receiving: Option<Receiving>,
}

/// A result that comes in chunks.
struct Receiving {
    emptying: Emptying,
    len: usize,
    /// The number of first bytes that are placed in the caller's memory.
    scatter_len: usize,
    /// The number of first bytes that are not in the result buffer. The buffer begins with the byte behind them, at the alignment
    /// that the byte has in the message.
    elsewhere: usize,
}

/// Why a call has no result.
pub(crate) enum NoResult {
    /// The server has answered with this error.
    Answered(CallError),
    /// The caller does not take the result: the server need not send it.
    NotTaken(CallError),
    /// The server has written values that the protocol does not allow.
    Disorder,
}

impl From<Disorder> for NoResult {
    fn from(_: Disorder) -> Self {
        Self::Disorder
    }
}

/// Alignment that bytes of a result keep in the result buffer, though the bytes before them are placed elsewhere.
const ALIGNED: usize = 16;

impl PublishedCall {
    /// A lane without a call.
    pub(crate) fn none_on(lane: Lane) -> Self {
        Self { lane, ticket: 0, sending: Sending::default(), receiving: None }
    }

    /// Publishes the call of a request whose arguments fit into a slot.
    #[inline]
    pub(crate) fn publish_short(&mut self, session: &Session, request: &Request, arguments: &[u8]) {
        self.ticket = session.publish(request, arguments);
    }

    /// Publishes the call of a request, whose arguments go through that channel from its base on.
    pub(crate) fn publish_long(
        &mut self,
        session: &Session,
        mut request: Request,
        (channel, base): (u8, u32),
        inline: &[u8],
        gathered: &GatherList<'_, '_>,
    ) {
        let sending = Filling::new(Way::Call, channel, base, request.len as usize);
        (request.channel, request.base) = (channel, sending.base());
        self.sending = Sending::through(channel, sending);
        // The first chunks are there when the server is told.
        self.fill(session, inline, gathered);
        self.ticket = session.publish(&request, &[]);
    }

    #[inline]
    pub(crate) fn is_answered(&self, session: &Session) -> bool {
        Answers::is_there(&session.segment, self.lane.number, self.lane.last)
    }

    /// Sends chunks as long as there is room. Returns whether there was some.
    fn fill(&mut self, session: &Session, inline: &[u8], gathered: &GatherList<'_, '_>) -> bool {
        let Some(sending) = self.sending.filling_mut() else { return false };
        let mut has_sent = false;
        while !sending.is_done() && sending.has_room(&session.segment) {
            let (start, end) = (sending.sent(), sending.sent() + sending.next_len());
            let mut chunk = sending.chunk(&session.segment);
            gathered.slices(inline, start, end, |span| chunk.put(span));
            chunk.finish();
            has_sent = true;
        }
        has_sent
    }

    /// Looks whether the server has answered. Gives the channel of the arguments back if the server looks at it no more.
    fn look(&mut self, session: &Session) -> bool {
        let Progress { is_answered, freed } =
            self.sending.look(&session.segment, self.lane.number, self.lane.last);
        if let Some((channel, sent)) = freed {
            session.give_channel_back(channel, &sent);
        }
        is_answered
    }

    /// Whether [`advance`](Self::advance) would do something.
    pub(crate) fn can_advance(&self, session: &Session) -> bool {
        match &self.receiving {
            Some(receiving) => receiving.emptying.has_more(&session.segment) != Ok(false),
            None => self.is_answered(session) || self.sending.can_go_on(&session.segment),
        }
    }

    /// Sleeps until [`can_advance`](Self::can_advance), at most so long, and perhaps less for no reason.
    pub(crate) fn sleep(&self, session: &Session, limit_ns: u64) {
        let (segment, Lane { number, last }) = (&session.segment, self.lane);
        match (&self.receiving, self.sending.filling()) {
            (Some(receiving), _) => receiving.emptying.sleep(segment, limit_ns),
            (None, Some(sending)) => {
                sending.sleep_unless(segment, limit_ns, || self.can_advance(session));
            }
            (None, None) => Answers::sleep(segment, number, last, limit_ns),
        }
    }

    /// Goes on with a call as far as that is possible without waiting. Returns whether its result is whole.
    pub(crate) fn advance(
        &mut self,
        session: &Session,
        inline: &[u8],
        result: &mut Vec<u8>,
        gathered: &mut GatherList<'_, '_>,
    ) -> Result<bool, NoResult> {
        if self.receiving.is_none() {
            if self.fill(session, inline, gathered) {
                session.ring();
            }
            if !self.look(session) {
                return Ok(false);
            }
            self.read_answer(session, result, gathered)?;
        }
        let Some(receiving) = &mut self.receiving else { return Ok(true) };
        while receiving.emptying.has_more(&session.segment)? {
            if !receiving.reserve(result) {
                // Freed before the server is told, which takes memory.
                *result = Vec::new();
                return Err(not_taken(message_buffer::no_memory_for_result(receiving.len)));
            }
            receiving.take_chunk(session, result, gathered);
            session.ring();
        }
        Ok(receiving.emptying.is_done())
    }

    /// Whether the server has answered, and sends nothing more.
    pub(crate) fn is_over(&mut self, session: &Session) -> bool {
        self.receiving.is_none()
            && self.look(session)
            && Answers::fits_slot(&session.segment, self.lane.number)
    }

    /// Whether the arguments or the result are on their way through a channel.
    pub(crate) fn holds_channel(&self) -> bool {
        self.receiving.is_some() || self.sending.filling().is_some()
    }

    /// Takes the channel of the arguments out of a call that is abandoned.
    pub(crate) fn take_channel(&mut self) -> Option<(u8, Filling)> {
        self.sending.take()
    }

    /// Reads the answer, which is there. From then on a long result is being received.
    fn read_answer(
        &mut self,
        session: &Session,
        result: &mut Vec<u8>,
        gathered: &GatherList<'_, '_>,
    ) -> Result<(), NoResult> {
        let answer = Answers::read(&session.segment, self.lane.number).ok_or(NoResult::Disorder)?;
        session.saw_server_on(answer.cpu);
        result.clear();
        if answer.len as usize <= SLOT {
            Answers::message(&session.segment, self.lane.number, &answer, result);
            return why_no_result(&answer, result).map_or(Ok(()), |why| Err(NoResult::Answered(why)));
        }
        if answer.kind != AnswerKind::Result {
            return Err(NoResult::Disorder);
        }
        self.begin_to_receive(session, &answer, result, gathered.scatter_end())
    }

    fn begin_to_receive(
        &mut self,
        session: &Session,
        answer: &Answer,
        result: &mut Vec<u8>,
        scatter_end: usize,
    ) -> Result<(), NoResult> {
        let len = answer.len as usize;
        let emptying = Emptying::new(Way::Result, answer.channel, answer.base, len);
        let emptying = emptying.ok_or(NoResult::Disorder)?;
        // A result shorter than the caller's arguments is an error, which the stub reports.
        let scatter_len = if len >= scatter_end { scatter_end } else { 0 };
        let elsewhere = scatter_len - scatter_len % ALIGNED;
        if len - elsewhere > session.longest_result {
            let longest = session.longest_result;
            let detail = format!("it has {len} bytes, and `BindOptions::max_message` allows {longest}");
            return Err(not_taken(detail));
        }
        result.resize(scatter_len - elsewhere, 0);
        self.receiving = Some(Receiving { emptying, len, scatter_len, elsewhere });
        Ok(())
    }

    /// The call has its result: where the bytes begin in the result buffer that are not placed in the caller's memory, if some are
    /// placed there.
    pub(crate) fn take_scattered(&mut self) -> Option<usize> {
        let receiving = self.receiving.take()?;
        (receiving.scatter_len > 0).then_some(receiving.scatter_len - receiving.elsewhere)
    }
}

impl Receiving {
    /// Reserves memory for the next chunk. `false`: this process has none.
    fn reserve(&self, result: &mut Vec<u8>) -> bool {
        let rest = self.len - self.emptying.received().max(self.scatter_len);
        let next_len = self.emptying.next_len().min(rest);
        message_buffer::reserve(result, next_len, self.len - self.elsewhere)
    }

    fn take_chunk(&mut self, session: &Session, result: &mut Vec<u8>, gathered: &mut GatherList<'_, '_>) {
        let (start, end) = (self.emptying.received(), self.emptying.received() + self.emptying.next_len());
        if start >= self.scatter_len {
            return self.emptying.take(&session.segment, result);
        }
        let mut chunk = self.emptying.chunk(&session.segment);
        let mut at = start;
        gathered.places(start, end, |place| match place {
            Ok(place) => {
                chunk.take(place);
                at += place.len();
            }
            // Between two places lie bytes that align the second; behind the last lies the rest.
            Err(len) if at < self.scatter_len => {
                chunk.skip(len);
                at += len;
            }
            Err(len) => chunk.append(len, result),
        });
        chunk.finish();
    }
}

fn not_taken(detail: String) -> NoResult {
    NoResult::NotTaken(CallError::failed(Failure { code: FailureCode::ResultTooLarge, detail }))
}

/// Why an answer of that message is no result; `None` if it is one.
pub(crate) fn why_no_result(answer: &Answer, message: &[u8]) -> Option<CallError> {
    let detail = || String::from_utf8_lossy(message).into_owned();
    match answer.kind {
        AnswerKind::Result => None,
        AnswerKind::Refusal => {
            let code = RefusalCode::from_code(answer.word);
            let retry_after = RetryAfter::from_millis(u16::try_from(answer.base).unwrap_or(u16::MAX));
            Some(CallError::refused(Refusal::new(Refused { code, retry_after }, detail())))
        }
        AnswerKind::Failure => {
            let code = FailureCode::from_code(answer.word);
            Some(CallError::failed(Failure { code, detail: detail() }))
        }
    }
}
