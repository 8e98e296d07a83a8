//! The pipes of the calls of a binding, at the server.

use crate::context::keeper;
use crate::locked::locked;
use crate::pipes::contract::{Close, Ends, FIRST_WINDOW, GRACE_NS, Pipes};
use crate::pipes::error::PipeError;
use crate::pipes::helper;
use crate::pipes::window::Window;
use crate::transport::shm::pipes::reading::ReadingEnd;
use crate::transport::shm::pipes::side::Side;
use crate::transport::shm::pipes::writing::{Terms, WritingEnd};
use crate::transport::shm::server::binding::Binding;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use stoop_net::clock;
use stoop_net::waiting::{Placement, Waiter, Waiting};
use stoop_shm::pipe::{self, Reading, Writing};
use stoop_shm::{Disorder, Segment, Way, listening};

/// The ends of pipes, of all bindings, to which the receiver attends: when no call runs, those of which something is still to be written.
#[derive(Default)]
pub(super) struct AttendedEnds {
    count: AtomicUsize,
    /// How often some of what waited for room has been written.
    moves: AtomicU64,
}

impl AttendedEnds {
    /// A number that changes as readers make room. `None`: there are no such ends.
    pub(super) fn progress(&self) -> Option<u64> {
        let is_none = self.count.load(Ordering::SeqCst) == 0;
        (!is_none).then(|| self.moves.load(Ordering::Relaxed))
    }
}

/// The calls of a binding that have pipes, and what the receiver has to do for them.
pub(super) struct BindingPipes {
    /// By their lanes. A call that has been answered is there until all that it sent has been written.
    calls: Mutex<HashMap<u16, Arc<ServedPipes>>>,
    /// For looks without the lock.
    count: AtomicUsize,
    /// Ends to which the receiver attends.
    attended: AtomicUsize,
    of_all_bindings: Arc<AttendedEnds>,
    is_disorderly: AtomicBool,
}

/// The pipes of a call.
struct ServedPipes {
    number: u32,
    writing: Option<Arc<WritingEnd<ServersSide>>>,
    reading: Option<Arc<ReadingEnd<ServersSide>>>,
}

/// The server's side of a call.
struct ServersSide {
    binding: Arc<Binding>,
    waiting: Waiting,
    spinners_max: u32,
}

impl Side for ServersSide {
    #[inline]
    fn segment(&self) -> &Segment {
        &self.binding.segment
    }

    fn notify(&self) {
        listening::tell_of_chunks(&self.binding.segment);
    }

    fn end_binding(&self) {
        self.binding.end_for_disorder();
    }

    fn waiter(&self) -> Waiter {
        let placement = Placement { together: self.binding.together, waiting_max: self.spinners_max };
        Waiter::new(self.waiting, placement)
    }

    fn attend(&self, begins: bool) {
        self.binding.attend(begins);
    }

    fn moved(&self) {
        self.binding.pipes.of_all_bindings.moves.fetch_add(1, Ordering::Relaxed);
    }

    fn ended(&self) {}

    fn left(&self) {}
}

impl ServedPipes {
    fn advance(&self, wakers: &mut Vec<Waker>) {
        wakers.extend(self.writing.as_ref().and_then(|end| end.advance()));
        wakers.extend(self.reading.as_ref().and_then(|end| end.advance()));
    }

    /// Called by threads that hold locks.
    fn fail(&self, why: &PipeError) {
        let wakers = [
            self.writing.as_ref().and_then(|end| end.fail(why)),
            self.reading.as_ref().and_then(|end| end.fail(why)),
        ];
        helper::wake_all(wakers.into_iter().flatten().collect());
    }

    fn is_owing(&self) -> bool {
        self.writing.as_ref().is_some_and(|end| end.is_owing())
    }

    /// Whether the call has been answered and all that it sent has been written: perhaps by a thread that does not look here.
    fn is_over(&self) -> bool {
        self.writing.as_ref().is_some_and(|end| end.has_closed())
    }
}

impl BindingPipes {
    pub(super) fn new(of_all_bindings: &Arc<AttendedEnds>) -> Self {
        Self {
            calls: Mutex::default(),
            count: AtomicUsize::new(0),
            attended: AtomicUsize::new(0),
            of_all_bindings: Arc::clone(of_all_bindings),
            is_disorderly: AtomicBool::new(false),
        }
    }

    /// Of the long messages and ends that count as transfers, how many are ends.
    pub(super) fn attended(&self) -> usize {
        self.attended.load(Ordering::Relaxed)
    }

    fn of(&self, lane: u16, number: u32) -> Option<Arc<ServedPipes>> {
        if self.count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        locked(&self.calls).get(&lane).filter(|pipes| pipes.number == number).cloned()
    }

    fn add(&self, lane: u16, pipes: Arc<ServedPipes>) -> Result<(), Disorder> {
        let mut calls = locked(&self.calls);
        if calls.get(&lane).is_some_and(|before| !before.is_over()) {
            return Err(Disorder);
        }
        let before = calls.insert(lane, pipes);
        self.count.store(calls.len(), Ordering::SeqCst);
        drop(calls);
        drop(before);
        Ok(())
    }

    fn remove(&self, lane: u16, number: u32) {
        let mut calls = locked(&self.calls);
        let pipes = calls.get(&lane).is_some_and(|pipes| pipes.number == number);
        let removed = if pipes { calls.remove(&lane) } else { None };
        self.count.store(calls.len(), Ordering::SeqCst);
        drop(calls);
        drop(removed);
    }
}

