//! Where a lane finds an answer that another thread has received.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use stoop_exchange::stream::{Arrival, Message};
use stoop_wire::{CallNumber, Header, LaneId};

/// A lane as those see it who receive for it. At most one thread uses the lane.
pub(super) struct Mailbox {
    pub(super) lane: LaneId,
    /// There is an answer.
    ready: AtomicBool,
    /// The receive role is free, and this thread was chosen to take it.
    nudged: AtomicBool,
    letter: Mutex<Letter>,
}

struct Letter {
    /// The lane's last call.
    last: CallNumber,
    state: State,
    /// The answer, while it is delivered.
    packet: Vec<u8>,
    /// Who waits for it, and may sleep.
    thread: Option<Thread>,
}

enum State {
    /// No call, or one that has ended.
    Idle,
    /// The answer to the last call is expected.
    Expecting,
    /// It has been delivered.
    Delivered(Answer),
    /// The last call was given up; its answer makes the lane free again.
    GivenUp,
}

/// An answer without its packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// A message with this header.
    Message(Header),
    /// A result longer than this caller takes, of so many bytes.
    TooLong(usize),
}

/// What became of an answer that was received for another lane.
pub(super) enum Delivery {
    Delivered,
    /// Nobody waits for it any more, and the lane can be used again.
    Freed,
    /// It belongs to no call.
    Ignored,
}

/// Takes an arrival apart: whose it is, what it is, and its packet, if it has one.
pub(super) fn opened<'a>(arrival: Arrival<'a>) -> (Header, Answer, Option<Message<'a>>) {
    match arrival {
        Arrival::Message(message) => (message.header, Answer::Message(message.header), Some(message)),
        Arrival::NotTaken(header, _) => (header, Answer::TooLong(header.message_len as usize), None),
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
    pub(super) fn new(lane: LaneId) -> Self {
        let letter = Letter { last: CallNumber::ZERO, state: State::Idle, packet: Vec::new(), thread: None };
        Self {
            lane,
            ready: AtomicBool::new(false),
            nudged: AtomicBool::new(false),
            letter: Mutex::new(letter),
        }
    }

    fn letter(&self) -> MutexGuard<'_, Letter> {
        self.letter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins. Returns its number.
    #[inline]
    pub(super) fn expect(&self) -> CallNumber {
        self.ready.store(false, Ordering::Relaxed);
        let mut letter = self.letter();
        letter.last = letter.last.next();
        letter.state = State::Expecting;
        letter.last
    }

    /// The call has ended without what others could deliver.
    #[inline]
    pub(super) fn forget(&self) {
        self.letter().state = State::Idle;
    }

    /// The thread will not wait any longer. Returns the answer if it is there after all.
    pub(super) fn give_up(&self, packet: &mut Vec<u8>) -> Option<Answer> {
        let mut letter = self.letter();
        let answer = letter.collect(packet);
        if answer.is_none() {
            letter.state = State::GivenUp;
        }
        answer
    }

    /// The calling thread may sleep from now on; whoever delivers wakes it.
    pub(super) fn attend(&self) {
        self.letter().thread = Some(thread::current());
    }

    /// Whether there is an answer.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        // Pairs with the Release in `deliver`.
        self.ready.load(Ordering::Acquire)
    }

    /// Fetches the answer, if there is one, and its packet.
    pub(super) fn collect(&self, packet: &mut Vec<u8>) -> Option<Answer> {
        self.letter().collect(packet)
    }

    /// Delivers what another thread has received for this lane.
    pub(super) fn deliver(&self, header: &Header, answer: Answer, message: Option<Message<'_>>) -> Delivery {
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
                    thread.unpark();
                }
                Delivery::Delivered
            }
            State::GivenUp => {
                letter.state = State::Idle;
                Delivery::Freed
            }
            State::Idle | State::Delivered(_) => Delivery::Ignored,
        }
    }

    /// The receive role is free: the thread of this lane shall take it.
    pub(super) fn nudge(&self) {
        self.nudged.store(true, Ordering::Release);
    }

    /// Whether it was nudged; once for each time.
    #[inline]
    pub(super) fn take_nudge(&self) -> bool {
        self.nudged.load(Ordering::Relaxed) && self.nudged.swap(false, Ordering::Acquire)
    }
}
