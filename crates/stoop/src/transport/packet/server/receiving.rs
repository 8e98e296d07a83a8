//! How a worker waits for packets and receives them.

use crate::transport::packet::link::{Received, ServerEndpoint};
use crate::transport::packet::server::call::PacketCall;
use crate::transport::packet::server::endpoint::PacketEndpoint;
use crate::transport::packet::server::worker::WorkerState;
use std::sync::atomic::{AtomicBool, Ordering};
use stoop_net::waiting::{ActiveWaiters, WaitGuard};
use stoop_net::{Patience, clock};

/// How a worker waits for packets at present.
struct Watch {
    /// While it spins: the worker counts among the threads of this process that do.
    spinner: Option<WaitGuard<'static>>,
    patience: Patience,
}

impl<S: ServerEndpoint> PacketEndpoint<S> {
    /// Receives until a call has come. `None`: nothing is there and the worker may not wait, or the server stops.
    #[inline(always)]
    pub(super) fn receive_next(
        &self,
        worker: &mut WorkerState<S>,
        patient: bool,
        stopping: &AtomicBool,
    ) -> Option<PacketCall<S::Peer>> {
        let mut watch = match patient {
            true => self.begin_waiting(worker),
            false => Watch { spinner: None, patience: Patience::DontWait },
        };
        loop {
            let attention_ns = self.attention_ns.load(Ordering::Relaxed);
            let attention = attention_ns != u64::MAX;
            let patience = if attention { Patience::DontWait } else { watch.patience };
            let received = self.link.receive(&mut worker.link, &mut worker.buffers, patience);
            let call = match received {
                Received::Packet(len) => {
                    worker.clock_ns = clock::now_ns();
                    self.take_one(worker, len, patient)
                }
                Received::Many(segments) => {
                    worker.clock_ns = clock::now_ns();
                    self.take_many(worker, segments, patient)
                }
                Received::Nothing
                    if attention && (watch.spinner.is_none() || attention_ns <= clock::now_ns()) =>
                {
                    self.attend(worker);
                    continue;
                }
                Received::Nothing if !patient || stopping.load(Ordering::Relaxed) => return None,
                Received::Nothing => {
                    self.keep_waiting(worker, &mut watch);
                    continue;
                }
            };
            if let Some(call) = call {
                worker.wait.arrived(worker.clock_ns);
                worker.set_placement(call.assignment.together);
                return Some(call);
            }
        }
    }

    /// Begins to wait, by spinning or asleep.
    #[inline]
    fn begin_waiting(&self, worker: &mut WorkerState<S>) -> Watch {
        let waiters = ActiveWaiters::of_this_process();
        let present = worker.waiters.get_or_insert_with(|| waiters.member()).wait();
        if worker.wait.begin(worker.clock_ns, waiters.waiting()) > 0 {
            return Watch { spinner: Some(present), patience: Patience::DontWait };
        }
        worker.wait.sleeps(worker.clock_ns);
        Watch { spinner: None, patience: Patience::Block }
    }

    /// Nothing has come. A worker that has spun long enough goes to sleep.
    #[inline]
    fn keep_waiting(&self, worker: &mut WorkerState<S>, watch: &mut Watch) {
        if watch.spinner.is_some()
            && let Some(background) = self.background.get()
        {
            background.yield_to_running_procedures();
        }
        let now_ns = clock::now_ns();
        let waiting = ActiveWaiters::of_this_process().waiting();
        if watch.spinner.is_some() && !worker.wait.keeps_spinning(now_ns, waiting) {
            worker.wait.sleeps(now_ns);
            *watch = Watch { spinner: None, patience: Patience::Block };
        }
    }

    /// Takes one packet, and tells the link of the call that it brought.
    #[inline(always)]
    fn take_one(
        &self,
        worker: &mut WorkerState<S>,
        len: usize,
        patient: bool,
    ) -> Option<PacketCall<S::Peer>> {
        let call = self.take(worker, len)?;
        if patient {
            let (_, lane, _) = call.assignment.identity();
            if self.link.note_calls(&mut worker.link, 1, Some(lane)) {
                self.rouse_background();
            }
        }
        Some(call)
    }
}
