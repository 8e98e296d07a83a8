//! Where a lane finds an answer that another thread has received.

use crate::calling::waiting_thread::WaitingThread;
use crate::error::{CallError, Failure, FailureCode, Refusal, RefusalCode};
use crate::transport::stream::begun::Outstanding;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoop_exchange::stream::{Arrival, Message};
use stoop_wire::{CallNumber, Header, Kind, LaneId};

/// A lane as those see it who receive for it. At most one thread uses the lane.
pub(crate) struct Mailbox {
    pub(crate) lane: LaneId,
    /// There is an answer.
    ready: AtomicBool,
    letter: Mutex<Letter>,
}

struct Letter {
    /// The lane's last call.
    last: CallNumber,
    state: State,
    /// The answer, while it is delivered.
    packet: Vec<u8>,
    /// Who waits for it, and may sleep.
    thread: Option<Arc<WaitingThread>>,
}

enum State {
    /// No call, or one that has ended.
    Idle,
    /// The answer to the last call is expected.
    Expecting,
    /// It has been delivered.
    Delivered(Answer),
    /// The answer to the last call, which nobody holds the lane for, is expected.
    InFlight(Arc<Outstanding>, (u32, u64)),
    /// The last call was given up; its answer makes the lane free again.
    GivenUp,
}

/// An answer without its packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// A message with this header.
    Message(Header),
    /// A result longer than this caller takes, of so many bytes.
    TooLong(usize),
    /// A result of so many bytes, which this process has no memory for.
    NoMemory(usize),
}

/// What became of an answer that was received for another lane.
pub(crate) enum Delivery<'a> {
    Delivered,
    /// It ends a call in flight, and the lane can be used again.
    Landed(Arc<Outstanding>, (u32, u64), Option<Message<'a>>),
    /// Nobody waits for it any more, and the lane can be used again.
    Freed,
    /// It belongs to no call.
    Ignored,
}

/// Takes an arrival apart: whose it is, what it is, and its packet, if it has one.
pub(crate) fn opened<'a>(arrival: Arrival<'a>) -> (Header, Answer, Option<Message<'a>>) {
    match arrival {
        Arrival::Message(message) => (message.header, Answer::Message(message.header), Some(message)),
        Arrival::NotTaken(header, code) => (header, not_taken(&header, code), None),
    }
}

fn not_taken(header: &Header, why: RefusalCode) -> Answer {
    let len = header.message_len as usize;
    match why {
        RefusalCode::Overloaded => Answer::NoMemory(len),
        _ => Answer::TooLong(len),
    }
}

/// What an answer that is no result means to the caller; `detail` is its payload.
#[cold]
pub(crate) fn failure_of(answer: Answer, detail: &[u8]) -> CallError {
    let detail = || String::from_utf8_lossy(detail).into_owned();
    match answer {
        Answer::Message(Header { kind: Kind::Refusal, time, .. }) => {
            CallError::Refused(Refusal { code: RefusalCode::from_code(time), detail: detail() })
        }
        Answer::Message(header) => {
            CallError::Failed(Failure { code: FailureCode::from_code(header.time), detail: detail() })
        }
        Answer::TooLong(len) => CallError::Failed(Failure {
            code: FailureCode::ResultTooLarge,
            detail: format!("it has {len} bytes, more than the binding's BindOptions::max_message"),
        }),
        Answer::NoMemory(len) => CallError::Failed(Failure {
            code: FailureCode::ResultTooLarge,
            detail: crate::message_buffer::no_memory_for_result(len),
        }),
    }
}

impl Letter {
    fn collect(&mut self, packet: &mut Vec<u8>) -> Option<Answer> {
        self.thread = None;
        let State::Delivered(answer) = self.state else { return None };
        self.state = State::Idle;
        std::mem::swap(&mut self.packet, packet);
        Some(answer)
    }
}

impl Mailbox {
    pub(crate) fn new(lane: LaneId) -> Self {
        let letter = Letter { last: CallNumber::ZERO, state: State::Idle, packet: Vec::new(), thread: None };
        Self { lane, ready: AtomicBool::new(false), letter: Mutex::new(letter) }
    }

    fn letter(&self) -> MutexGuard<'_, Letter> {
        self.letter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins. Returns its number.
    #[inline]
    pub(crate) fn expect(&self) -> CallNumber {
        self.ready.store(false, Ordering::Relaxed);
        let mut letter = self.letter();
        letter.last = letter.last.next();
        letter.state = State::Expecting;
        letter.last
    }

    /// A call begins for which no thread holds the lane. Returns its number.
    pub(crate) fn expect_in_flight(&self, flights: &Arc<Outstanding>, call: (u32, u64)) -> CallNumber {
        let mut letter = self.letter();
        letter.last = letter.last.next();
        letter.state = State::InFlight(Arc::clone(flights), call);
        letter.last
    }

    /// Nobody waits for the answer to a call in flight any more. Returns its number; `None`: it is there, and the lane may
    /// be another call's by now.
    pub(crate) fn abandon(&self, call: (u32, u64)) -> Option<CallNumber> {
        let mut letter = self.letter();
        let is_expected = matches!(letter.state, State::InFlight(_, expected) if expected == call);
        if is_expected {
            letter.state = State::GivenUp;
        }
        is_expected.then_some(letter.last)
    }

    /// The call has ended without what others could deliver.
    #[inline]
    pub(crate) fn forget(&self) {
        self.letter().state = State::Idle;
    }

    /// The thread will not wait any longer. Returns the answer if it is there after all.
    pub(crate) fn give_up(&self, packet: &mut Vec<u8>) -> Option<Answer> {
        let mut letter = self.letter();
        let answer = letter.collect(packet);
        if answer.is_none() {
            letter.state = State::GivenUp;
        }
        answer
    }

    /// That thread waits for the answer, and is notified when it has been delivered.
    pub(crate) fn attend(&self, thread: &Arc<WaitingThread>) {
        self.letter().thread = Some(Arc::clone(thread));
    }

    /// Whether there is an answer.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        // Pairs with the Release in `deliver`.
        self.ready.load(Ordering::Acquire)
    }

    /// Fetches the answer, if there is one, and its packet.
    pub(crate) fn collect(&self, packet: &mut Vec<u8>) -> Option<Answer> {
        self.letter().collect(packet)
    }

    /// Delivers what another thread has received for this lane.
    pub(crate) fn deliver<'a>(
        &self,
        header: &Header,
        answer: Answer,
        message: Option<Message<'a>>,
    ) -> Delivery<'a> {
        let mut letter = self.letter();
        if header.number != letter.last {
            return Delivery::Ignored;
        }
        match letter.state {
            State::Expecting => {
                if let Some(message) = message {
                    message.take(&mut letter.packet);
                }
                letter.state = State::Delivered(answer);
                let thread = letter.thread.take();
                // Before the letter is let go: whoever attends from now on finds the answer and need not be woken.
                self.ready.store(true, Ordering::Release);
                drop(letter);
                if let Some(thread) = thread {
                    thread.notify();
                }
                Delivery::Delivered
            }
            State::GivenUp => {
                letter.state = State::Idle;
                Delivery::Freed
            }
            State::InFlight(..) => match std::mem::replace(&mut letter.state, State::Idle) {
                State::InFlight(flights, call) => Delivery::Landed(flights, call, message),
                _ => unreachable!("the state is under its lock"),
            },
            State::Idle | State::Delivered(_) => Delivery::Ignored,
        }
    }
}
