//! The procedures' ends of the pipes of calls that have arrived over packets.
//!
//! The exchange carries the bytes. What a procedure has sent waits in a [queue](PipeQueue) until the exchange takes it, what arrives is moved
//! from the exchange into a queue under the exchange's lock. The exchange's lock is taken before that of a queue.

use crate::context::cancelled::{self, CallId};
use crate::context::keeper;
use crate::later::deferred::{Later, ReplyError};
use crate::locked::locked;
use crate::pipes::contract::{Close, GRACE_NS, Pipes};
use crate::pipes::ends::{Carrier, QueueEnds, Side};
use crate::pipes::error::PipeError;
use crate::pipes::helper::{self, Gathering};
use crate::pipes::queue::{Awaited, PipeQueue};
use crate::pipes::waiters::Wakeup;
use crate::pipes::window::Window;
use crate::serving::outcome::Outcome;
use crate::serving::workers::guest::Guest;
use crate::transport::packet::link::ServerEndpoint;
use crate::transport::packet::pipes::{FIRST_LIMIT, MARGIN, Outlet};
use crate::transport::packet::server::endpoint::PacketEndpoint;
use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use stoop_exchange::Instant;
use stoop_exchange::pipe::Added;
use stoop_exchange::server::{Assignment, CallKey, PipeDue, Server};
use stoop_net::clock;
use stoop_net::waiting::Placement;
use stoop_wire::HEADER_LEN;

/// The pipes of a call that runs.
pub(super) struct ServedPipes {
    call: CallKey,
    out: Option<Arc<PipeQueue>>,
    into: Option<Arc<PipeQueue>>,
    /// Bytes on their way from the queue to the exchange. Changes under the lock of the exchange.
    outlet: Mutex<Outlet>,
    gathering: Gathering,
}

/// The pipes of the calls that an endpoint runs, and what sends their packets.
pub(super) struct PipeTable<S: ServerEndpoint> {
    calls: Mutex<HashSet<ByCall>>,
    /// What threads send with that are no workers, while none does.
    senders: Mutex<Vec<Sender<S>>>,
}

/// What a thread sends with.
type Sender<S> = (<S as ServerEndpoint>::Worker, Option<<S as ServerEndpoint>::Room>);

/// Carries the bytes of the pipes of a procedure.
struct Procedures<S: ServerEndpoint> {
    pipes: Arc<ServedPipes>,
    guest: Guest<PacketEndpoint<S>>,
    /// Bytes of the longest item.
    item_max: usize,
}

/// Bytes before the result of a call with a pipe to its caller: the length of that.
const LENGTH: usize = size_of::<u64>();

impl<S: ServerEndpoint> Default for PipeTable<S> {
    fn default() -> Self {
        Self { calls: Mutex::default(), senders: Mutex::default() }
    }
}

impl<S: ServerEndpoint> PipeTable<S> {
    fn find(&self, call: CallKey) -> Option<Arc<ServedPipes>> {
        locked(&self.calls).get(&call).map(|pipes| Arc::clone(&pipes.0))
    }

    fn add(&self, pipes: &Arc<ServedPipes>) {
        locked(&self.calls).replace(ByCall(Arc::clone(pipes)));
    }

    /// Takes the pipes of a call that is about to be answered.
    fn take(&self, call: CallKey) -> Option<Arc<ServedPipes>> {
        locked(&self.calls).take(&call).map(|pipes| pipes.0)
    }

    fn calls(&self) -> Vec<CallKey> {
        locked(&self.calls).iter().map(|pipes| pipes.0.call).collect()
    }
}

/// The pipes of a call in a table, which finds them by the call.
struct ByCall(Arc<ServedPipes>);

impl Borrow<CallKey> for ByCall {
    fn borrow(&self) -> &CallKey {
        &self.0.call
    }
}

impl Hash for ByCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.call.hash(state);
    }
}

impl PartialEq for ByCall {
    fn eq(&self, other: &Self) -> bool {
        self.0.call == other.0.call
    }
}

impl Eq for ByCall {}

impl ServedPipes {
    fn new(call: CallKey, pipes: Pipes) -> Arc<Self> {
        let queue = |is_there: bool, limit| is_there.then(|| Arc::new(PipeQueue::new(limit, Window::Usual)));
        Arc::new(Self {
            call,
            out: queue(pipes.from_procedure, 0),
            into: queue(pipes.to_procedure, FIRST_LIMIT),
            outlet: Mutex::default(),
            gathering: Gathering::default(),
        })
    }

    /// Ends both pipes at this end, for this reason.
    fn fail(&self, why: &PipeError) {
        [&self.out, &self.into]
            .into_iter()
            .flatten()
            .flat_map(|queue| queue.fail(why))
            .for_each(Wakeup::give);
    }

