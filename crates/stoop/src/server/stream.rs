//! Calls that arrive over byte streams: TCP and Unix sockets.
//!
//! One endpoint for a listener and all its connections. While its receiver spins, it looks at the connection that was
//! last active and only now and then at the others; when it sleeps, it waits for all of them, or, while only one is
//! there and busy, briefly for that one alone, which saves asking the poller.

mod call;
mod connection;
mod incoming;
mod outgoing;
mod reception;

use super::ServerCounters;
use super::crew::Endpoint;
use super::dispatch::Exports;
use crate::bind::Waiting;
use crate::uri::Uri;
use call::StreamCall;
use connection::Connection;
use reception::{END, LISTENER, PENDING, Reception};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use stoop_exchange::Interfaces;
use stoop_exchange::stream::Intake;
use stoop_net::clock;
use stoop_net::host::{self, HostFacts};
use stoop_net::poller::{Events, Interest, Waker};
use stoop_net::stream::StreamAddress;
pub(super) use stoop_net::stream::StreamListener;
use stoop_net::udp::resolve;
use stoop_net::waiting::{Company, Crowd, MachineCosts, Member, Present, Wait};
use stoop_wire::{MAX_DATAGRAM, RefusalCode};

/// A listener, its connections, and the calls that have arrived on them.
pub(super) struct StreamEndpoint {
    reception: Reception,
    exports: Arc<Exports>,
    interfaces: Interfaces,
    own: HostFacts,
    incarnation: u64,
    message_max: usize,
    waiting: Waiting,
    spinners_max: u32,
    /// Calls that arrived together with one that runs now.
    pending: Mutex<VecDeque<StreamCall>>,
    pending_count: AtomicUsize,
    /// Calls that have arrived and are not answered.
    active: AtomicUsize,
    shutting_down: AtomicBool,
    /// Guards nothing: for whoever waits until all is answered and sent.
    quiet: Mutex<()>,
    ended: Condvar,
    /// Buffers of calls and results.
    spares: Mutex<Vec<Vec<u8>>>,
    /// Tells whoever waits that there are pending calls.
    has_pending: Waker,
    /// Ends all waiting.
    end: Waker,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    refused: AtomicU64,
    malformed: AtomicU64,
    bindings: AtomicU64,
}

/// A worker's buffers and way of waiting.
pub(super) struct Desk {
    /// Where the next call goes.
    packet: Vec<u8>,
    result: Vec<u8>,
    events: Option<Events>,
    /// The connection that was last active. Not held: one that is closed must go, for only then is its peer told that
    /// nobody will read what it still sends.
    hot: Weak<Connection>,
    /// The first call that was found.
    found: Option<StreamCall>,
    /// Looks at the hot connection alone since the poller was last asked, and when that was.
    looks: u32,
    asked_ns: u64,
    wait: Wait,
    /// Of a worker: the housekeeper never waits.
    crowd: Option<Member<'static>>,
    together: bool,
    /// It waits in this receive, and so will come back for what is pending.
    patient: bool,
    /// When this worker last looked at the clock.
    clock_ns: u64,
}

/// Looks of a spinning receiver at the last active connection before it looks at all, a fifth of a microsecond each:
/// while there are others, and while only the listener could have something.
const LOOKS_AMONG_OTHERS: u32 = 16;
const LOOKS_ALONE: u32 = 256;
/// Time for which a connection alone may keep the others waiting.
const ALONE: Duration = Duration::from_millis(2);
/// Connections told at once.
const EVENTS: usize = 32;
/// Buffers kept for calls and results, and bytes of the largest.
const SPARES: usize = 16;
const SPARE_MAX: usize = 4 << 20;
/// How long a server that shuts down waits for callers to take their results.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);

/// Listens at an address. Returns it with the port that was chosen.
pub(super) fn listen(to: &Uri) -> io::Result<(String, StreamListener)> {
    let address = match to {
        Uri::Tcp(host_and_port) => StreamAddress::Tcp(resolve(host_and_port)?[0]),
        Uri::Unix(name) => StreamAddress::unix(name),
        Uri::Udp(_) | Uri::Local(_) => unreachable!("only byte streams come here"),
    };
    let listener = StreamListener::bind(&address)?;
    Ok((listener.local_addr().to_string(), listener))
}

impl StreamEndpoint {
    pub(super) fn new(
        listener: StreamListener,
        exports: Arc<Exports>,
        waiting: Waiting,
        message_max: usize,
    ) -> io::Result<Self> {
        let own = HostFacts::gather();
        let reception = Reception::new(listener, message_max)?;
        let (has_pending, end) = (Waker::new()?, Waker::new()?);
        reception.poller.add(&has_pending, PENDING, Interest::READ)?;
        reception.poller.add(&end, END, Interest::READ)?;
        Ok(Self {
            reception,
            interfaces: exports.interfaces(),
            exports,
            spinners_max: Company::of(&own, &own).waiting_max,
            own,
            incarnation: u64::from_le_bytes(host::random_bytes()),
            message_max,
            waiting,
            pending: Mutex::default(),
            pending_count: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            shutting_down: AtomicBool::new(false),
            quiet: Mutex::new(()),
            ended: Condvar::new(),
            spares: Mutex::default(),
            has_pending,
            end,
            counts: Counts::default(),
        })
    }

