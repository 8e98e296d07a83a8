//! The caller's ends of the pipes of a begun call over packets.

use crate::calling::background::Driven;
use crate::calling::begun::{CallBatch, PipeTerms};
use crate::calling::unpark::unparks_this_thread;
use crate::error::{CallError, SendError};
use crate::locked::locked;
use crate::pipes::contract::Ends;
use crate::pipes::ends::{Carrier, QueueEnds, Side};
use crate::pipes::queue::{Awaited, PipeQueue};
use crate::transport::packet::begun::PacketCalls;
use crate::transport::packet::begun::call_pipes::CallerPipes;
use crate::transport::packet::begun::calls::Calls;
use crate::transport::packet::begun::goal::Goal;
use crate::transport::packet::begun::receiver::QUIET;
use crate::transport::packet::begun::wakeups::Wakeups;
use crate::transport::packet::link::PacketLink;
use crate::transport::packet::now;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, Weak};
use std::thread;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::waiting::Waiting;

/// Carries the bytes of the pipes of a call at its caller.
struct Callers<L: PacketLink> {
    calls: Arc<PacketCalls<L>>,
    pipes: Arc<CallerPipes>,
}

impl<L: PacketLink> PacketCalls<L> {
    /// Begins a call with these pipes, and returns their ends, too.
    #[cold]
    pub(super) fn begin_piped(
        self: &Arc<Self>,
        batch: &mut CallBatch,
        (procedure, len): (u16, usize),
        terms: &PipeTerms,
    ) -> Result<(u32, Ends), CallError> {
        // The calls that were begun before leave before.
        self.submit_queue(locked(batch.queue.as_ref().expect("the batch was opened here")));
        batch.read_clock();
        if batch.deadline <= batch.begun {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        let pipes = CallerPipes::new(terms, batch.timeout_ns);
        let mut calls = self.calls_of_known_session(batch.deadline)?;
        let call = calls.begin_piped(batch, (procedure, len), &pipes)?;
        if self.background.is_idle() {
            self.wake_background();
        }
        self.unlock(calls, &mut Wakeups::default());
        let ends = QueueEnds::of(Callers { calls: Arc::clone(self), pipes });
        Ok((call, self.link.binding.counted(procedure, ends)))
    }

    /// The calls. Binds again before, if the server shuts down, or has refused a call with pipes because it does not know the session any
    /// more.
    fn calls_of_known_session(&self, deadline: Instant) -> Result<MutexGuard<'_, Calls<L>>, CallError> {
        let mut calls = self.calls();
        calls.note_session();
        let (session, unknown) = (Arc::clone(&calls.session), calls.unknown);
        if unknown.is_none() && !session.is_closing() {
            return Ok(calls);
        }
        drop(calls);
        let binding = &self.link.binding;
        let rebound = match unknown {
            Some(refusal) => binding.rebind(&session, Some(refusal), deadline).map(drop),
            None => binding.leave(&session, deadline).map(drop),
        };
        rebound.map_err(|why| CallError::not_sent(SendError::Bind(Box::new(why))))?;
        let mut calls = self.calls();
        calls.note_session();
        Ok(calls)
    }

    /// Has the calls with pipes learn when their session has been lost and replaced.
    pub(super) fn attend_to_sessions(self: &Arc<Self>) {
        let own = Arc::downgrade(self);
        self.link.binding.when_replaced(move || {
            if let Some(own) = own.upgrade() {
                let mut calls = own.calls();
                calls.end_lost_pipes();
                own.unlock(calls, &mut Wakeups::default());
            }
        });
    }

    /// Has the pipes of a call send what is due.
    fn send_pipes_of(&self, pipes: &Arc<CallerPipes>) {
        let mut calls = self.calls();
        if let Some(call) = calls.slot_of(pipes) {
            calls.large.sends(call);
            self.unlock(calls, &mut Wakeups::default());
        }
    }

    /// The background thread looks after the pipes, as soon as no other does.
    fn attend_to_pipes(&self) {
        if !self.role.is_held() {
            self.wake_background();
        }
    }
}

impl<L: PacketLink> Carrier for Callers<L> {
    fn queue(&self, side: Side) -> Option<&Arc<PipeQueue>> {
        match side {
            Side::Sending => self.pipes.out.as_ref(),
            Side::Receiving => self.pipes.into.as_ref(),
        }
    }

    fn appended(&self, bytes: usize, own: &Weak<QueueEnds<Self>>) {
        self.pipes.gathering.appended(bytes, || own.clone() as _);
    }

    fn granted(&self) {
        let Self { calls, pipes } = self;
        let Some(into) = &pipes.into else { return };
        let mut locked = calls.calls();
        let (taken, limit, _) = into.taken_and_limit();
        locked.credit_pipe(pipes, (taken, limit));
        calls.unlock(locked, &mut Wakeups::default());
    }

    fn ended(&self, side: Side) {
        let Self { calls, pipes } = self;
        let was_last = pipes.open.fetch_sub(1, Ordering::SeqCst) == 1;
        let mut locked = calls.calls();
        if side == Side::Receiving {
            locked.stop_pipe(pipes);
        }
        if was_last {
            locked.expect_end(pipes);
        }
        if let Some(call) = locked.slot_of(pipes) {
            locked.large.sends(call);
        }
        calls.unlock(locked, &mut Wakeups::default());
    }

    fn flush(&self) {
        let _sending = self.pipes.gathering.begin();
        self.calls.send_pipes_of(&self.pipes);
    }

    /// A thread that receives looks several times in 20 ms whether others have begun calls. When nothing comes, it leaves that to the
    /// background thread, which sleeps until something does, as for tasks.
    fn wait(&self, queue: &Arc<PipeQueue>, awaited: Awaited, until_ns: u64) {
        let until = Instant::from_nanos(until_ns);
        let spins = matches!(self.calls.link.binding.options.waiting, Waiting::Spin);
        let soon = match awaited {
            Awaited::Bytes if !spins => until.min(now() + QUIET),
            // Several threads may wait for room, and one task.
            Awaited::Bytes | Awaited::Room => until,
        };
        let has = self.calls.wait_for(&Goal::Pipe(queue, awaited), soon).is_some();
        if !has && soon < until && !queue.poll(awaited, &unparks_this_thread(), true) {
            self.polled(queue);
            thread::park_timeout(Duration::from_nanos(until_ns.saturating_sub(soon.as_nanos())));
        }
    }

    fn polled(&self, queue: &Arc<PipeQueue>) {
        self.calls.calls().note_polled(queue);
        self.calls.attend_to_pipes();
    }

    fn callers_step_ns(&self) -> Option<u64> {
        Some(self.pipes.step_ns)
    }

    fn item_max(&self) -> usize {
        self.calls.link.binding.options.max_message
    }
}
