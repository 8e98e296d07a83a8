//! Blocking calls over UDP: each thread that calls has a connected socket of its own.
//!
//! The kernel drops datagrams that do not come from the server's address, and reports that its port is closed. Replies with a
//! foreign xid are dropped here: a call ends by its deadline, whatever arrives.

use crate::calling::deadline::CallTimes;
use crate::error::{BindError, CallError, SendError, UnknownCause};
use crate::onc::caller::reply;
use crate::onc::caller::request::{self, Request};
use crate::onc::options::ClientOptions;
use crate::onc::placement;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use stoop_net::host;
use stoop_net::packets::{CallerArrival, Sending};
use stoop_net::udp::CallerSocket;
use stoop_net::waiting::{Placement, Waiter};
use stoop_net::{clock, fork};
use stoop_onc::outcome::Ending;
use stoop_onc::{RoundTrip, Xid, Xids};
use stoop_xdr::{DecodeError, Encode, EncodeError, Reader};

/// Bytes of the longest datagram over IPv4.
const DATAGRAM_MAX: usize = 65_507;

/// The lanes of a client over UDP.
pub(crate) struct DatagramCaller {
    server: SocketAddr,
    options: ClientOptions,
    placement: Placement,
    /// Lanes that no thread uses, the latest last.
    idle: Mutex<Vec<Lane>>,
    /// The server's port was found closed: it may have been started again at another.
    is_stale: AtomicBool,
    unmatched: AtomicU64,
}

/// The socket and buffers that one call at a time uses.
struct Lane {
    socket: CallerSocket,
    /// The process that made it, see [`fork::generation`].
    generation: u32,
    xids: Xids,
    waiter: Waiter,
    path: RoundTrip,
    call: Vec<u8>,
    reply: Vec<u8>,
    /// All earlier calls on this socket were sent once and answered, so that an error of the socket belongs to the present call.
    is_clean: bool,
}

/// A call that has been sent.
struct SentCall {
    xid: Xid,
    len: usize,
    begun_ns: u64,
    deadline_ns: u64,
    transmissions: u32,
}

impl DatagramCaller {
    pub(crate) fn new(server: SocketAddr, options: &ClientOptions) -> Self {
        Self {
            server,
            options: options.clone(),
            placement: placement::of_this_end(),
            idle: Mutex::default(),
            is_stale: AtomicBool::new(false),
            unmatched: AtomicU64::new(0),
        }
    }

