//! Calls in flight to a server of this process.
//!
//! The arguments of a begun call are marshaled, as those of a call to another process are: its caller goes on, and may
//! do with its own what it wants.

use crate::calling::begun::{CallBatch, OutstandingCalls};
use crate::calling::call_table::{CallTable, Outcome, Payload, Wakeup};
use crate::calling::detached::{CallingThread, Failures, Selection};
use crate::context::cancelled;
use crate::context::cancelled::CallId;
use crate::context::{Caller, current_call, in_between, is_too_late, take_asked};
use crate::error::{CallError, Failure, FailureCode, Refusal, RefusalCode, SendError, UnknownCause};
use crate::serving::dispatch::{CallLimits, Outcome as Ran};
use crate::transport::local::pool::{Declined, Job};
use crate::transport::local::server::LocalServer;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::thread::{self, Thread};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_marshal::Reader;
use stoop_net::clock;
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM};

/// Carries calls to a server of this process.
pub(crate) struct LocalCalls(Arc<Calls>);

struct Calls {
    server: Arc<LocalServer>,
    interface: u16,
    slots: Mutex<CallTable<LocalCall>>,
    /// Ends calls at their deadlines for those that are woken; there from the first on.
    watch: OnceLock<Watch>,
    /// Held by whoever starts it.
    starting_watch: Mutex<()>,
}

/// A call that has not ended.
struct LocalCall {
    /// Told apart from all others in the process.
    id: u64,
    procedure: u16,
    begun: Instant,
    /// Until it runs.
    arguments: Option<Vec<u8>>,
}

/// A call that waits for a thread.
pub(crate) struct LocalJob {
    calls: Arc<Calls>,
    call: u32,
    id: u64,
}

struct Watch {
    thread: Thread,
    /// When it looks next, as far as is known.
    looks_ns: AtomicU64,
}

/// The last identification that was given to a call.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

impl LocalCalls {
    pub(crate) fn new(server: Arc<LocalServer>, interface: u16) -> Self {
        Self(Arc::new(Calls {
            server,
            interface,
            slots: Mutex::default(),
            watch: OnceLock::new(),
            starting_watch: Mutex::default(),
        }))
    }

    /// Whether the server still runs.
    pub(crate) fn is_open(&self) -> bool {
        self.0.server.is_open()
    }
}

impl OutstandingCalls for LocalCalls {
    fn open_batch(&self, timeout_ns: u64) -> CallBatch {
        CallBatch::new(Vec::new(), 0, self.0.server.message_max, timeout_ns)
    }

    fn begin(&self, departure: &mut CallBatch, procedure: u16, len: usize) -> Result<u32, CallError> {
        let Self(calls) = self;
        departure.read_clock();
        if departure.deadline <= departure.begun {
            return Err(CallError::NotSent(SendError::DeadlinePassed));
        }
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let arguments = Some(departure.packet[departure.start..departure.start + len].to_vec());
        let deadline_ns = departure.deadline.as_nanos();
        let call =
            calls.slots().open(deadline_ns, LocalCall { id, procedure, begun: departure.begun, arguments });
        let declined = match calls.server.pool.submit(LocalJob { calls: Arc::clone(calls), call, id }) {
            Ok(()) => return Ok(call),
            Err(declined) => declined,
        };
        // Nobody has asked for it yet.
        drop(calls.slots().abandon(call));
        Err(match declined {
            Declined::Closed => CallError::NotSent(SendError::Closed),
            Declined::Full => refused(RefusalCode::Overloaded, String::new()),
            Declined::NoThread(why) => CallError::NotSent(SendError::Io(why)),
        })
    }

    fn submit(&self, _: CallBatch) {}

    fn is_ready(&self, call: u32) -> bool {
        self.0.look(&[call], Instant::NEVER).is_some()
    }

    fn poll(&self, call: u32, waker: &Waker) -> bool {
        let Self(calls) = self;
        if self.is_ready(call) {
            return true;
        }
        if calls.slots().is_registered(call, waker) {
            return self.is_ready(call);
        }
        let fresh = waker.clone();
        let mut slots = calls.slots();
        if slots.has_ended(call) {
            drop(slots);
            return true;
        }
        let before = slots.register(call, fresh);
        let deadline_ns = slots.deadline_ns(call);
        drop(slots);
        drop(before);
        calls.watch(deadline_ns);
        false
    }

