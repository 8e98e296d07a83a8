//! A binding to a server in another process, over any transport: its sessions, its lanes, and its calls until they have ended.
//!
//! A transport to other processes implements [`Remote`] and [`RemoteLane`]. [`RemoteBinding`] and [`HeldLane`] make a binding and a
//! lane of the [contract](crate::transport::contract) of them.

mod arguments;
pub(crate) mod held_lane;
pub(crate) mod located;
pub(crate) mod moving;
mod replaced;

use crate::account::calls::Recorder;
use crate::buffers::{NamedRanges, SharedBuffers, WriteArguments};
use crate::calling::counters::CallCounters;
use crate::calling::deadline::CallTimes;
use crate::calling::fate::{Ended, Loss};
use crate::calling::handshake::NotBound;
use crate::calling::lanes::{Counted, LaneGuard, Lanes};
use crate::calling::patience;
use crate::calling::sessions::{Generation, Sessions};
use crate::error::{BindError, CallError, Callee, InPlaceError, SendError};
use crate::intercept::client::ClientChain;
use crate::interface::Interface;
use crate::locked::locked;
use crate::options::{BindOptions, TransportOptions};
use crate::pipes::contract::Ends;
use crate::transport::contract::{Binding, Target};
use crate::transport::remote::held_lane::HeldLane;
use crate::transport::remote::located::{Located, Terms};
use crate::transport::remote::moving::{Care, Name};
pub(crate) use crate::transport::remote::replaced::{Replaced, next_generation};
use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_exchange::binder::Bound;
use stoop_exchange::outcome::{Unbound, Verdict};
use stoop_exchange::retry::RetryBudget;
use stoop_marshal::{GatherList, Reader, Writer};
use stoop_net::clock;
use stoop_shm::{InPlace, Number};
use stoop_wire::Refused;

/// A transport to servers in other processes.
pub(crate) trait Remote: Sized + 'static {
    /// Where a server listens.
    type Address: Clone + Display + Send + Sync;
    /// The options of this transport.
    type Options: TransportOptions;
    /// The session that a server has granted at one time.
    type Session: Generation + Send + Sync;
    /// The lane with which a thread makes calls.
    type Lane: RemoteLane<Self> + Send;

    /// The addresses of sockets for which the target's address stands, at least one; by `deadline`, unless the system's resolver is asked,
    /// which knows none.
    ///
    /// # Errors
    /// The name is unknown.
    fn resolve(target: &Target<'_>, deadline: Instant) -> io::Result<Vec<Self::Address>>;

    /// Whether the target's address is a name, which may stand for other addresses later, and a binding with these options can follow it.
    fn may_move(target: &Target<'_>, own: &Self::Options) -> bool {
        let _ = (target, own);
        false
    }

    /// Binds to the server at an address. `replaced`: the session that was lost, if there was one. Returns also a lane of the session,
    /// if binding has made one.
    ///
    /// # Errors
    /// There is no session by `deadline`, or there can be none.
    fn connect(
        plan: &Plan<'_, Self>,
        deadline: Instant,
        replaced: Option<Replaced<'_, Self::Session>>,
    ) -> Result<Connected<Self>, NotBound>;

    /// As [`Binding::describe`].
    fn describe(plan: &Plan<'_, Self>, session: &Self::Session) -> String;

    /// As [`Binding::describe_buffers`].
    fn describe_buffers(_: &Self::Session) -> String {
        "; buffers are copied, because only `shm:` shares memory with the server".into()
    }

    /// As [`Binding::describe_checksums`].
    const CHECKSUMS: &'static str;

    /// What the server has granted.
    fn bound(session: &Self::Session) -> &Bound;

    /// As [`Binding::offers`].
    fn offers(session: &Self::Session) -> String {
        let _ = session;
        String::new()
    }

    /// As [`Binding::incarnation`].
    fn incarnation(session: &Self::Session) -> u64 {
        let _ = session;
        0
    }

    /// Adds what the session has counted, apart from its lanes.
    fn count(session: &Self::Session, counters: &mut CallCounters) {
        let _ = (session, counters);
    }

    /// As [`Binding::in_place`].
    fn in_place<T: Number>(binding: &RemoteBinding<Self>, len: usize) -> Result<InPlace<T>, InPlaceError> {
        let _ = binding;
        Ok(InPlace::private(len))
    }

    /// The server of a session shuts down: it finishes the calls that it has, and refuses others.
    fn note_closing(session: &Self::Session) {
        let _ = session;
    }

    /// The binding ends, and no call of it is left. Ends of pipes which have ended may keep the session for longer.
    fn close(_: &Self::Session) {}

    /// Tells the server that the binding ends, where the end of a connection does not. `lane`: any of the binding's.
    fn unbind(_: &Self::Session, _: &Self::Lane) {}
}

/// A session, and a lane if binding has made one.
pub(crate) type Connected<R> = (Arc<<R as Remote>::Session>, Option<<R as Remote>::Lane>);

/// The parts of a session.
pub(crate) struct Plan<'a, R: Remote> {
    pub(crate) interface: &'static Interface,
    /// The whole address, for error texts.
    pub(crate) uri: &'a str,
    pub(crate) address: &'a R::Address,
    pub(crate) options: &'a BindOptions,
    pub(crate) own: &'a R::Options,
}

