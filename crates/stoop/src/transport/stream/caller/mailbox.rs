//! The mailbox of a calling thread: where it finds the answer that another thread has received.

use crate::calling::waiting_thread::WaitingThread;
use crate::transport::stream::caller::answer::{Answer, Arrived};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoop_wire::{CallNumber, LaneId};

/// The mailbox of the thread that has a lane.
pub(crate) struct Mailbox {
    pub(crate) lane: LaneId,
    /// There is an answer.
    ready: AtomicBool,
    contents: Mutex<Contents>,
}

struct Contents {
    /// The lane's last call.
    last: CallNumber,
    state: State,
    /// The answer, while it is delivered.
    packet: Vec<u8>,
    /// The thread, while it waits for another to deliver.
    thread: Option<Arc<WaitingThread>>,
}

#[derive(Clone, Copy)]
enum State {
    /// No call, or one that has ended.
    Idle,
    /// The answer to the last call is expected.
    Expecting,
    /// It has been delivered.
    Delivered(Answer),
    /// The thread waits for the last call no longer, and has given the lane up. The answer makes the lane free.
    Abandoned,
}

/// The outcome for an answer that was received for another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Delivered,
    /// No thread waits for it any more. The lane is free from now on.
    Freed,
    /// It belongs to no call.
    Ignored,
}

impl Contents {
    fn collect(&mut self, packet: &mut Vec<u8>) -> Option<Answer> {
        self.thread = None;
        let State::Delivered(answer) = self.state else { return None };
        self.state = State::Idle;
        std::mem::swap(&mut self.packet, packet);
        Some(answer)
    }
}

impl Mailbox {
    /// The mailbox for a lane whose last call was `last`.
    pub(crate) fn new(lane: LaneId, last: CallNumber) -> Self {
        let contents = Contents { last, state: State::Idle, packet: Vec::new(), thread: None };
        Self { lane, ready: AtomicBool::new(false), contents: Mutex::new(contents) }
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins. Returns its number.
    #[inline]
    pub(crate) fn expect(&self) -> CallNumber {
        self.ready.store(false, Ordering::Relaxed);
        let mut contents = self.contents();
        contents.last = contents.last.next();
        contents.state = State::Expecting;
        contents.last
    }

    /// The call has ended without an answer that other threads could deliver.
    #[inline]
    pub(crate) fn clear(&self) {
        self.contents().state = State::Idle;
    }

    /// The thread waits no longer. Returns the answer if it is there after all; otherwise the lane is given up.
    pub(crate) fn abandon(&self, packet: &mut Vec<u8>) -> Option<Answer> {
        let mut contents = self.contents();
        let answer = contents.collect(packet);
        if answer.is_none() {
            contents.state = State::Abandoned;
        }
        answer
    }

    /// That thread waits for the answer, and is notified when it has been delivered.
    pub(crate) fn attend(&self, thread: &Arc<WaitingThread>) {
        self.contents().thread = Some(Arc::clone(thread));
    }

    /// Whether there is an answer.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        // Pairs with the Release in `deliver`.
        self.ready.load(Ordering::Acquire)
    }

    /// Takes the answer and its packet, if there is one.
    pub(crate) fn collect(&self, packet: &mut Vec<u8>) -> Option<Answer> {
        self.contents().collect(packet)
    }

    /// Delivers what another thread has received for this lane.
    pub(crate) fn deliver(&self, arrived: Arrived<'_>) -> Delivery {
        let mut contents = self.contents();
        match contents.state {
            _ if arrived.header.number != contents.last => Delivery::Ignored,
            State::Expecting => {
                if let Some(message) = arrived.message {
                    message.take(&mut contents.packet);
                }
                contents.state = State::Delivered(arrived.answer);
                let thread = contents.thread.take();
                // Under the lock: a thread that attends from now on finds the answer, and need not be notified.
                self.ready.store(true, Ordering::Release);
                drop(contents);
                if let Some(thread) = thread {
                    thread.notify();
                }
                Delivery::Delivered
            }
            State::Abandoned => {
                contents.state = State::Idle;
                Delivery::Freed
            }
            State::Idle | State::Delivered(_) => Delivery::Ignored,
        }
    }
}
