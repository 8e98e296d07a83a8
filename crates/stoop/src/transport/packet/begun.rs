//! The table of a binding's begun calls over packets.
//!
//! A begun call passes through these steps:
//!
//! 1. `begin` puts its packet into the submission queue of the [`Begin`](crate::Begin), in a slot that was reserved for it.
//! 2. The queue leaves when it is full, when the `Begin` is dropped, or when a thread asks about one of its calls: under the lock of the
//!    table each call is started, then one system call sends all packets.
//! 3. The thread with the receive role gives each packet that arrives to the call of its lane. Nearly always the packet is the result.
//! 4. The handle takes a short result from the completion table, without the lock, and any other under the lock.
//!
//! A call is expanded when anything else happens: a timeout, another packet, a thread or task that sleeps until it ends, the loss of its
//! handle. A call of many packets is in no queue: it leaves in parts, as the window allows.

pub(crate) mod apart;
pub(crate) mod arrivals;
pub(crate) mod background;
pub(crate) mod call_pipes;
pub(crate) mod calls;
pub(crate) mod flow;
pub(crate) mod goal;
pub(crate) mod large;
pub(crate) mod piped;
pub(crate) mod pipes;
pub(crate) mod receiver;
pub(crate) mod refused;
pub(crate) mod sessions;
pub(crate) mod slot;
pub(crate) mod submissions;
pub(crate) mod timeouts;
pub(crate) mod wakeups;

use crate::calling::background::{self as background_thread, Background, Driven};
use crate::calling::begun::Outcome;
use crate::calling::begun::{BeginsCalls, BegunCalls, CallBatch, OutstandingCalls, PipeTerms};
use crate::calling::completion_table::CompletionTable;
use crate::calling::counters::CallCounters;
use crate::calling::detached::{Failures, OrderedCall, Reclaimed, Selection};
use crate::calling::receive_role::ReceiveRole;
use crate::calling::short_result::Short;
use crate::calling::submission_queue::SubmissionQueue;
use crate::context::TimeBounds;
use crate::error::{CallError, SendError};
use crate::locked::locked;
use crate::pipes::contract::Ends;
use crate::transport::packet::begun::calls::{BoundEndpoint, Calls};
use crate::transport::packet::begun::receiver::Receiver;
use crate::transport::packet::begun::slot::Stage;
use crate::transport::packet::begun::wakeups::Wakeups;
use crate::transport::packet::caller::PacketBinding;
use crate::transport::packet::endpoint::Endpoint;
use crate::transport::packet::link::{CallerEndpoint, MAX_SEGMENTS_LEN, PacketLink, Share};
use crate::transport::packet::{now, protection};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::Waker;
use stoop_exchange::Instant;
use stoop_marshal::Reader;
use stoop_wire::{HEADER_LEN, Kind, MAX_DATAGRAM};

/// The begun calls of one binding.
///
/// One lock guards all of it but the endpoint. No thread waits or sends one packet after the other while it holds that lock. A thread
/// that waits for a call takes the receive role, and receives for the other calls too.
pub(crate) struct PacketCalls<L: PacketLink> {
    link: Arc<BoundEndpoint<L>>,
    calls: Mutex<Calls<L>>,
    role: ReceiveRole<Receiver>,
    /// The ends and short results of calls, for handles to read without the lock.
    completions: Arc<CompletionTable>,
    background: Background,
    /// Itself, for the ends of pipes.
    own: Weak<Self>,
}

/// Results of at most this many bytes are copied under the lock, and read when it has been released.
const SMALL: usize = 64;

impl<L: PacketLink> PacketCalls<L> {
    /// The calls of `binding`, with an endpoint and a background thread of their own.
    pub(crate) fn new(binding: Arc<PacketBinding<L>>) -> io::Result<Arc<Self>> {
        let located = binding.located();
        let endpoint = Endpoint::connect(&located.address, Share::ManyLanes, binding.own.shares_endpoints)?;
        located.session.prepare(&endpoint);
        let role = ReceiveRole::new(Receiver::new(&binding));
        let link = Arc::new(BoundEndpoint { binding, endpoint });
        let calls = Calls::new(Arc::clone(&link), &located.session);
        let completions = Arc::clone(&calls.completions);
        let (calls, background) = (Mutex::new(calls), Background::default());
        let calls = Arc::new_cyclic(|own| {
            let own = Weak::clone(own);
            Self { link, calls, role, completions, background, own }
        });
        background_thread::start(&calls)?;
        Ok(calls)
    }