/// The lane of a thread.
pub(crate) trait RemoteLane<R: Remote>: Counted + Sized {
    /// Whether large arguments can stay where the caller has them, and large results be placed there.
    const CAN_GATHER: bool = false;

    /// Makes a lane of a session, for a call that may take `timeout_ns` from now on.
    ///
    /// # Errors
    /// The call for which the lane is made has not run.
    fn new(plan: &Plan<'_, R>, session: Arc<R::Session>, timeout_ns: u64) -> Result<Self, CallError>;

    fn session(&self) -> &Arc<R::Session>;

    /// Prepares the lane for the thread's next call. `false`: it first goes over to the present session, which has that generation.
    fn prepare(&self, generation: u64) -> bool;

    /// Goes over to another session, whose server is at the plan's address. `false`: that has no lane for it.
    fn adopt(&mut self, plan: &Plan<'_, R>, session: Arc<R::Session>) -> bool;

    /// The writer of arguments of at most `limit` bytes.
    fn arguments(&mut self, limit: usize) -> Writer<'_>;

    /// When a call begins that is made now, and its deadline; `None` if that has passed.
    #[inline]
    fn begin(timeout_ns: u64) -> Option<CallTimes> {
        CallTimes::begin(timeout_ns)
    }

    /// Makes a call on the lane's session, and waits until it has ended. `IS_TIMED`: its result is to tell how long it was at the
    /// server, and the lane [observes](Self::observed) it.
    ///
    /// # Errors
    /// There is no result.
    fn attempt<const IS_TIMED: bool>(
        &mut self,
        times: CallTimes,
        procedure: u16,
        len: usize,
        gather: &mut GatherList<'_, '_>,
    ) -> Result<(), Ended>;

    /// As [`attempt`](Self::attempt) of a call that is not timed, with arguments that `write` writes for the lane's session.
    ///
    /// # Errors
    /// There is no result.
    fn attempt_with_buffers(
        &mut self,
        times: CallTimes,
        procedure: u16,
        limit: usize,
        write: &mut WriteArguments<'_>,
    ) -> Result<(), Ended> {
        let mut arguments = self.arguments(limit);
        write(&mut arguments, &mut SharedBuffers::new(None, &mut NamedRanges::default()));
        let written = arguments.finish();
        let len = written.map_err(|why| Ended::With(CallError::not_sent(SendError::Arguments(why))))?;
        self.attempt::<false>(times, procedure, len, &mut GatherList::none())
    }

    /// How the last attempt was lost.
    fn loss(&self) -> Loss;

    /// Whether the last attempt, which was made at `sent_ns` and refused like this, is repeated on `session`.
    fn judge(&self, sent_ns: u64, refusal: Unbound, session: &R::Session, idempotent: bool) -> Verdict {
        let _ = (sent_ns, refusal, session, idempotent);
        Verdict::Unknown
    }

    fn result(&self) -> &[u8];

    /// The call packet, and where the arguments begin in it, while they are in it.
    fn call_packet(&mut self) -> (&mut Vec<u8>, usize);

    /// Takes so many bytes off the end of the result.
    fn shorten_result(&mut self, by: usize);

    /// As [`Lane::scattered`].
    fn scattered(&self) -> Option<Reader<'_>> {
        None
    }

    /// As [`Lane::has_shared`].
    fn has_shared<T: Number>(&self, buffer: &InPlace<T>) -> bool {
        let _ = buffer;
        false
    }

    /// Whether a procedure may have changed buffers that the present call names.
    fn are_buffers_changed(&self) -> bool {
        false
    }

    /// The call that named buffers has ended.
    fn release_buffers(&mut self) {}

    /// What the lane has observed of the timed [attempt](Self::attempt) that has just ended with a result.
    fn observed(&mut self) -> Observed;

    /// How long ago the last packet of the result that has just been taken reached this machine, in nanoseconds, if that is known.
    fn age_of_result_ns(&self) -> Option<u64> {
        None
    }

    /// Whether only a share of the calls is recorded, because reading the clock takes long in comparison with a call.
    const IS_SAMPLED: bool = false;

    /// Counts a call of a binding that keeps an account. Returns whether it is one of the share that is recorded.
    #[inline(always)]
    fn is_due(&mut self) -> bool {
        true
    }

    /// For how many calls the present one stands, which has been [counted](Self::is_due): itself, and those before it that were not
    /// recorded. It is recorded if it is due, or taken apart into its steps; 0: it is not.
    fn stands_for(&mut self, _is_taken_apart: bool) -> u32 {
        1
    }
}

/// The times of a call that has ended with a result, in nanoseconds.
pub(crate) struct Observed {
    /// When the lane had the result.
    pub(crate) ended_ns: u64,
    /// How long the call was at the server; `None` if its result does not tell.
    pub(crate) server_ns: Option<u64>,
}

/// A binding to a server in another process.
pub(crate) struct RemoteBinding<R: Remote> {
    pub(crate) interface: &'static Interface,
    pub(crate) uri: String,
    pub(crate) options: BindOptions,
    pub(crate) own: R::Options,
    name: Option<Name<R>>,
    care: Care,
    pub(crate) recorder: Option<Recorder>,
    sessions: Sessions<Located<R>>,
    lanes: Lanes<R::Lane>,
    retries: Mutex<RetryBudget>,
    /// Begun calls that have left, as far as the budget knows of them.
    begun: AtomicU64,
}

impl<R: Remote> RemoteBinding<R> {
    /// Binds to a server, by the first of its addresses at which one listens.
    pub(crate) fn bind(target: &Target<'_>, deadline: Instant) -> Result<Self, NotBound> {
        let Target { interface, uri, options, .. } = *target;
        let own: R::Options = options.own.of();
        let unreachable = |cause| BindError::Unreachable { server: uri.into(), cause };
        let addresses = R::resolve(target, deadline).map_err(unreachable)?;
        let terms = Terms { interface, uri, options, own: &own };
        let (located, lane) = located::connect_to_any(&terms, addresses, deadline, None)?;
        let name = R::may_move(target, &own).then(|| Name::new(target));
        let (sessions, lanes) = (Sessions::new(Arc::new(located)), Lanes::keeping_memory());
        // No other thread has the lanes yet.
        if let Some(mut slot) = lanes.try_hold() {
            *slot = lane;
        }
        let recorder = options.account.as_ref().map(|account| Recorder::new(interface, uri, account));
        let interceptors = ClientChain::new(&options.interceptors, interface, uri);
        let (uri, options) = (uri.to_owned(), options.once_bound());
        let care = Care::new(recorder.is_some(), interceptors);
        let (retries, begun) = (Mutex::new(options.new_retry_budget()), AtomicU64::new(0));
        Ok(Self { interface, uri, options, own, name, care, recorder, sessions, lanes, retries, begun })
    }

