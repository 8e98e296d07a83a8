//! Calls that arrive over UDP.
//!
//! A caller sends a call again when its reply is lost. The replies of procedures that are not idempotent are kept, and sent again
//! in place of running the procedure once more.

use crate::context::Caller;
use crate::context::owner_of;
use crate::onc::placement;
use crate::onc::server::NO_REASON;
use crate::onc::server::answer::{Answer, Origin, answer, put};
use crate::onc::server::program_times::ProgramTimes;
use crate::program::VersionId;
use crate::program::programs::Programs;
use crate::serving::activity::Activity;
use crate::serving::counters::ServerCounters;
use crate::serving::running::Setup;
use crate::serving::terms::CallTerms;
use crate::serving::workers::{Background, Endpoint};
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stoop_exchange::shares::Owner;
use stoop_net::udp::{Peer, ServerArrival, ServerSocket};
use stoop_net::waiting::{Placement, Waiter, Waiting};
use stoop_net::{Patience, clock};
use stoop_onc::Instant;
use stoop_onc::message::{Accepted, Call, Reply};
use stoop_onc::reply_cache::{Admission, CallKey, ReplyCache, ReplyCacheLimits};
use stoop_wire::Refused;

/// A UDP port.
pub(crate) struct DatagramEndpoint {
    socket: ServerSocket,
    programs: Arc<Programs>,
    times: ProgramTimes,
    waiting: Waiting,
    placement: Placement,
    replies: Mutex<ReplyCache<SocketAddr>>,
    activity: Activity,
    duplicates: AtomicU64,
    background: Background,
}

/// A datagram with a call that is to run.
pub(crate) struct DatagramCall {
    datagram: Vec<u8>,
    len: usize,
    peer: Peer,
    /// The key of its reply, if that is kept.
    key: Option<CallKey<SocketAddr>>,
}

/// State that a worker keeps from one call to the next.
pub(crate) struct WorkerState {
    /// Where the next datagram goes.
    datagram: Vec<u8>,
    reply: Vec<u8>,
    waiter: Waiter,
    clock_ns: u64,
}

/// Bytes of the longest datagram over IPv4.
const DATAGRAM_MAX: usize = 65_507;

/// Receive buffer, so that a burst of calls is not lost. The system may grant less.
const RECEIVE_BUFFER: usize = 4 << 20;

impl DatagramEndpoint {
    pub(crate) fn new(socket: ServerSocket, setup: &Setup, limits: ReplyCacheLimits) -> io::Result<Self> {
        socket.set_receive_buffer(RECEIVE_BUFFER)?;
        Ok(Self {
            socket,
            programs: Arc::clone(&setup.programs),
            times: ProgramTimes::new(),
            waiting: setup.waiting,
            placement: placement::of_this_end(),
            replies: Mutex::new(ReplyCache::new(limits)),
            activity: Activity::default(),
            duplicates: AtomicU64::new(0),
            background: Background::default(),
        })
    }

    fn replies(&self) -> MutexGuard<'_, ReplyCache<SocketAddr>> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a datagram that has come. `None`: there is nothing to run.
    #[inline]
    fn take(&self, worker: &mut WorkerState, len: usize, peer: Peer) -> Option<DatagramCall> {
        let message = &worker.datagram[..len];
        let mut key = None;
        if let Ok((call, _)) = Call::parse(message)
            && self.keeps_reply(&call)
        {
            let id = CallKey { peer: peer.addr(), xid: call.xid, procedure: call.procedure };
            if !self.admit(&id, message, &peer, worker.clock_ns) {
                return None;
            }
            key = Some(id);
        }
        if !self.activity.begin_call() {
            self.activity.end_call();
            if let Some(key) = &key {
                self.replies().abandon(key);
            }
            return None;
        }
        Some(DatagramCall { datagram: mem::take(&mut worker.datagram), len, peer, key })
    }

    #[inline]
    fn keeps_reply(&self, call: &Call<'_>) -> bool {
        let id = VersionId { program: call.procedure.program, version: call.procedure.version };
        self.programs.find(id).is_ok_and(|program| !program.is_idempotent(call.procedure.procedure))
    }

    /// Whether a call is to run. A repeated one is answered here.
    fn admit(&self, key: &CallKey<SocketAddr>, message: &[u8], peer: &Peer, now_ns: u64) -> bool {
        let mut room = Vec::new();
        {
            let mut replies = self.replies();
            let owner = owner_of(&Caller::Network(peer.addr()));
            match replies.admit(Instant::from_nanos(now_ns), key, owner, message) {
                Admission::Run => return true,
                Admission::Replay(reply) => room.extend_from_slice(reply),
                Admission::ReplyLost => {
                    put(&Reply::accepted(key.xid, Accepted::SystemError), &mut room, 0);
                }
                Admission::Ignore => {}
                Admission::NoRoom => {
                    self.activity.refused.count(NO_REASON);
                    return false;
                }
            }
        }
        self.duplicates.fetch_add(1, Ordering::Relaxed);
        if !room.is_empty() {
            let _ = self.socket.send(&room, peer);
        }
        false
    }
}

impl Endpoint for DatagramEndpoint {
    type Call = DatagramCall;
    type WorkerState = WorkerState;

    fn worker(&self) -> WorkerState {
        WorkerState {
            datagram: Vec::new(),
            reply: Vec::new(),
            waiter: Waiter::new(self.waiting, self.placement),
            clock_ns: clock::now_ns(),
        }
    }