    /// From now on nothing new is begun.
    pub(super) fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::SeqCst);
        self.reception.shut_down();
    }

    /// Waits until every call has been answered, and for a while until callers have taken the answers.
    pub(super) fn drain(&self) {
        let quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        let is_active = |_: &mut ()| self.active.load(Ordering::SeqCst) > 0;
        let quiet = self.ended.wait_while(quiet, is_active).unwrap_or_else(PoisonError::into_inner);
        let is_unflushed =
            |_: &mut ()| !self.reception.all().iter().all(|connection| connection.is_flushed());
        // Whoever does not take its results now will find the connection closed.
        let _ = self.ended.wait_timeout_while(quiet, FLUSH_LIMIT, is_unflushed);
    }

    /// Something that [`drain`](Self::drain) may wait for has happened.
    fn announce_end(&self) {
        if self.shutting_down.load(Ordering::SeqCst) {
            drop(self.quiet.lock().unwrap_or_else(PoisonError::into_inner));
            self.ended.notify_all();
        }
    }

    pub(super) fn counters(&self) -> ServerCounters {
        ServerCounters {
            calls: self.counts.calls.load(Ordering::Relaxed),
            duplicates: 0,
            refused: self.counts.refused.load(Ordering::Relaxed),
            malformed: self.counts.malformed.load(Ordering::Relaxed),
            bindings: self.counts.bindings.load(Ordering::Relaxed),
        }
    }

    fn spares(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn spare(&self) -> Vec<u8> {
        self.spares().pop().unwrap_or_default()
    }

    fn keep_spare(&self, spare: Vec<u8>) {
        let mut spares = self.spares();
        if spares.len() < SPARES && !spare.is_empty() && spare.len() <= SPARE_MAX {
            spares.push(spare);
        }
    }

    fn close(&self, connection: &Connection) {
        if self.reception.close(connection) {
            if connection.was_bound() {
                self.counts.bindings.fetch_sub(1, Ordering::Relaxed);
            }
            self.announce_end();
        }
    }

    /// The peer broke the protocol.
    #[cold]
    fn close_malformed(&self, connection: &Connection) {
        self.counts.malformed.fetch_add(1, Ordering::Relaxed);
        self.close(connection);
    }

    #[inline]
    fn next_pending(&self) -> Option<StreamCall> {
        if self.pending_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.pop_pending()
    }

    fn pending(&self) -> MutexGuard<'_, VecDeque<StreamCall>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn pop_pending(&self) -> Option<StreamCall> {
        let mut pending = self.pending();
        let call = pending.pop_front();
        self.pending_count.store(pending.len(), Ordering::Release);
        call
    }

    /// A call has arrived. The first is served by whoever found it, the others by whoever comes next.
    #[inline]
    fn take(&self, desk: &mut Desk, call: StreamCall) {
        if desk.found.is_none() {
            desk.keep_company(call.together, self.spinners_max);
            desk.found = Some(call);
            return;
        }
        let mut pending = self.pending();
        pending.push_back(StreamCall { deferred: true, ..call });
        self.pending_count.store(pending.len(), Ordering::Release);
        if !desk.patient {
            // The housekeeper may have lost the role meanwhile to a worker that waits already.
            self.has_pending.wake();
        }
    }

    /// Looks at the connection that was last active, if that one is to be looked at.
    #[inline]
    fn look_at_hot(&self, desk: &mut Desk, limit_ns: u64) {
        desk.looks = desk.looks.saturating_add(1);
        let is_open = desk.hot.upgrade().is_some_and(|hot| self.read(desk, &hot, limit_ns));
        if !is_open {
            desk.looks = u32::MAX;
        }
    }

    #[inline]
    fn looks_max(&self) -> u32 {
        if self.reception.count() > 1 { LOOKS_AMONG_OTHERS } else { LOOKS_ALONE }
    }

    /// Asks the poller, and does what it tells.
    fn ask(&self, desk: &mut Desk, limit: Option<Duration>) {
        let mut events = desk.events.take().unwrap_or_else(|| Events::with_capacity(EVENTS));
        // Fails for no reason that waiting again would not show.
        let _ = self.reception.poller.wait(&mut events, limit);
        (desk.looks, desk.asked_ns) = (0, clock::now_ns());
        for ready in events.iter() {
            match ready.token {
                LISTENER => self.reception.accept(),
                PENDING => drop(self.has_pending.drain()),
                END => {}
                token => {
                    // Closed by another since the poller told it.
                    let Some(connection) = self.reception.find(token) else { continue };
                    if ready.writable {
                        self.flush(&connection);
                    }
                    if ready.readable && self.read(desk, &connection, 0) {
                        desk.hot = Arc::downgrade(&connection);
                    }
                }
            }
        }
        desk.events = Some(events);
    }

    /// There is room to send on a connection.
    fn flush(&self, connection: &Connection) {
        let mut left = Vec::new();
        match connection.flush(&self.reception.poller, &mut left) {
            Ok(true) => self.announce_end(),
            Ok(false) => {}
            Err(_) => self.close(connection),
        }
        left.into_iter().for_each(|packet| self.keep_spare(packet));
    }

    /// Sleeps until something happens.
    fn sleep(&self, desk: &mut Desk) {
        let limit = self.reception.sleep_limit();
        if limit.is_none() && self.may_wait_for_hot_alone(desk) {
            return self.look_at_hot(desk, ALONE.as_nanos() as u64);
        }
        self.ask(desk, limit);
    }

    /// Whether nothing can happen but on the last active connection, or so rarely that it may wait a little. Nobody
    /// else is at work whose result could find the connection full.
    fn may_wait_for_hot_alone(&self, desk: &Desk) -> bool {
        let alone_ns = ALONE.as_nanos() as u64;
        desk.hot.upgrade().is_some_and(|hot| !hot.is_closed() && hot.is_flushed())
            && self.reception.count() == 1
            && self.active.load(Ordering::Relaxed) == 0
            && desk.clock_ns.saturating_sub(desk.asked_ns) < alone_ns
            && !self.shutting_down.load(Ordering::Relaxed)
    }
}