    /// Moves what has arrived from the exchange to the procedure, and notes how much its caller takes. The tasks are to be woken when
    /// the exchange's lock has been released.
    fn look<P: stoop_exchange::server::Peer>(&self, exchange: &mut Server<P>) -> [Wakeup; 2] {
        let mut wakeups = [Wakeup::default(), Wakeup::default()];
        if let Some(into) = &self.into {
            wakeups[0] = into.arrive_by(|bytes| exchange.pipe_draw(self.call, bytes));
        }
        if let Some(out) = &self.out {
            wakeups[1] = match exchange.pipe_limit(self.call) {
                Some(limit) => out.grant(limit.saturating_sub(MARGIN)),
                None if exchange.pipe_is_stopped(self.call) => out.stop(PipeError::Stopped),
                None => Wakeup::default(),
            };
        }
        wakeups
    }

    /// Passes what the procedure has sent to the exchange, as much as that takes.
    fn pass<P: stoop_exchange::server::Peer>(&self, now: Instant, exchange: &mut Server<P>) -> Wakeup {
        let Some(out) = &self.out else { return Wakeup::default() };
        let Some(limit) = exchange.pipe_limit(self.call) else {
            locked(&self.outlet).clear();
            return Wakeup::default();
        };
        if out.limit() + MARGIN > limit {
            exchange.pipe_allow(self.call, out.limit() + MARGIN);
        }
        let passed = locked(&self.outlet).pass(out, |bytes| exchange.pipe_send(now, self.call, bytes));
        if passed.is_flushed {
            exchange.pipe_flush(self.call);
        }
        if passed.is_held_up && exchange.pipe_room(self.call).is_some_and(|room| room > 0) {
            // There is no memory for it.
            exchange.pipe_retry(now, self.call);
        }
        if out.wants_room() {
            exchange.pipe_want(now, self.call);
        }
        passed.wakeup
    }

    /// Tells the exchange how much the procedure has taken.
    fn credit<P: stoop_exchange::server::Peer>(&self, now: Instant, exchange: &mut Server<P>) {
        let Some(into) = &self.into else { return };
        let (taken, limit, is_needed) = into.taken_and_limit();
        if !exchange.pipe_credit(self.call, taken, limit + MARGIN, is_needed) {
            exchange.pipe_retry(now, self.call);
        }
    }

    /// The call is about to be answered: the exchange gets all that the procedure has sent. Returns how many bytes the pipe has.
    fn close<P: stoop_exchange::server::Peer>(&self, now: Instant, exchange: &mut Server<P>) -> u64 {
        let Some(out) = &self.out else { return 0 };
        self.pass(now, exchange).give_later();
        let send_rest = |bytes: Added<'_>| {
            exchange.pipe_send_rest(now, self.call, bytes);
            bytes.len()
        };
        locked(&self.outlet).pass(out, send_rest).wakeup.give_later();
        exchange.pipe_close(self.call)
    }
}

impl<S: ServerEndpoint> PacketEndpoint<S> {
    /// Gives a call that is about to be open the ends of its pipes, if its caller has them, too.
    #[cold]
    pub(super) fn give_pipes(&self, assignment: &Assignment<S::Peer>, pipes: Pipes, later: &mut Later) {
        let call = assignment.identity();
        let served = ServedPipes::new(call, pipes);
        let mut exchange = self.exchange();
        if exchange.pipe_kinds(call) != (pipes.to_procedure, pipes.from_procedure) {
            return;
        }
        self.pipes.add(&served);
        let _: [Wakeup; 2] = served.look(&mut exchange);
        drop(exchange);
        let placement = Placement { together: assignment.together, waiting_max: self.spinners_max };
        let terms = (self.waiting, placement);
        let guest = Guest::new(self.open_calls.answers(), terms);
        later.give_ends(QueueEnds::of(Procedures { pipes: served, guest, item_max: self.message_max }));
    }

    /// Something has arrived for the pipes of these calls. The threads and tasks are to be woken when the exchange's lock has been
    /// released.
    #[cold]
    pub(super) fn look_at_pipes(&self, exchange: &mut Server<S::Peer>, calls: &[CallKey]) -> Vec<Wakeup> {
        let mut wakeups = Vec::new();
        for served in calls.iter().filter_map(|call| self.pipes.find(*call)) {
            wakeups.extend(served.look(exchange));
            wakeups.push(served.pass(Instant::from_nanos(clock::now_ns()), exchange));
        }
        wakeups
    }

    /// Does what is due for pipes by the clock.
    #[cold]
    pub(super) fn look_at_due_pipes(&self, exchange: &mut Server<S::Peer>, now: Instant) {
        while let Some((call, due)) = exchange.next_due_pipe() {
            match due {
                PipeDue::Silent => self.cancel_procedure(call.0, call.1, call.2),
                PipeDue::Retry => {
                    if let Some(served) = self.pipes.find(call) {
                        served.credit(now, exchange);
                        served.pass(now, exchange).give_later();
                    }
                }
            }
        }
    }

    /// Does something with the exchange, and sends what may leave.
    fn with_pipes<R>(&self, act: impl FnOnce(&mut Server<S::Peer>, Instant) -> R) -> R {
        let mut exchange = self.exchange();
        let result = act(&mut exchange, Instant::from_nanos(clock::now_ns()));
        self.transmit_apart(exchange);
        result
    }

