//! The caller's ends of the pipes of a begun call over packets.

use crate::calling::background::Driven;
use crate::calling::begun::{CallBatch, PipeTerms};
use crate::calling::unpark::unparks_this_thread;
use crate::error::{CallError, SendError};
use crate::locked::locked;
use crate::pipes::contract::Ends;
use crate::pipes::ends::{Carrier, QueueEnd};
use crate::pipes::helper::SendsPipes;
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

/// Which of the ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Sending,
    Receiving,
}

/// Sends what gathers in the queue of a call.
struct Sends<L: PacketLink> {
    calls: Arc<PacketCalls<L>>,
    pipes: Arc<CallerPipes>,
}

/// An end of the caller.
struct CallersEnd<L: PacketLink> {
    sends: Arc<Sends<L>>,
    side: Side,
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
        Ok((call, self.link.binding.counted(procedure, self.ends_of(&pipes))))
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

    fn ends_of(self: &Arc<Self>, pipes: &Arc<CallerPipes>) -> Ends {
        let sends = Arc::new(Sends { calls: Arc::clone(self), pipes: Arc::clone(pipes) });
        let end = |queue: &Arc<PipeQueue>, side| {
            let (queue, callers_step_ns) = (Arc::clone(queue), Some(pipes.step_ns));
            let item_max = self.link.binding.options.max_message;
            let carrier = CallersEnd { sends: Arc::clone(&sends), side };
            Arc::new(QueueEnd { queue, carrier, callers_step_ns, item_max })
        };
        Ends {
            sending: pipes.out.as_ref().map(|queue| end(queue, Side::Sending) as _),
            receiving: pipes.into.as_ref().map(|queue| end(queue, Side::Receiving) as _),
        }
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

impl<L: PacketLink> SendsPipes for Sends<L> {
    fn send_pipes(&self) {
        let _sending = self.pipes.gathering.begin();
        self.calls.send_pipes_of(&self.pipes);
    }
}

impl<L: PacketLink> Carrier for CallersEnd<L> {
    fn appended(&self, bytes: usize) {
        self.sends.pipes.gathering.appended(bytes, || {
            let weak: Weak<Sends<L>> = Arc::downgrade(&self.sends);
            weak as Weak<dyn SendsPipes>
        });
    }

    fn granted(&self) {
        let Sends { calls, pipes } = &*self.sends;
        let Some(into) = &pipes.into else { return };
        let mut locked = calls.calls();
        let (taken, limit, _) = into.taken_and_limit();
        locked.credit_pipe(pipes, (taken, limit));
        calls.unlock(locked, &mut Wakeups::default());
    }

    fn ended(&self) {
        let Sends { calls, pipes } = &*self.sends;
        let was_last = pipes.open.fetch_sub(1, Ordering::SeqCst) == 1;
        let mut locked = calls.calls();
        if self.side == Side::Receiving {
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
        self.sends.send_pipes();
    }

    /// A thread that receives looks several times in 20 ms whether others have begun calls. When nothing comes, it leaves that to the
    /// background thread, which sleeps until something does, as for tasks.
    fn wait(&self, queue: &PipeQueue, awaited: Awaited, until_ns: u64) {
        let until = Instant::from_nanos(until_ns);
        let spins = matches!(self.sends.calls.link.binding.options.waiting, Waiting::Spin);
        let soon = match awaited {
            Awaited::Bytes if !spins => until.min(now() + QUIET),
            // Several threads may wait for room, and one task.
            Awaited::Bytes | Awaited::Room => until,
        };
        let has = self.sends.calls.wait_for(&Goal::Pipe(queue, awaited), soon).is_some();
        if !has && soon < until && !queue.poll(awaited, &unparks_this_thread()) {
            self.polled();
            thread::park_timeout(Duration::from_nanos(until_ns.saturating_sub(soon.as_nanos())));
        }
    }

    fn polled(&self) {
        let Sends { calls, pipes } = &*self.sends;
        let queue = match self.side {
            Side::Sending => &pipes.out,
            Side::Receiving => &pipes.into,
        };
        if let Some(queue) = queue {
            calls.calls().note_polled(queue);
        }
        calls.attend_to_pipes();
    }
}
