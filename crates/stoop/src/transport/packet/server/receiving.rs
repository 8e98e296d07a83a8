//! A worker's wait for packets, and their receipt.

use crate::serving::terms::CallTerms;
use crate::serving::workers::Looked;
use crate::transport::packet::link::{Received, ServerEndpoint};
use crate::transport::packet::server::call::PacketCall;
use crate::transport::packet::server::endpoint::PacketEndpoint;
use crate::transport::packet::server::worker::WorkerState;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use stoop_net::waiting::OngoingWait;
use stoop_net::{Patience, clock};
use stoop_probe::{Point, stamp};

impl<S: ServerEndpoint> PacketEndpoint<S> {
    /// Receives until a call has come. `None`: nothing is there and the worker may not wait, or it is interrupted.
    #[inline(always)]
    pub(super) fn receive_next(
        &self,
        worker: &mut WorkerState<S>,
        patient: bool,
        interrupted: &AtomicBool,
    ) -> Option<PacketCall<S::Peer>> {
        // `None`: this worker does not wait.
        let mut wait = patient.then(|| worker.waiter.begin(worker.clock_ns));
        loop {
            let attention_ns = self.attention_ns.load(Ordering::Relaxed);
            let attention = attention_ns != u64::MAX;
            let sleeps = !attention && wait.as_mut().is_some_and(begins_sleep);
            let patience = if sleeps { Patience::Block } else { Patience::DontWait };
            let received = self.link.receive(&mut worker.link, &mut worker.buffers, patience);
            let call = match received {
                Received::Packet(len) => {
                    stamp(Point::CallSeen);
                    worker.clock_ns = clock::now_ns();
                    self.take_one(worker, len, patient)
                }
                Received::Many(segments) => {
                    worker.clock_ns = clock::now_ns();
                    self.take_many(worker, segments, patient)
                }
                Received::Nothing
                    if attention && (!spins(wait.as_ref()) || attention_ns <= clock::now_ns()) =>
                {
                    self.attend(worker);
                    continue;
                }
                Received::Nothing if interrupted.load(Ordering::Relaxed) => return None,
                Received::Nothing => {
                    let Some(wait) = wait.as_mut() else {
                        self.drained_ns.store(clock::now_ns(), Ordering::Relaxed);
                        return None;
                    };
                    self.keep_waiting(worker, wait);
                    continue;
                }
            };
            if let Some(call) = call {
                stamp(Point::CallFound);
                if let Some(wait) = &wait {
                    worker.waiter.arrived(wait, worker.clock_ns);
                }
                // The latest caller is the likeliest to call next.
                worker.waiter.set_together(call.assignment.together);
                return Some(call);
            }
            if mem::take(&mut worker.has_part)
                && let Some(wait) = &mut wait
            {
                worker.waiter.part_arrived(wait, worker.clock_ns);
            }
            // Packets without calls may keep coming, as from callers that try to bind to a server that shuts down.
            if patient && interrupted.load(Ordering::Relaxed) {
                return None;
            }
        }
    }

    /// Receives once, for a guest, which may sleep for so long before. Sends what is owed if nothing is there.
    pub(super) fn look_once(
        &self,
        worker: &mut WorkerState<S>,
        sleep_ns: u64,
    ) -> Option<Looked<PacketCall<S::Peer>>> {
        let owes = || self.attention_ns.load(Ordering::Relaxed) != u64::MAX;
        if sleep_ns > 0 && !owes() && !self.link.sleep(&worker.link, sleep_ns) {
            return None;
        }
        let received = self.link.receive(&mut worker.link, &mut worker.buffers, Patience::DontWait);
        worker.clock_ns = clock::now_ns();
        let call = match received {
            Received::Packet(len) => self.take_one(worker, len, true),
            Received::Many(segments) => self.take_many(worker, segments, true),
            Received::Nothing => {
                if sleep_ns > 0 && owes() || self.attention_ns.load(Ordering::Relaxed) <= worker.clock_ns {
                    self.attend(worker);
                    return Some(Looked::Packets);
                }
                self.drained_ns.store(worker.clock_ns, Ordering::Relaxed);
                return Some(Looked::Nothing);
            }
        };
        Some(call.map_or(Looked::Packets, Looked::Call))
    }

    /// Nothing has come. A worker that has spun long enough goes to sleep.
    #[inline]
    fn keep_waiting(&self, worker: &mut WorkerState<S>, wait: &mut OngoingWait) {
        if wait.spins() {
            self.background.yield_to_running_procedures();
        }
        let now_ns = clock::now_ns();
        self.drained_ns.store(now_ns, Ordering::Relaxed);
        worker.waiter.go_on(wait, now_ns);
    }

    /// Whether packets wait that this worker could not begin soon; asked when for a while there has always been another packet.
    #[cold]
    pub(super) fn has_many_waiting(&self, worker: &mut WorkerState<S>, terms: &CallTerms) -> bool {
        let in_batch =
            if self.batch.is_pending() { self.batch.shared(&mut worker.key).calls.len() } else { 0 };
        let is_behind = terms.is_behind(in_batch + self.link.waiting(&worker.link));
        if !is_behind {
            self.drained_ns.store(worker.clock_ns, Ordering::Relaxed);
        }
        is_behind
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
            // Those of a bundle are of many lanes.
            let lane = (!call.packet.is_bundled()).then_some(lane);
            if self.link.note_calls(&mut worker.link, 1, lane) {
                self.background.wake_if_asleep();
            }
        }
        Some(call)
    }
}

#[inline]
fn spins(wait: Option<&OngoingWait>) -> bool {
    wait.is_some_and(OngoingWait::spins)
}

/// Whether the worker sleeps when it looks next. A worker that sleeps is not counted among the waiting threads.
#[inline]
fn begins_sleep(wait: &mut OngoingWait) -> bool {
    let sleeps = wait.sleeps();
    if sleeps {
        wait.uncount();
    }
    sleeps
}