    /// Sends all that may leave now, in a thread that need not be a worker.
    pub(super) fn transmit_apart<'a>(&'a self, mut exchange: MutexGuard<'a, Server<S::Peer>>) {
        if exchange.may_transmit() {
            let sender = locked(&self.pipes.senders).pop();
            let (link, mut room) = sender.unwrap_or_else(|| (self.link.worker(), None));
            exchange = self.transmit((&link, &mut room), exchange, u32::MAX);
            locked(&self.pipes.senders).push((link, room));
        }
        self.note_and_wake(exchange);
    }

    /// The server shuts down: calls with pipes, which may be quiet for ever, end soon.
    pub(super) fn end_pipes_soon(&self) {
        let deadline_ns = clock::now_ns().saturating_add(GRACE_NS);
        for (binding, lane, number) in self.pipes.calls() {
            keeper::end_call_by(CallId::new(binding, lane, number), deadline_ns);
        }
    }

    /// Whether a call that is about to be answered has pipes, and takes them.
    pub(super) fn take_pipes(&self, call: CallKey) -> Option<Arc<ServedPipes>> {
        self.pipes.take(call)
    }

    /// A call with pipes has ended like this: makes its answer. What its procedure has sent goes on, unless no caller waits for it.
    #[cold]
    pub(super) fn answer_with_pipes(
        &self,
        assignment: &mut Assignment<S::Peer>,
        served: &ServedPipes,
        (outcome, reached): (Outcome, Result<(), ReplyError>),
        now_ns: u64,
    ) {
        if reached == Err(ReplyError::Cancelled) || cancelled::is_cancelled(super::run::call_id(assignment)) {
            served.fail(&PipeError::Cancelled);
            return self.complete(assignment, outcome, now_ns);
        }
        let how = if matches!(outcome, Outcome::Result(_)) { Close::Whole } else { Close::Aborted };
        if let Some(out) = &served.out {
            out.close(how).into_iter().flatten().for_each(Wakeup::give);
        }
        let len = self.with_pipes(|exchange, now| served.close(now, exchange));
        if let Some(into) = &served.into {
            into.fail(&PipeError::Ended).into_iter().for_each(Wakeup::give);
        }
        match outcome {
            Outcome::Result(result) if served.out.is_some() => {
                let packet = assignment.packet_mut();
                let end = HEADER_LEN + result + LENGTH;
                packet.resize(packet.len().max(end), 0);
                packet.copy_within(HEADER_LEN..HEADER_LEN + result, HEADER_LEN + LENGTH);
                packet[HEADER_LEN..HEADER_LEN + LENGTH].copy_from_slice(&len.to_le_bytes());
                self.complete(assignment, Outcome::Result(result + LENGTH), now_ns);
            }
            Outcome::Failed(why) if served.out.is_some() => {
                assignment.fail_behind_pipe(why.0, &why.1, len);
            }
            outcome => self.complete(assignment, outcome, now_ns),
        }
    }

    /// The caller of a call with pipes has gone.
    #[cold]
    pub(super) fn end_pipes(&self, served: &ServedPipes) {
        served.fail(&PipeError::Cancelled);
    }
}

/// Bytes before the result of a call with these pipes.
pub(super) fn length_before(served: Option<&Arc<ServedPipes>>) -> usize {
    served.filter(|served| served.out.is_some()).map_or(0, |_| LENGTH)
}

impl<S: ServerEndpoint> Procedures<S> {
    /// Does something with the endpoint, while that is there.
    fn with(&self, act: impl FnOnce(&ServedPipes, &mut Server<S::Peer>, Instant)) {
        self.guest.with_pool(|pool| {
            pool.endpoint.with_pipes(|exchange, now| act(&self.pipes, exchange, now));
        });
    }
}

impl<S: ServerEndpoint> Drop for Procedures<S> {
    /// The procedure has returned.
    fn drop(&mut self) {
        self.guest.end();
    }
}

impl<S: ServerEndpoint> Carrier for Procedures<S> {
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
        self.with(|pipes, exchange, now| pipes.credit(now, exchange));
    }

    fn ended(&self, side: Side) {
        if side == Side::Receiving {
            self.with(|pipes, exchange, now| exchange.pipe_stop(now, pipes.call));
        }
    }

    fn flush(&self) {
        let _sending = self.pipes.gathering.begin();
        self.with(|pipes, exchange, now| pipes.pass(now, exchange).give_later());
    }

    fn wait(&self, queue: &Arc<PipeQueue>, awaited: Awaited, until_ns: u64) {
        // Items that gather are not followed by others while this thread waits.
        self.flush();
        self.guest.wait(until_ns, || queue.has(awaited), || queue.wait(awaited, until_ns));
        if queue.is_over() || queue.closed().is_some() {
            self.guest.end();
        }
    }

    fn item_max(&self) -> usize {
        self.item_max
    }
}

/// Wakes threads now, and a task in another thread.
pub(super) trait GiveLater {
    fn give_later(self);
}

impl GiveLater for Wakeup {
    fn give_later(self) {
        helper::wake(self);
    }
}