    /// Whether its port was found closed.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Relaxed)
    }

    /// Datagrams so far that answered no call.
    pub(crate) fn unmatched(&self) -> u64 {
        self.unmatched.load(Ordering::Relaxed)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call, and passes its results to `decode`.
    ///
    /// # Errors
    /// As [`Client::call`](crate::onc::Client::call).
    pub(crate) fn call<A: Encode + ?Sized, R>(
        &self,
        request: Request<'_, A>,
        decode: impl FnOnce(&mut Reader<'_>) -> Result<R, DecodeError>,
    ) -> Result<R, CallError> {
        let mut lane = self.take_lane()?;
        let asked = request.procedure.version;
        let answered = self.exchange(&mut lane, request);
        let result = match answered {
            Ok((len, transmissions)) => {
                // Another transmission may be under way, and meet a closed port.
                lane.is_clean = transmissions == 1;
                // No lock is held: the lane is this thread's own.
                let results =
                    reply::results(&lane.reply[..len], transmissions, asked, &*self.options.authentication);
                results.and_then(|mut results| {
                    decode(&mut results).map_err(|why| reply::bad_result(why, transmissions))
                })
            }
            Err(why) => Err(why),
        };
        // After a call without an answer, or with several transmissions, the socket is closed, so that no later call gets a late answer
        // or a late error.
        if lane.is_clean {
            self.idle().push(lane);
        }
        result
    }

    fn take_lane(&self) -> Result<Lane, CallError> {
        loop {
            match self.idle().pop() {
                Some(lane) if lane.generation == fork::generation() => return Ok(lane),
                // The parent's: both would get the replies of both.
                Some(_) => {}
                None => break,
            }
        }
        self.new_lane().map_err(|why| CallError::not_sent(SendError::Io(why)))
    }

    #[cold]
    fn new_lane(&self) -> io::Result<Lane> {
        let socket = match self.options.reserved_port {
            true => CallerSocket::connect_reserved(self.server)?,
            false => CallerSocket::connect(self.server)?,
        };
        Ok(Lane {
            socket,
            generation: fork::generation(),
            xids: Xids::new(host::random_bytes()),
            waiter: Waiter::new(self.options.waiting, self.placement),
            path: RoundTrip::default(),
            call: Vec::new(),
            reply: vec![0; DATAGRAM_MAX],
            is_clean: true,
        })
    }

    /// Sends a call and waits for its reply. Returns its length in the lane, and how often the call was sent.
    fn exchange<A: Encode + ?Sized>(
        &self,
        lane: &mut Lane,
        request: Request<'_, A>,
    ) -> Result<(usize, u32), CallError> {
        let Request { procedure, times: CallTimes { begun_ns, deadline }, arguments } = request;
        let xid = lane.xids.draw();
        let authentication = &*self.options.authentication;
        let len = request::write(xid, procedure, authentication, arguments, &mut lane.call, 0)?;
        if len > DATAGRAM_MAX {
            return Err(request::no_form(EncodeError::NoRoom { needed: len, room: DATAGRAM_MAX }));
        }
        let mut sent = SentCall { xid, len, begun_ns, deadline_ns: deadline.at(begun_ns), transmissions: 1 };
        self.send(lane, &sent)?;
        loop {
            let wait = self.options.retransmission.wait(sent.transmissions, &lane.path);
            let now_ns = clock::now_ns();
            let until_ns = wait.map_or(u64::MAX, |wait| now_ns.saturating_add(wait.as_nanos() as u64));
            let until_ns = until_ns.min(sent.deadline_ns);
            if let Some(len) = self.receive(lane, &sent, now_ns, until_ns)? {
                return Ok((len, sent.transmissions));
            }
            if clock::now_ns() >= sent.deadline_ns {
                lane.is_clean = false;
                return Err(unknown(&sent, UnknownCause::DeadlinePassed));
            }
            sent.transmissions += 1;
            // An error is like a loss: only the deadline ends the call.
            let _ = lane.socket.send(&lane.call[..sent.len]);
        }
    }

    /// Sends a call for the first time.
    fn send(&self, lane: &mut Lane, sent: &SentCall) -> Result<(), CallError> {
        loop {
            match lane.socket.send(&lane.call[..sent.len]) {
                Ok(Sending::Sent) => return Ok(()),
                // News of an earlier call, told once.
                Ok(Sending::Refused) => {}
                Err(why) => return Err(CallError::not_sent(SendError::Io(why))),
            }
        }
    }

    /// Waits for the reply until that time. Returns its length.
    fn receive(
        &self,
        lane: &mut Lane,
        sent: &SentCall,
        now_ns: u64,
        until_ns: u64,
    ) -> Result<Option<usize>, CallError> {
        let mut wait = lane.waiter.begin(now_ns);
        let mut now_ns = now_ns;
        loop {
            let arrival = if wait.sleeps() {
                let left_ns = until_ns.saturating_sub(now_ns);
                lane.socket.recv_about(&mut lane.reply, left_ns, left_ns)
            } else {
                lane.socket.recv(&mut lane.reply)
            };
            match arrival {
                Ok(CallerArrival::Datagram(len)) => {
                    if Xid::of(&lane.reply[..len]) == Some(sent.xid) {
                        let now_ns = clock::now_ns();
                        lane.waiter.arrived(&wait, now_ns);
                        if sent.transmissions == 1 {
                            lane.path.sample(Duration::from_nanos(now_ns.saturating_sub(sent.begun_ns)));
                        }
                        return Ok(Some(len));
                    }
                    self.unmatched.fetch_add(1, Ordering::Relaxed);
                }
                Ok(CallerArrival::Refused) => {
                    self.is_stale.store(true, Ordering::Relaxed);
                    return Err(self.refused(lane, sent));
                }
                // Longer than a datagram can be; or an ICMP error for an earlier packet: only the deadline ends the call.
                Ok(CallerArrival::TooLarge(_) | CallerArrival::Nothing) | Err(_) => {}
            }
            now_ns = clock::now_ns();
            if now_ns >= until_ns {
                return Ok(None);
            }
            lane.waiter.go_on(&mut wait, now_ns);
        }
    }

    /// The server's machine says that the port is closed. If this was the only datagram without an answer, it has not arrived.
    #[cold]
    fn refused(&self, lane: &mut Lane, sent: &SentCall) -> CallError {
        if lane.is_clean && Ending::PortClosed.did_not_run(sent.transmissions) {
            let cause = io::ErrorKind::ConnectionRefused.into();
            let server = format!("onc+udp://{}", self.server);
            return CallError::not_sent(SendError::Bind(Box::new(BindError::Unreachable { server, cause })));
        }
        lane.is_clean = false;
        unknown(sent, UnknownCause::PortClosed)
    }
}

#[cold]
fn unknown(sent: &SentCall, cause: UnknownCause) -> CallError {
    let waited = Duration::from_nanos(clock::now_ns().saturating_sub(sent.begun_ns));
    CallError::Unknown { transmissions: sent.transmissions, waited, cause, callee: None }
}