impl Binding {
    /// Gives a call the pipes that its procedure has.
    ///
    /// # Errors
    /// The lane's last call still has its own.
    pub(super) fn open_pipes(
        self: &Arc<Self>,
        (lane, number): (u16, u32),
        pipes: Pipes,
        (waiting, spinners_max): (Waiting, u32),
        item_max: usize,
    ) -> Result<Ends, Disorder> {
        let side = Arc::new(ServersSide { binding: Arc::clone(self), waiting, spinners_max });
        let terms = Terms { callers_step_ns: None, item_max, limit: 0 };
        let writing =
            pipes.from_procedure.then(|| WritingEnd::new(&side, Writing::new(Way::Result, lane), terms));
        let reading = pipes.to_procedure.then(|| {
            let window = (FIRST_WINDOW, Window::Usual);
            ReadingEnd::new(&side, Reading::new(Way::Call, lane), window, (item_max, pipes.from_procedure))
        });
        let ends = Ends {
            sending: writing.as_ref().map(|end| Arc::clone(end) as _),
            receiving: reading.as_ref().map(|end| Arc::clone(end) as _),
        };
        let served = Arc::new(ServedPipes { number, writing, reading });
        self.pipes.add(lane, Arc::clone(&served))?;
        if self.is_closed() {
            served.fail(&PipeError::Cancelled);
        }
        Ok(ends)
    }

    /// A call is about to be answered: with a result, with a failure, or, if it has not run, with a refusal.
    /// Both ends then give this error.
    pub(super) fn end_pipes(&self, (lane, number): (u16, u32), how: Option<Close>, why: &PipeError) {
        let Some(served) = self.pipes.of(lane, number) else { return };
        let ServedPipes { writing, reading, .. } = &*served;
        let received = reading.as_ref().and_then(|end| end.answer(why.clone()));
        let sent = writing.as_ref().and_then(|end| match how {
            Some(how) => end.answer(how, why.clone()),
            None => end.fail(why),
        });
        if !served.is_owing() {
            self.pipes.remove(lane, number);
        }
        received.into_iter().chain(sent).for_each(Waker::wake);
    }

    /// The caller has cancelled a call.
    pub(super) fn cancel_pipes(&self, lane: u16, number: u32) {
        if let Some(served) = self.pipes.of(lane, number) {
            served.fail(&PipeError::Cancelled);
        }
    }

    /// The server shuts down: calls with pipes, which may be quiet for ever, end soon.
    pub(super) fn end_pipes_soon(&self) {
        let deadline_ns = clock::now_ns().saturating_add(GRACE_NS);
        let calls = locked(&self.pipes.calls);
        let ids: Vec<_> = calls.iter().map(|(lane, served)| self.call_id(*lane, served.number)).collect();
        drop(calls);
        ids.into_iter().for_each(|call| keeper::end_call_by(call, deadline_ns));
    }

    /// The binding is closed.
    pub(super) fn lose_pipes(&self) {
        let all: Vec<_> = locked(&self.pipes.calls).drain().map(|(_, served)| served).collect();
        self.pipes.count.store(0, Ordering::SeqCst);
        all.iter().for_each(|served| served.fail(&PipeError::Cancelled));
    }

    /// The receiver goes on with the ends that need attention.
    ///
    /// # Errors
    /// The peer has written values that the protocol does not allow.
    pub(super) fn advance_pipes(&self) -> Result<(), Disorder> {
        if self.pipes.is_disorderly.load(Ordering::SeqCst) {
            return Err(Disorder);
        }
        if self.pipes.attended() == 0 {
            return Ok(());
        }
        let mut lanes = Vec::new();
        pipe::take_ready(&self.segment, |lane| lanes.push(lane));
        let mut wakers = Vec::new();
        for lane in lanes {
            let Some(served) = locked(&self.pipes.calls).get(&lane).cloned() else { continue };
            served.advance(&mut wakers);
            // That of a call that runs stays.
            if self.is_answered(lane, served.number) && !served.is_owing() {
                self.pipes.remove(lane, served.number);
            }
        }
        helper::wake_all(wakers);
        Ok(())
    }

    /// Whether [`advance_pipes`](Self::advance_pipes) would do something.
    pub(super) fn can_advance_pipes(&self) -> bool {
        self.pipes.is_disorderly.load(Ordering::SeqCst)
            || self.pipes.attended() > 0 && pipe::has_ready(&self.segment)
    }

    /// An end begins to need the attention of the receiver, or needs none any more.
    fn attend(&self, begins: bool) {
        let of_all = &self.pipes.of_all_bindings.count;
        if begins {
            of_all.fetch_add(1, Ordering::SeqCst);
            self.attend_to_one_more();
        } else {
            self.transfers.fetch_sub(1, Ordering::SeqCst);
            self.pipes.attended.fetch_sub(1, Ordering::SeqCst);
            of_all.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn attend_to_one_more(&self) {
        self.pipes.attended.fetch_add(1, Ordering::SeqCst);
        self.transfers.fetch_add(1, Ordering::SeqCst);
    }

    /// A thread that does not receive has found that the peer has written values that the protocol does not allow: the receiver ends the
    /// binding.
    #[cold]
    pub(super) fn end_for_disorder(&self) {
        if !self.pipes.is_disorderly.swap(true, Ordering::SeqCst) {
            self.attend_to_one_more();
            self.bell.ring();
        }
    }
}