    fn calls(&self) -> MutexGuard<'_, Calls<L>> {
        locked(&self.calls)
    }

    /// Releases the lock, wakes the threads and tasks whose calls have ended, and sends the next packets of large calls.
    /// `wakeups` is empty memory for the list of those to wake.
    fn unlock(&self, mut calls: MutexGuard<'_, Calls<L>>, wakeups: &mut Wakeups) {
        if !calls.wakeups.is_empty() {
            std::mem::swap(&mut calls.wakeups, wakeups);
        }
        let (sends, goes_on) = (calls.large.is_sending(), calls.may_go_on());
        drop(calls);
        if !wakeups.is_empty() {
            wakeups.give();
        }
        if sends {
            self.send_large();
        }
        if goes_on {
            self.send_waiting();
        }
    }

    /// Sends the next packets of large calls.
    #[cold]
    fn send_large(&self) {
        let mut room = self.calls().large.room.take().unwrap_or_default();
        loop {
            let framed = self.calls().frame_next(now(), &mut room);
            let Some(framed) = framed else { break };
            // Packets that the system does not send are treated like lost ones.
            let _ = framed.send(&self.link.endpoint, &mut room);
        }
        self.calls().large.room = Some(room);
    }

    /// Sends calls that had to wait, as long as more may leave.
    #[cold]
    pub(crate) fn send_waiting(&self) {
        let mut queue = SubmissionQueue::default();
        loop {
            let mut calls = self.calls();
            calls.start_waiting(&mut queue, now());
            let mut wakeups = std::mem::take(&mut calls.wakeups);
            drop(calls);
            wakeups.give();
            if queue.is_empty() {
                return;
            }
            if self.background.is_idle() {
                self.wake_background();
            }
            let failed = self.send(&queue);
            queue.clear();
            if !failed.is_empty() {
                self.not_sent(failed);
            }
        }
    }

    /// Starts and sends the calls of a submission queue.
    #[inline(never)]
    fn submit_queue(&self, mut queue: MutexGuard<'_, SubmissionQueue>) {
        // Read when the lock is held: no earlier than any of the calls was begun.
        let (mut calls, clock) = (self.calls(), now());
        calls.start_all(&mut queue, clock);
        if clock >= queue.times().1 {
            calls.expire_all(&mut queue, clock);
        }
        drop(calls);
        if queue.is_empty() {
            return;
        }
        if self.background.is_idle() {
            self.wake_background();
        }
        let failed = self.send(&queue);
        queue.clear();
        drop(queue);
        if !failed.is_empty() {
            self.not_sent(failed);
        }
    }

    /// Sends the packets of a queue. Returns those that the system refused to send.
    fn send(&self, queue: &SubmissionQueue) -> Vec<NotSent> {
        let (mut failed, endpoint) = (Vec::new(), &self.link.endpoint);
        let mut not_sent = |position, why| {
            let (call, packet) = queue.packet(position);
            failed.push(NotSent { call, packet: packet.to_vec(), why });
        };
        if protection::is_expected(queue.packets()) {
            let session = self.link.binding.present();
            let (packets, segment, in_each) =
                session.protection.bundled(Kind::Call, queue.packets(), queue.segment());
            let at_once = MAX_SEGMENTS_LEN / segment;
            for (first, packets) in (0..).step_by(at_once).zip(packets.chunks(at_once * segment)) {
                endpoint.send_many(packets, segment, |position, why| {
                    let first = (first + position) * in_each;
                    let calls = first..(first + in_each).min(queue.calls().len());
                    let same =
                        || why.raw_os_error().map_or_else(|| why.kind().into(), io::Error::from_raw_os_error);
                    calls.for_each(|call| not_sent(call, same()));
                });
            }
        } else {
            endpoint.send_many(queue.packets(), queue.segment(), not_sent);
        }
        failed
    }

    /// The system has refused to send these packets.
    #[cold]
    #[inline(never)]
    fn not_sent(&self, failed: Vec<NotSent>) {
        let (mut calls, now) = (self.calls(), now());
        for NotSent { call, packet, why } in failed {
            calls.not_sent(call, &packet, CallError::not_sent(SendError::Io(why)), now);
        }
        self.unlock(calls, &mut Wakeups::default());
    }

    /// Begins a call for which the submission queue has no slot, or which cannot leave with the calls there.
    #[inline(never)]
    fn begin_under_lock(
        &self,
        begin: &mut CallBatch,
        shared: &Mutex<SubmissionQueue>,
        procedure: u16,
        len: usize,
    ) -> Result<u32, CallError> {
        let mut queue = locked(shared);
        if !queue.takes(len) {
            self.submit_queue(queue);
            queue = locked(shared);
        }
        if queue.is_empty() {
            begin.read_clock();
        }
        if begin.deadline <= begin.begun {
            return Err(CallError::not_sent(SendError::DeadlinePassed));
        }
        let mut calls = self.calls();
        calls.note_session();
        if len > calls.session.bound.binding.packet_data() {
            let call = calls.begin_large(begin, procedure, len)?;
            drop((calls, queue));
            if begin.in_background || self.background.is_idle() {
                self.wake_background();
            }
            if !begin.in_background {
                self.send_large();
            }
            return Ok(call);
        }
        if queue.is_empty() {
            queue.set_bounds(TimeBounds::current(begin.timeout_ns));
        }
        calls.reserve(&mut queue, begin.batch)?;
        drop(calls);
        let call = queue.put(procedure, &begin.packet[HEADER_LEN..HEADER_LEN + len]);
        if queue.is_full() {
            self.submit_queue(queue);
        }
        Ok(call.expect("a slot has been reserved for it"))
    }

    /// Sends the submission queues with calls of `wanted`, and locks the table.
    fn calls_that_left(&self, wanted: &[u32]) -> MutexGuard<'_, Calls<L>> {
        loop {
            let calls = self.calls();
            let Some(number) = calls.held_back(wanted) else { return calls };
            let queue = Arc::clone(&calls.queues[number as usize]);
            drop(calls);
            self.submit_queue(locked(&queue));
        }
    }
}

