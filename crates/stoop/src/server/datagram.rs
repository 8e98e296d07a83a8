//! Calls that arrive over UDP.

use super::ServerCounters;
use super::crew::{Endpoint, Housekeeper};
use super::dedicated::{Dedicated, Dedication, LOOKS, Reason};
use super::dispatch::{Exports, Outcome, Terms};
use crate::context::Caller;
use crate::context::cancelled::CallId;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use stoop_exchange::Instant;
use stoop_exchange::server::{Arrival, Assignment, Limits, Next, Peer, Server};
use stoop_net::clock;
use stoop_net::host::{self, HostFacts};
use stoop_net::udp::{self, CallerArrival, Patience, ServerArrival, ServerSocket};
use stoop_net::waiting::{Company, Crowd, MachineCosts, Member, Wait, Waiting};
use stoop_wire::{HEADER_LEN, MAX_DATAGRAM, PACKET_DATA, RefusalCode};

/// A UDP socket and the server's half of the exchange.
pub(super) struct DatagramEndpoint {
    socket: ServerSocket,
    exports: Arc<Exports>,
    exchange: Mutex<Server<From>>,
    /// Notified when a call has ended while the server shuts down.
    ended: Condvar,
    shutting_down: AtomicBool,
    /// The exchange's next timeout, so that the housekeeper need not ask under the lock.
    next_timeout_ns: AtomicU64,
    waiting: Waiting,
    spinners_max: u32,
    dedication: Dedication,
    housekeeper: OnceLock<Arc<Housekeeper>>,
    /// Datagrams longer than any packet.
    too_large: AtomicU64,
}

/// A peer as the exchange sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct From(udp::Peer);

impl Peer for From {
    #[inline]
    fn host(&self) -> [u8; 16] {
        match self.0.addr().ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        }
    }

    fn port(&self) -> u16 {
        self.0.addr().port()
    }
}

/// A call with the packet that brought it.
pub(super) struct DatagramCall {
    assignment: Assignment<From>,
    packet: Vec<u8>,
    /// It did not run as soon as it arrived.
    deferred: bool,
    /// It came in by the dedicated socket of so many changes, and its answer can go out there as long as that is the one.
    dedicated: Option<u64>,
}

/// A worker's buffers and way of waiting.
pub(super) struct Desk {
    packet: Vec<u8>,
    reply: Vec<u8>,
    wait: Wait,
    /// Of a worker: the housekeeper never waits.
    crowd: Option<Member<'static>>,
    together: bool,
    /// When this worker last looked at the clock.
    clock_ns: u64,
    /// The dedicated socket, as of that many changes.
    dedicated: Option<Arc<Dedicated>>,
    changes: u64,
    /// Looks at it since the address's own socket was looked at.
    looks: u32,
    /// Whose call was the last that came in by the address's own socket, and how many before it were the same lane's.
    latest: Option<SocketAddr>,
    calls_in_a_row: u32,
}

/// What a look at the sockets brought.
enum Seen {
    /// So many bytes, in the desk's packet, of that peer; from the dedicated socket of so many changes, if from one.
    Packet(usize, udp::Peer, Option<u64>),
    /// Nothing, or nothing that counts.
    Nothing,
}

impl DatagramEndpoint {
    pub(super) fn new(socket: ServerSocket, exports: Arc<Exports>, limits: Limits, waiting: Waiting) -> Self {
        let own = HostFacts::gather();
        let random = host::random_bytes::<16>();
        let half = |at: usize| u64::from_le_bytes(random[at..at + 8].try_into().expect("eight bytes"));
        Self {
            exchange: Mutex::new(Server::new(
                exports.interfaces(),
                limits,
                crate::to_wire(&own),
                [half(0), half(8)],
            )),
            socket,
            exports,
            ended: Condvar::new(),
            shutting_down: AtomicBool::new(false),
            next_timeout_ns: AtomicU64::new(u64::MAX),
            waiting,
            spinners_max: Company::of(&own, &own).waiting_max,
            dedication: Dedication::default(),
            housekeeper: OnceLock::new(),
            too_large: AtomicU64::new(0),
        }
    }

    #[inline]
    fn exchange(&self) -> MutexGuard<'_, Server<From>> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A packet that is not sent is like one that is lost: its receiver asks again.
    fn send(&self, packet: &[u8], peer: &From) {
        let _ = self.socket.send(packet, &peer.0);
    }