impl Endpoint for StreamEndpoint {
    type Call = StreamCall;
    type Desk = Desk;

    fn desk(&self) -> Desk {
        let company = Company { together: true, waiting_max: self.spinners_max };
        Desk {
            packet: vec![0; Intake::BUFFER_LEN],
            result: vec![0; MAX_DATAGRAM],
            events: None,
            hot: Weak::new(),
            found: None,
            looks: u32::MAX,
            asked_ns: 0,
            wait: Wait::new(self.waiting, MachineCosts::of_this_machine(), company),
            crowd: None,
            together: true,
            patient: false,
            clock_ns: clock::now_ns(),
        }
    }

    #[inline]
    fn receive(&self, desk: &mut Desk, patient: bool, stopping: &AtomicBool) -> Option<StreamCall> {
        let pending = self.next_pending();
        if pending.is_some() {
            return pending;
        }
        desk.patient = patient;
        if !patient {
            self.ask(desk, Some(Duration::ZERO));
            return desk.found.take();
        }
        let crowd = Crowd::of_this_process();
        let mut spinner = desk.begin_waiting(crowd);
        loop {
            if spinner.is_none() {
                self.sleep(desk);
            } else if desk.looks < self.looks_max() {
                self.look_at_hot(desk, 0);
            } else {
                self.ask(desk, Some(Duration::ZERO));
            }
            if let Some(call) = desk.found.take().or_else(|| self.next_pending()) {
                desk.wait.arrived(desk.clock_ns);
                return Some(call);
            }
            if stopping.load(Ordering::Relaxed) {
                return None;
            }
            desk.clock_ns = clock::now_ns();
            if spinner.is_some() && !desk.wait.keeps_spinning(desk.clock_ns, crowd.waiting()) {
                spinner = None;
                desk.wait.sleeps(desk.clock_ns);
            }
        }
    }

    #[inline]
    fn takes_long(&self, call: &StreamCall) -> bool {
        self.exports.takes_long(call.interface, call.procedure)
    }

    #[inline]
    fn run(&self, desk: &mut Desk, mut call: StreamCall) -> Option<StreamCall> {
        self.answer(desk, &mut call);
        let packet = std::mem::take(&mut call.packet);
        match desk.packet.is_empty() && packet.len() == Intake::BUFFER_LEN {
            true => desk.packet = packet,
            false => self.give_back(&call.connection, packet),
        }
        self.finish();
        None
    }

    fn refuse(&self, call: StreamCall, code: RefusalCode) -> Option<StreamCall> {
        self.send_refusal(&call.connection, &call.header, code, "");
        self.give_back(&call.connection, call.packet);
        self.finish();
        None
    }

    fn defer(&self, call: &mut StreamCall) {
        call.deferred = true;
    }

    fn next_timeout_ns(&self) -> u64 {
        u64::MAX
    }

    fn handle_timeout(&self, _now_ns: u64) {}

    fn wake(&self) {
        self.end.wake();
    }
}

impl Desk {
    /// A wait for the next call begins. Returns the presence of one that spins, nothing of one that sleeps.
    #[inline]
    fn begin_waiting<'a>(&mut self, crowd: &'a Crowd) -> Option<Present<'a>> {
        let present = self.crowd.get_or_insert_with(|| Crowd::of_this_process().member()).wait();
        if self.wait.begin(self.clock_ns, crowd.waiting()) > 0 {
            return Some(present);
        }
        self.wait.sleeps(self.clock_ns);
        None
    }

    /// The latest caller is the likeliest to call next.
    #[inline]
    fn keep_company(&mut self, together: bool, waiting_max: u32) {
        if self.together != together {
            self.together = together;
            self.wait.set_company(Company { together, waiting_max });
        }
    }
}