    fn wait_any(&self, waited: &[u32], until: Instant) -> Option<usize> {
        let Self(calls) = self;
        let thread = thread::current();
        loop {
            match calls.look(waited, until) {
                Some(Look::Ended(place)) => return Some(place),
                Some(Look::Late) => return None,
                None => {}
            }
            // Procedures that wait for calls to their own server could have taken all its threads.
            let may_help = until == Instant::NEVER && current_call().is_some();
            if may_help && calls.server.pool.is_busy() && calls.run_one_of(waited) {
                continue;
            }
            let mut slots = calls.slots();
            if slots.ended_among(waited).is_some() {
                continue;
            }
            slots.attend(waited, Some(&thread));
            let deadline_ns = waited.iter().map(|&call| slots.deadline_ns(call)).min().unwrap_or(u64::MAX);
            drop(slots);
            let limit_ns = deadline_ns.min(until.as_nanos()).saturating_sub(clock::now_ns());
            thread::park_timeout(Duration::from_nanos(limit_ns));
            calls.slots().attend(waited, None);
        }
    }

    fn take(&self, call: u32, with: &mut dyn FnMut(Result<Reader<'_>, CallError>)) -> bool {
        let mut slots = self.0.slots();
        if !slots.has_ended(call) {
            return false;
        }
        let outcome = slots.take(call);
        drop(slots);
        match outcome {
            Ok(payload) => with(Ok(Reader::new(payload.bytes()))),
            Err(error) => with(Err(error)),
        }
        true
    }

    fn cancel(&self, call: u32) {
        let mut slots = self.0.slots();
        let (given_up, waker) = slots.abandon(call);
        if let Some(LocalCall { id, arguments: None, .. }) = given_up {
            // Under the lock, which it takes when it ends.
            cancelled::cancel(CallId::local(id));
        }
        drop(slots);
        drop(waker);
    }

    fn detach(&self, call: u32, calling_thread: Option<CallingThread>) {
        let waker = self.0.slots().detach(call, calling_thread);
        drop(waker);
    }

    fn has_left(&self, _: u32) -> bool {
        true
    }

    fn reclaim(&self, which: Selection) -> Option<(u32, Option<CallingThread>)> {
        self.0.slots().reclaim(which)
    }

    fn detached(&self) -> usize {
        self.0.slots().detached()
    }

    fn with_failures(&self, look: &mut dyn FnMut(&mut Failures)) {
        look(&mut self.0.slots().failures);
    }

    /// Runs it here and now, if no thread of the pool has begun to.
    fn wait_for_reclaimed(&self, call: u32, until: Instant) {
        if !self.0.run_one_of(&[call]) {
            self.wait_any(&[call], until);
        }
    }
}

impl LocalCall {
    /// Why it has no result at its deadline.
    fn too_late(&self, now_ns: u64) -> CallError {
        if self.arguments.is_some() {
            return refused(RefusalCode::DeadlinePassed, String::new());
        }
        let waited = Instant::from_nanos(now_ns).since(self.begun);
        CallError::Unknown { transmissions: 1, waited, cause: UnknownCause::DeadlinePassed }
    }
}

/// What a look at calls has shown.
enum Look {
    /// The one at that place has ended.
    Ended(usize),
    /// The time of waiting is over.
    Late,
}

impl Calls {
    fn slots(&self) -> MutexGuard<'_, CallTable<LocalCall>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether one of these calls has ended, and ends those whose deadlines have passed.
    fn look(&self, calls: &[u32], until: Instant) -> Option<Look> {
        let ended = self.slots().ended_among(calls);
        if let Some(place) = ended {
            return Some(Look::Ended(place));
        }
        let now_ns = clock::now_ns();
        if self.expire(now_ns) {
            let ended = self.slots().ended_among(calls);
            if let Some(place) = ended {
                return Some(Look::Ended(place));
            }
        }
        (until.as_nanos() <= now_ns).then_some(Look::Late)
    }

    /// Ends the calls whose deadlines have passed. Returns whether there were any.
    fn expire(&self, now_ns: u64) -> bool {
        let mut slots = self.slots();
        let expired = slots.expired(now_ns);
        let notices: Vec<Wakeup> = expired
            .iter()
            .map(|&call| {
                let error = slots.get_mut(call).map(|known| known.too_late(now_ns));
                slots.end(call, Err(error.expect("what expires is open")))
            })
            .collect();
        drop(slots);
        let any = !notices.is_empty();
        notices.into_iter().for_each(Wakeup::give);
        any
    }

    /// Lets the watch look by that time.
    fn watch(self: &Arc<Self>, deadline_ns: u64) {
        if self.watch.get().is_none() {
            self.start_watch();
        }
        let Some(watch) = self.watch.get() else { return };
        if watch.looks_ns.load(Ordering::SeqCst) > deadline_ns {
            watch.thread.unpark();
        }
    }