    /// Takes a datagram; returns the call that it brings.
    #[inline]
    fn take(
        &self,
        desk: &mut Desk,
        len: usize,
        peer: udp::Peer,
        dedicated: Option<u64>,
    ) -> Option<DatagramCall> {
        let peer = From(peer);
        let now = Instant::from_nanos(desk.clock_ns);
        let mut exchange = self.exchange();
        match exchange.handle_packet(now, peer, &desk.packet[..len], &mut desk.reply) {
            Arrival::Run(assignment) => {
                drop(exchange);
                let packet = std::mem::take(&mut desk.packet);
                Some(DatagramCall { assignment, packet, deferred: false, dedicated })
            }
            Arrival::Reply => {
                let next = exchange.next_timeout().as_nanos();
                let sooner = self.next_timeout_ns.swap(next, Ordering::SeqCst) > next;
                drop(exchange);
                if sooner {
                    // The first binding: it may never be used, and nobody else would look at it.
                    self.rouse_housekeeper();
                }
                self.send(&desk.reply, &peer);
                None
            }
            Arrival::Nothing => None,
        }
    }

    /// Gives an answered call back to the exchange. Returns the call of the same lane that has waited for it.
    #[inline]
    fn finish(&self, now: Instant, assignment: Assignment<From>) -> Option<DatagramCall> {
        let next = self.exchange().finish(now, assignment);
        if self.shutting_down.load(Ordering::Relaxed) {
            self.ended.notify_all();
        }
        match next {
            Next::Nothing => None,
            Next::Run(assignment, packet) => {
                Some(DatagramCall { assignment, packet: packet.into_vec(), deferred: true, dedicated: None })
            }
            Next::Reply(peer, packet) => {
                self.send(&packet, &peer);
                None
            }
        }
    }

    /// Runs a call's procedure and sends its answer.
    #[inline]
    fn answer(&self, call: &mut DatagramCall, desk: &mut Desk) {
        let DatagramCall { assignment, packet, deferred, dedicated } = call;
        let begun_ns = if *deferred { clock::now_ns() } else { desk.clock_ns };
        let peer = assignment.peer;
        if assignment.deadline.as_nanos() <= begun_ns {
            return self.send(assignment.refuse(RefusalCode::DeadlinePassed, ""), &peer);
        }
        let terms = Terms {
            deadline_ns: assignment.deadline.as_nanos(),
            caller: Caller::Network(peer.0.addr()),
            call: CallId::NONE,
            result_max: PACKET_DATA,
            lendable: PACKET_DATA,
        };
        let (interface, procedure) = (assignment.interface, assignment.procedure);
        // What follows the arguments is padding.
        let arguments = &packet[HEADER_LEN..HEADER_LEN + assignment.arguments_len];
        let outcome = self.exports.run(interface, procedure, arguments, assignment.packet_mut(), terms);
        desk.clock_ns = clock::now_ns();
        self.exports.took(interface, procedure, desk.clock_ns - begun_ns);
        let answer = match outcome {
            Outcome::Result(len) => assignment.complete(Instant::from_nanos(desk.clock_ns), len),
            Outcome::Refused(code, detail) => assignment.refuse(code, &detail),
            Outcome::NoRoom(needed) => {
                let (code, detail) = Outcome::refused_for_room(needed, PACKET_DATA);
                assignment.refuse(code, &detail)
            }
            Outcome::Failed(code, detail) => assignment.fail(code, &detail),
        };
        match &desk.dedicated {
            // Not sent is like lost.
            Some(own) if *dedicated == Some(desk.changes) && desk.changes == self.dedication.changes() => {
                drop(own.socket.send(answer));
            }
            _ => self.send(answer, &peer),
        }
    }

    /// From now on nothing new is begun.
    pub(super) fn shut_down(&self) {
        self.shutting_down.store(true, Ordering::SeqCst);
        self.exchange().shut_down();
    }