/// A packet that the system has refused to send.
struct NotSent {
    call: u32,
    packet: Vec<u8>,
    why: io::Error,
}

/// A result that is read without the lock. Its drop frees the slot, even if the reader panics.
struct Taken<'a, L: PacketLink> {
    calls: &'a PacketCalls<L>,
    call: u32,
    result: Vec<u8>,
}

impl<L: PacketLink> Drop for Taken<'_, L> {
    fn drop(&mut self) {
        self.calls.calls().give_back(self.call, std::mem::take(&mut self.result));
    }
}

impl<L: PacketLink> BeginsCalls for PacketCalls<L> {
    fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        let mut calls = self.calls();
        let (packet, limit) = (calls.unused_packets.pop(), calls.longest_call);
        let (queue, number) = calls.open_queue();
        drop(calls);
        let packet = packet.unwrap_or_else(|| vec![0; MAX_DATAGRAM]);
        let mut batch = CallBatch::unclocked(packet, HEADER_LEN, limit, timeout_ns);
        (batch.queue, batch.batch) = (Some(queue), number);
        batch
    }

    #[inline]
    fn begin(&self, begin: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        let shared = begin.queue.as_ref().expect("the batch was opened here");
        let mut queue = locked(shared);
        if let Some(call) = queue.put(procedure, &begin.packet[HEADER_LEN..HEADER_LEN + len]) {
            if queue.is_full() {
                self.submit_queue(queue);
            }
            return Ok(call);
        }
        drop(queue);
        let shared = Arc::clone(shared);
        self.begin_under_lock(begin, &shared, procedure, len)
    }

    fn begin_with_pipes(
        &self,
        batch: &mut CallBatch,
        procedure: u16,
        len: usize,
        terms: PipeTerms,
    ) -> Result<(u32, Ends), Option<CallError>> {
        let own = self.own.upgrade().expect("the calling code holds it");
        own.begin_piped(batch, (procedure, len), &terms).map_err(Some)
    }

    fn submit(&self, begin: CallBatch) {
        self.submit_queue(locked(begin.queue.as_ref().expect("the batch was opened here")));
        self.calls().recycle(begin);
    }
}