    #[inline]
    fn receive(
        &self,
        worker: &mut WorkerState,
        patient: bool,
        stopping: &AtomicBool,
    ) -> Option<DatagramCall> {
        if worker.datagram.is_empty() {
            worker.datagram = vec![0; DATAGRAM_MAX];
        }
        let mut wait = patient.then(|| worker.waiter.begin(worker.clock_ns));
        loop {
            let sleeps = wait.as_mut().is_some_and(|wait| {
                let sleeps = wait.sleeps();
                if sleeps {
                    wait.uncount();
                }
                sleeps
            });
            let patience = if sleeps { Patience::Block } else { Patience::DontWait };
            if let Ok(ServerArrival::Datagram { len, peer }) =
                self.socket.recv(&mut worker.datagram, patience)
            {
                worker.clock_ns = clock::now_ns();
                if let Some(call) = self.take(worker, len, peer) {
                    if let Some(wait) = &wait {
                        worker.waiter.arrived(wait, worker.clock_ns);
                    }
                    return Some(call);
                }
                continue;
            }
            if stopping.load(Ordering::Relaxed) {
                return None;
            }
            let wait = wait.as_mut()?;
            if wait.spins() {
                self.background.yield_to_running_procedures();
            }
            worker.clock_ns = clock::now_ns();
            worker.waiter.go_on(wait, worker.clock_ns);
        }
    }

    #[inline]
    fn takes_long(&self, call: &DatagramCall) -> bool {
        self.times.of(&call.datagram).is_long()
    }

    fn run(&self, worker: &mut WorkerState, call: DatagramCall) -> Option<DatagramCall> {
        let DatagramCall { datagram, len, peer, key } = call;
        let origin = Origin::plain(Caller::Network(peer.addr()));
        self.activity.calls.fetch_add(1, Ordering::Relaxed);
        let answer = answer(
            (&self.programs, &self.times),
            &datagram[..len],
            origin,
            &mut worker.reply,
            0,
            DATAGRAM_MAX,
        );
        let reply = match answer {
            Answer::Reply(end) => Some(&worker.reply[..end]),
            Answer::None => None,
            Answer::Broken => {
                self.activity.malformed.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        if let Some(key) = &key {
            self.replies().complete(Instant::from_nanos(clock::now_ns()), key, reply);
        }
        if let Some(reply) = reply {
            // A reply that is not sent is like one that is lost.
            let _ = self.socket.send(reply, &peer);
        }
        if worker.datagram.is_empty() {
            worker.datagram = datagram;
        }
        self.activity.end_call();
        None
    }

    fn refuse(&self, _: &mut WorkerState, call: DatagramCall, _: Refused) -> Option<DatagramCall> {
        // Sun RPC has no word for it: the caller sends the call again.
        if let Some(key) = &call.key {
            self.replies().abandon(key);
        }
        self.activity.refused.count(NO_REASON);
        self.activity.end_call();
        None
    }

    fn tag(&self, call: &DatagramCall) -> u64 {
        tag_of(call.peer.addr().ip())
    }

    fn owner_of(&self, tag: u64) -> Option<Owner> {
        Some(Owner::host(tagged(tag).octets()))
    }

    fn terms(&self, call: &DatagramCall) -> CallTerms {
        let peer = call.peer.addr();
        self.times.terms(owner_of(&Caller::Network(peer)), peer.port().into(), &call.datagram)
    }

    fn defer(&self, _: &mut WorkerState, _: &mut DatagramCall) {}

    fn next_timeout_ns(&self) -> u64 {
        u64::MAX
    }

    fn handle_timeout(&self, _: &mut WorkerState, _: u64) {}

    fn background(&self) -> &Background {
        &self.background
    }

    fn wake(&self) {
        // Cannot fail on a bound socket.
        let _ = self.socket.wake_receivers();
    }

    fn shut_down(&self) {
        self.activity.shut_down();
    }

    fn drain(&self) {
        self.activity.drain(|| None);
    }

    fn counters(&self) -> ServerCounters {
        let mut counters = self.activity.counters();
        counters.packet.duplicates = self.duplicates.load(Ordering::Relaxed);
        counters.packet.dropped = self.replies().forgotten_early();
        counters
    }
}

/// A host in a word: its IPv4 address below a bit that no network in use has, or its IPv6 network, by which an owner is known.
fn tag_of(ip: IpAddr) -> u64 {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IPV4 | u64::from(ip.to_bits()),
        IpAddr::V6(ip) => ((ip.to_bits() >> 64) as u64).max(LOOPBACK),
    }
}

/// An address of the host with that tag.
fn tagged(tag: u64) -> Ipv6Addr {
    match tag & !u64::from(u32::MAX) {
        IPV4 => Ipv4Addr::from_bits(tag as u32).to_ipv6_mapped(),
        _ if tag == LOOPBACK => Ipv6Addr::LOCALHOST,
        _ => Ipv6Addr::from_bits(u128::from(tag) << 64),
    }
}

/// The networks 0:1::/32 are reserved (RFC 4291 §2.4).
const IPV4: u64 = 1 << 32;

/// In place of 0, of the network of `::1`; the network 0:0:0:1::/64 is reserved, too.
const LOOPBACK: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_call_tells_its_owner() {
        for ip in ["127.0.0.1", "255.255.255.255", "::1", "::ffff:10.0.0.1", "2001:db8:1:2::3", "fe80::1"] {
            let ip: IpAddr = ip.parse().unwrap();
            let owner = owner_of(&Caller::Network((ip, 7).into()));
            assert_eq!(Owner::host(tagged(tag_of(ip)).octets()), owner, "{ip}");
            assert_ne!(tag_of(ip), 0, "0 is no tag");
        }
    }
}