    /// Waits until every call has been answered.
    pub(super) fn drain(&self) {
        let running = self.ended.wait_while(self.exchange(), |exchange| exchange.running() > 0);
        drop(running.unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn counters(&self) -> ServerCounters {
        let exchange = self.exchange();
        let counters = exchange.counters();
        ServerCounters {
            calls: counters.calls,
            duplicates: counters.duplicates,
            refused: counters.refused,
            malformed: counters.malformed + self.too_large.load(Ordering::Relaxed),
            bindings: exchange.bindings() as u64,
            dedicated: self.dedication.count(),
        }
    }
}

impl Endpoint for DatagramEndpoint {
    type Call = DatagramCall;
    type Desk = Desk;

    fn desk(&self) -> Desk {
        let company = Company { together: true, waiting_max: self.spinners_max };
        Desk {
            packet: vec![0; MAX_DATAGRAM],
            reply: Vec::with_capacity(MAX_DATAGRAM),
            wait: Wait::new(self.waiting, MachineCosts::of_this_machine(), company),
            crowd: None,
            together: true,
            clock_ns: clock::now_ns(),
            dedicated: None,
            changes: 0,
            looks: 0,
            latest: None,
            calls_in_a_row: 0,
        }
    }

    #[inline]
    fn receive(&self, desk: &mut Desk, patient: bool, stopping: &AtomicBool) -> Option<DatagramCall> {
        if desk.packet.len() < MAX_DATAGRAM {
            // The last packet went away with its call, or was one that had waited: those are as short as they can be.
            desk.packet.resize(MAX_DATAGRAM, 0);
        }
        let crowd = Crowd::of_this_process();
        let mut spinner = None;
        let mut patience = Patience::DontWait;
        if patient {
            let present = desk.crowd.get_or_insert_with(|| crowd.member()).wait();
            if desk.wait.begin(desk.clock_ns, crowd.waiting()) > 0 {
                spinner = Some(present);
            } else {
                desk.wait.sleeps(desk.clock_ns);
                patience = Patience::Block;
            }
        }
        loop {
            if let Seen::Packet(len, peer, dedicated) = self.look(desk, patience) {
                desk.clock_ns = clock::now_ns();
                if let Some(call) = self.take(desk, len, peer, dedicated) {
                    desk.wait.arrived(desk.clock_ns);
                    desk.keep_company(call.assignment.together, self.spinners_max);
                    if dedicated.is_none() && patient {
                        self.count_in_a_row(desk, peer);
                    }
                    return Some(call);
                }
                continue;
            }
            if !patient {
                return None;
            }
            if stopping.load(Ordering::Relaxed) {
                return None;
            }
            let now_ns = clock::now_ns();
            if spinner.is_some() && !desk.wait.keeps_spinning(now_ns, crowd.waiting()) {
                spinner = None;
                desk.wait.sleeps(now_ns);
                patience = Patience::Block;
            }
        }
    }

    #[inline]
    fn takes_long(&self, call: &DatagramCall) -> bool {
        self.exports.takes_long(call.assignment.interface, call.assignment.procedure)
    }

    #[inline]
    fn run(&self, desk: &mut Desk, mut call: DatagramCall) -> Option<DatagramCall> {
        self.answer(&mut call, desk);
        desk.packet = call.packet;
        self.finish(Instant::from_nanos(desk.clock_ns), call.assignment)
    }

    fn refuse(&self, mut call: DatagramCall, code: RefusalCode) -> Option<DatagramCall> {
        let peer = call.assignment.peer;
        self.send(call.assignment.refuse(code, ""), &peer);
        self.finish(Instant::from_nanos(clock::now_ns()), call.assignment)
    }

    fn defer(&self, call: &mut DatagramCall) {
        call.deferred = true;
    }

    fn next_timeout_ns(&self) -> u64 {
        self.next_timeout_ns.load(Ordering::SeqCst)
    }

    fn handle_timeout(&self, now_ns: u64) {
        let mut exchange = self.exchange();
        exchange.handle_timeout(Instant::from_nanos(now_ns));
        self.next_timeout_ns.store(exchange.next_timeout().as_nanos(), Ordering::Release);
    }

    fn introduce(&self, housekeeper: &Arc<Housekeeper>) {
        // Introduced once.
        let _ = self.housekeeper.set(Arc::clone(housekeeper));
    }

    fn needs_looks(&self) -> bool {
        // Whoever waits at the dedicated socket does not hear the others.
        self.dedication.is_there()
    }

    fn look_after(&self, quiet: bool) {
        if !self.dedication.is_there() {
            return;
        }
        if self.socket.has_waiting().unwrap_or(true) {
            self.dedication.give_up(Reason::Others);
        } else if quiet {
            self.dedication.give_up(Reason::Quiet);
        }
    }

    fn wake(&self) {
        // Cannot fail on a bound socket; a worker that it does not wake leaves with its next call.
        let _ = self.socket.wake_receivers();
        self.dedication.give_up(Reason::Quiet);
    }
}

impl DatagramEndpoint {
    #[cold]
    fn rouse_housekeeper(&self) {
        if let Some(housekeeper) = self.housekeeper.get() {
            housekeeper.rouse();
        }
    }

    /// Looks at the socket where something is likely, and now and then at the other.
    #[inline]
    fn look(&self, desk: &mut Desk, patience: Patience) -> Seen {
        if desk.changes != self.dedication.changes()
            && let Some(last) = self.change_sockets(desk)
        {
            return last;
        }
        let Some(dedicated) = &desk.dedicated else {
            return self.look_at_own(&mut desk.packet, patience);
        };
        desk.looks += 1;
        if desk.looks >= LOOKS {
            desk.looks = 0;
            let seen = self.look_at_own(&mut desk.packet, Patience::DontWait);
            if matches!(seen, Seen::Packet(..)) {
                self.dedication.give_up(Reason::Others);
                return seen;
            }
        }
        let arrival = match patience {
            Patience::DontWait => dedicated.socket.recv(&mut desk.packet),
            Patience::Block => dedicated.socket.recv_blocking(&mut desk.packet),
        };
        match arrival {
            Ok(CallerArrival::Datagram(0) | CallerArrival::Nothing) => Seen::Nothing,
            Ok(CallerArrival::TooLarge(_)) => self.too_large(),
            Ok(CallerArrival::Datagram(len)) => Seen::Packet(len, dedicated.peer, Some(desk.changes)),
            // The caller has gone.
            Ok(CallerArrival::Refused) | Err(_) => {
                self.dedication.give_up(Reason::Quiet);
                Seen::Nothing
            }
        }
    }

    #[inline]
    fn look_at_own(&self, packet: &mut [u8], patience: Patience) -> Seen {
        match self.socket.recv(packet, patience) {
            Ok(ServerArrival::Datagram { len, peer }) => Seen::Packet(len, peer, None),
            Ok(ServerArrival::TooLarge { .. }) => self.too_large(),
            Ok(ServerArrival::Nothing | ServerArrival::WokenUp) | Err(_) => Seen::Nothing,
        }
    }

    /// No packet of ours is so long.
    #[cold]
    fn too_large(&self) -> Seen {
        self.too_large.fetch_add(1, Ordering::Relaxed);
        Seen::Nothing
    }

    /// The dedicated socket is another, or gone. What had arrived in the one that is gone is not lost.
    #[cold]
    fn change_sockets(&self, desk: &mut Desk) -> Option<Seen> {
        if let Some(old) = &desk.dedicated
            && let Ok(CallerArrival::Datagram(len @ 1..)) = old.socket.recv(&mut desk.packet)
        {
            return Some(Seen::Packet(len, old.peer, None));
        }
        desk.changes = self.dedication.changes();
        desk.dedicated = self.dedication.present();
        (desk.looks, desk.calls_in_a_row) = (0, 0);
        None
    }

    /// A call has come in by the address's own socket.
    #[inline]
    fn count_in_a_row(&self, desk: &mut Desk, peer: udp::Peer) {
        if desk.latest != Some(peer.addr()) {
            (desk.latest, desk.calls_in_a_row) = (Some(peer.addr()), 0);
        }
        desk.calls_in_a_row += 1;
        if self.dedication.is_earned(desk.calls_in_a_row) {
            desk.calls_in_a_row = 0;
            self.dedication.dedicate(&self.socket, peer);
            self.rouse_housekeeper();
        }
    }
}

impl Desk {
    /// The latest caller is the likeliest to call next.
    #[inline]
    fn keep_company(&mut self, together: bool, waiting_max: u32) {
        if self.together != together {
            self.together = together;
            self.wait.set_company(Company { together, waiting_max });
        }
    }
}