    fn terms(&self) -> Terms<'_, R> {
        let Self { interface, uri, options, own, .. } = self;
        Terms { interface, uri, options, own }
    }

    /// The plan of sessions and lanes at the address of a session.
    fn plan<'a>(&'a self, located: &'a Located<R>) -> Plan<'a, R> {
        self.terms().at(&located.address)
    }

    /// The ends of the pipes of a call; they count their items if the binding keeps an account.
    pub(crate) fn counted(&self, procedure: u16, ends: Ends) -> Ends {
        Recorder::counted(self.recorder.as_ref(), procedure, ends)
    }

    /// The present session.
    pub(crate) fn present(&self) -> Arc<R::Session> {
        Arc::clone(&self.located().session)
    }

    /// The present session, and the address of its server.
    pub(crate) fn located(&self) -> Arc<Located<R>> {
        self.sessions.present()
    }

    /// The generation of the present session.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.sessions.generation()
    }

    /// Whether the procedure of that number may run more than once for one call.
    pub(crate) fn is_idempotent(&self, procedure: u16) -> bool {
        self.interface.procedures[usize::from(self.interface.base(procedure))].idempotent
    }

    /// As [`RetryBudget::wait`]. The budget knows of all calls that have left but so many.
    fn wait_with(&self, more: u64, refused: Refused, attempts: u32, left: Duration) -> Option<Duration> {
        let calls = self.lanes.counters().calls + self.begun.load(Ordering::Relaxed) + more;
        locked(&self.retries).wait(calls, refused, attempts, left)
    }

    /// As [`RetryBudget::wait`], for a begun call; `left`: how many begun calls of the binding have left so far, each counted as often as
    /// it did.
    #[cold]
    pub(crate) fn wait_after_begun(
        &self,
        left: u64,
        refused: Refused,
        attempts: u32,
        deadline: Instant,
    ) -> Option<Duration> {
        self.begun.fetch_max(left, Ordering::Relaxed);
        let left = deadline.since(Instant::from_nanos(clock::now_ns()));
        self.wait_with(0, refused, attempts, left)
    }

    /// Binds again, unless another thread has done so since `lost` was lost. `refusal`: how the server has refused a call on it. A name
    /// is resolved again.
    pub(crate) fn rebind(
        &self,
        lost: &R::Session,
        refusal: Option<Unbound>,
        deadline: Instant,
    ) -> Result<Arc<R::Session>, BindError> {
        self.rebind_at(lost, refusal, deadline, |before, deadline| self.addresses(before, deadline))
    }

    /// As [`rebind`](Self::rebind), to the first of these addresses at which a server listens. `addresses` gets the address of the
    /// session that was lost, and a deadline.
    fn rebind_at(
        &self,
        lost: &R::Session,
        refusal: Option<Unbound>,
        deadline: Instant,
        addresses: impl Fn(&R::Address, Instant) -> Vec<R::Address>,
    ) -> Result<Arc<R::Session>, BindError> {
        let bind = |deadline| {
            let replaced = Replaced { session: lost, refusal };
            let addresses = addresses(&self.located().address, deadline);
            let connected = located::connect_to_any(&self.terms(), addresses, deadline, Some(replaced));
            connected.map(|(located, _)| Arc::new(located)).map_err(|not_bound| not_bound.error)
        };
        let (generation, longest) = (lost.generation(), self.options.time_to_bind());
        let patient = |deadline| patience::bind(&self.options, deadline, &self.sessions.attempts, bind);
        let located = self.sessions.replace(generation, &self.uri, deadline, longest, patient)?;
        Ok(Arc::clone(&located.session))
    }

    /// Makes the thread's lane, or moves it to the present session. `guard`: none if the calling thread holds its own slot already.
    #[cold]
    #[inline(never)]
    fn hold_renewed<'a>(
        &'a self,
        guard: Option<LaneGuard<'a, R::Lane>>,
        timeout_ns: u64,
    ) -> Result<HeldLane<'a, R>, CallError> {
        let mut guard = guard
            .or_else(|| self.lanes.hold_another(timeout_ns))
            .ok_or(CallError::not_sent(SendError::DeadlinePassed))?;
        if !guard.as_ref().is_some_and(|lane| lane.prepare(self.generation())) {
            let located = self.located();
            let (plan, session) = (self.plan(&located), Arc::clone(&located.session));
            match &mut *guard {
                None => {
                    let begun_ns = clock::now_ns();
                    *guard = Some(R::Lane::new(&plan, session, guard.timeout_ns())?);
                    guard.spend(clock::now_ns().saturating_sub(begun_ns));
                }
                // Where the session has no lane for it, the call ends on the old one and tries again.
                Some(lane) => drop(lane.adopt(&plan, session)),
            }
        }
        Ok(HeldLane { binding: self, guard })
    }
}