impl<L: PacketLink> OutstandingCalls for PacketCalls<L> {
    fn server(&self) -> String {
        self.link.binding.uri.clone()
    }

    #[inline]
    fn is_ready(&self, call: u32) -> bool {
        self.completions.has_ended(call) || self.wait(&[call], Instant::default()).is_some()
    }

    #[inline]
    fn take_short(&self, call: u32) -> Option<Short> {
        self.completions.take(call)
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        // Cloning and dropping a waker runs code of the user: not under the lock.
        let waker = waker.clone();
        let mut calls = self.calls_that_left(&[call]);
        let (ready, old) = calls.poll(call, waker);
        let wakes_background = !ready && !self.role.is_held();
        drop((calls, old));
        if wakes_background {
            self.wake_background();
        }
        ready
    }

    fn wait_any(&self, wanted: &[u32], until: Instant) -> Option<usize> {
        self.wait(wanted, until)
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Outcome<'_>)) -> bool {
        let mut calls = self.calls();
        let slot = &mut calls.slots[call as usize];
        if !slot.has_ended() {
            return false;
        }
        // A longer result is not copied.
        let (mut small, mut len) = ([0; SMALL], slot.result.len());
        let error = slot.error.take();
        if error.is_some() {
        } else if let Some(short) = self.completions.result(call) {
            len = short.bytes().len();
            small[..len].copy_from_slice(short.bytes());
        } else if len <= SMALL {
            small[..len].copy_from_slice(&slot.result);
        } else {
            let result = std::mem::take(&mut slot.result);
            drop(calls);
            let taken = Taken { calls: self, call, result };
            with(Ok(Reader::new(&taken.result)));
            return true;
        }
        calls.free(call);
        drop(calls);
        with(match error {
            Some(error) => Err(self.name(*error)),
            None => Ok(Reader::new(&small[..len])),
        });
        true
    }

    fn cancel(&self, call: u32) {
        let now = now();
        let mut calls = self.calls();
        let waker = calls.cancel(call, now);
        if self.background.is_idle() {
            // The cancel is repeated until the server has acknowledged it.
            self.wake_background();
        }
        if calls.large.is_sending() {
            // That takes long: not in a thread that waits for nothing.
            drop(calls);
            self.wake_background();
        } else {
            self.unlock(calls, &mut Wakeups::default());
        }
        drop(waker);
    }

    fn detach(&self, call: u32, ordered: Option<OrderedCall>) {
        let waker = self.calls().detach(call, ordered);
        drop(waker);
    }

    fn has_left(&self, call: u32) -> bool {
        matches!(self.calls().slots[call as usize].stage, Stage::Sent | Stage::Ended)
    }

    fn reclaim(&self, which: Selection) -> Reclaimed {
        self.calls().reclaim(which)
    }

    fn detached(&self) -> usize {
        self.calls().detached()
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut self.calls().failures);
    }
}

/// The begun calls of a client.
pub(crate) struct PacketBegun<L: PacketLink>(Arc<PacketCalls<L>>);

impl<L: PacketLink> PacketBegun<L> {
    /// # Errors
    /// The system gives no endpoint or no thread.
    pub(crate) fn new(binding: &Arc<PacketBinding<L>>) -> io::Result<Self> {
        let calls = PacketCalls::new(Arc::clone(binding))?;
        calls.attend_to_sessions();
        Ok(Self(calls))
    }
}

impl<L: PacketLink> BegunCalls for PacketBegun<L> {
    type Table = PacketCalls<L>;

    #[inline]
    fn present(&self) -> Result<Arc<PacketCalls<L>>, SendError> {
        Ok(self.latest())
    }

    #[inline]
    fn latest(&self) -> Arc<PacketCalls<L>> {
        Arc::clone(&self.0)
    }

    fn counters(&self) -> CallCounters {
        let mut counters = self.0.calls().counters();
        if let Some(receiver) = self.0.role.try_take() {
            counters.add_waits(receiver.wait_counts());
        }
        counters
    }
}

impl<L: PacketLink> Drop for PacketBegun<L> {
    /// Detached calls go on: the background thread drives them.
    fn drop(&mut self) {
        background_thread::hand_over(&self.0);
    }
}