    #[cold]
    fn start_watch(self: &Arc<Self>) {
        let _starting = self.starting_watch.lock().unwrap_or_else(PoisonError::into_inner);
        if self.watch.get().is_some() {
            // Another thread has done so meanwhile.
            return;
        }
        let calls = Arc::downgrade(self);
        let keep_watch = move || {
            while let Some(looks_ns) = calls.upgrade().map(|calls| calls.keep_watch()) {
                let limit_ns = looks_ns.saturating_sub(clock::now_ns());
                thread::park_timeout(Duration::from_nanos(limit_ns));
            }
        };
        let watch = thread::Builder::new().name("stoop-watch".into()).spawn(keep_watch);
        // Without it, whoever is woken is woken when the call has run.
        let Ok(watch) = watch else { return };
        let _ = self.watch.set(Watch { thread: watch.thread().clone(), looks_ns: AtomicU64::new(u64::MAX) });
    }

    /// Looks at the deadlines. Returns when to look again.
    fn keep_watch(&self) -> u64 {
        self.expire(clock::now_ns());
        let looks_ns = self.slots().earliest_ns();
        if let Some(watch) = self.watch.get() {
            watch.looks_ns.store(looks_ns, Ordering::SeqCst);
        }
        // Who begins a call with an earlier deadline sees the time just stored, or is seen here.
        looks_ns.min(self.slots().earliest_ns())
    }

    /// Runs one of these calls that nobody has begun to run. Returns whether there was one.
    fn run_one_of(&self, calls: &[u32]) -> bool {
        let mut slots = self.slots();
        let waiting = calls.iter().find_map(|&call| {
            let known = slots.get_mut(call).filter(|known| known.arguments.is_some())?;
            Some((call, known.id))
        });
        drop(slots);
        let Some((call, id)) = waiting else { return false };
        in_between(|| self.run(call, id));
        true
    }

    /// Runs a call, unless it has been given up or another thread runs it.
    fn run(&self, call: u32, id: u64) {
        let mut slots = self.slots();
        let known = slots.get_mut(call).filter(|known| known.id == id);
        let Some((arguments, procedure)) =
            known.and_then(|known| Some((known.arguments.take()?, known.procedure)))
        else {
            return;
        };
        let deadline_ns = slots.deadline_ns(call);
        drop(slots);
        let outcome = match deadline_ns <= clock::now_ns() {
            true => Err(refused(RefusalCode::DeadlinePassed, String::new())),
            false => self.serve(procedure, &arguments, CallId::local(id), deadline_ns),
        };
        self.end(call, id, outcome);
    }

    fn serve(&self, procedure: u16, arguments: &[u8], call: CallId, deadline_ns: u64) -> Outcome {
        let result_max = self.server.message_max;
        let terms =
            CallLimits { deadline_ns, caller: Caller::Local, call, result_max, out_limit: result_max };
        let mut packet = vec![0; MAX_DATAGRAM];
        match self.server.exports.run(self.interface, procedure, arguments, &mut packet, terms) {
            Ran::Result(_) if is_too_late(deadline_ns, take_asked()) => {
                let code = FailureCode::FinishedTooLate;
                Err(CallError::Failed(Failure { code, detail: String::new() }))
            }
            Ran::Result(len) => Ok(Payload::new(packet, HEADER_LEN, len)),
            Ran::Refused(why) => Err(refused(why.0, why.1)),
            Ran::NoRoom(needed) => {
                let (code, detail) = Ran::refused_for_room(needed, result_max);
                Err(refused(code, detail))
            }
            Ran::Failed(why) => Err(CallError::Failed(Failure { code: why.0, detail: why.1 })),
        }
    }

    /// A call ends, if it has not been given up.
    fn end(&self, call: u32, id: u64, outcome: Outcome) {
        let mut slots = self.slots();
        let is_open = slots.get_mut(call).is_some_and(|known| known.id == id);
        let notice = if is_open { slots.end(call, outcome) } else { Wakeup::default() };
        drop(slots);
        cancelled::ended(CallId::local(id));
        notice.give();
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.get() {
            watch.thread.unpark();
        }
    }
}

impl Job for LocalJob {
    fn run(self) {
        self.calls.run(self.call, self.id);
    }

    fn is_wanted(&self) -> bool {
        self.calls
            .slots()
            .get_mut(self.call)
            .is_some_and(|known| known.id == self.id && known.arguments.is_some())
    }
}

impl LocalJob {
    /// The server has been shut down before it began.
    pub(crate) fn refuse(self) {
        self.calls.end(self.call, self.id, Err(refused(RefusalCode::ShuttingDown, String::new())));
    }
}

fn refused(code: RefusalCode, detail: String) -> CallError {
    CallError::Refused(Refusal { code, detail })
}