impl<R: Remote> Binding for RemoteBinding<R> {
    type Lane<'a> = HeldLane<'a, R>;

    #[inline]
    fn hold(&self, timeout_ns: u64) -> Result<HeldLane<'_, R>, CallError> {
        match self.lanes.hold_own(timeout_ns) {
            Some(guard) if guard.as_ref().is_some_and(|lane| lane.prepare(self.generation())) => {
                Ok(HeldLane { binding: self, guard })
            }
            guard => self.hold_renewed(guard, timeout_ns),
        }
    }

    fn callee(&self, procedure: u16) -> Callee {
        Callee::new(self.interface, procedure, &self.uri)
    }

    fn describe(&self) -> String {
        let located = self.located();
        R::describe(&self.plan(&located), &located.session)
    }

    fn describe_buffers(&self) -> String {
        R::describe_buffers(&self.present())
    }

    fn describe_checksums(&self) -> &'static str {
        R::CHECKSUMS
    }

    fn counters(&self) -> CallCounters {
        let mut counters = self.lanes.counters();
        R::count(&self.present(), &mut counters);
        counters
    }

    fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    fn metadata_max(&self) -> usize {
        R::bound(&self.present()).metadata as usize
    }

    fn form(&self, procedure: u16) -> Option<u16> {
        match self.sessions.has_forms() {
            true => R::bound(&self.present()).form(procedure),
            false => Some(procedure),
        }
    }

    fn offers(&self) -> String {
        R::offers(&self.present())
    }

    fn incarnation(&self) -> u64 {
        R::incarnation(&self.present())
    }

    fn in_place<T: Number>(&self, len: usize) -> Result<InPlace<T>, InPlaceError> {
        R::in_place(self, len)
    }
}

impl<R: Remote> Drop for RemoteBinding<R> {
    fn drop(&mut self) {
        let session = self.sessions.present();
        self.lanes.with_any(|lane| R::unbind(&session.session, lane));
        R::close(&session.session);
    }
}
