//! A server of `peer.x` over UDP and TCP: the simplest driver of `Call::parse`, `ReplyCache` and `Records`.

use crate::client::Client;
use crate::peer::{self, ADD, COUNT, LIST, PEER, REVERSE, SQUARE, WHO};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant as Clock;
use stoop_exchange::shares::Owner;
use stoop_onc::Instant;
use stoop_onc::auth::Identity;
use stoop_onc::message::{Accepted, Call, Denied, Reply, VersionRange};
use stoop_onc::record::{RecordLimits, Records};
use stoop_onc::reply_cache::{Admission, CallKey, ReplyCache, ReplyCacheLimits};
use stoop_onc::rpcbind::{self, Rpcb, Version, procedure};
use stoop_onc::{message, record};
use stoop_xdr::{Encode, Opaque, Reader, to_vec};

/// The state that the threads share.
struct Shared {
    /// How often `COUNT` ran.
    count: u32,
    /// Datagrams that are lost instead of sent, of replies to `COUNT`.
    lose: u32,
    cache: ReplyCache<SocketAddr>,
}

/// Starts the server, which loses `lose` replies to `COUNT` over UDP, and registers it with rpcbind.
pub(crate) fn start(lose: u32) {
    let cache = ReplyCache::new(ReplyCacheLimits::default());
    let shared = Arc::new(Mutex::new(Shared { count: 0, lose, cache }));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let udp = socket.local_addr().expect("it is bound");
    let tcp = listener.local_addr().expect("it is bound");
    let datagrams = shared.clone();
    thread::spawn(move || serve_datagrams(&socket, &datagrams));
    thread::spawn(move || {
        for connection in listener.incoming() {
            let (connection, shared) = (connection.expect("a caller connects"), shared.clone());
            thread::spawn(move || serve_connection(connection, &shared));
        }
    });
    register(udp, "udp");
    register(tcp, "tcp");
}

/// Over the Unix socket, so that rpcbind knows the owner.
fn register(address: SocketAddr, netid: &str) {
    let mut rpcbind = Client::unix(rpcbind::SOCKET);
    let universal = rpcbind::universal(address);
    for version in [1, 2] {
        let rpcb = Rpcb { program: PEER, version, netid, address: &universal, owner: "" };
        for number in [procedure::UNSET, procedure::SET] {
            assert!(rpcbind.call(Version::Four.procedure(number), &rpcb).results::<bool>());
        }
    }
}

fn serve_datagrams(socket: &UdpSocket, shared: &Mutex<Shared>) {
    let (clock, mut buffer) = (Clock::now(), vec![0; 1 << 16]);
    loop {
        let (len, peer) = socket.recv_from(&mut buffer).expect("the socket is sound");
        let now = Instant::from_nanos(clock.elapsed().as_nanos() as u64);
        let shared = &mut *shared.lock().expect("no thread has panicked");
        if let Some(reply) = answer_datagram(shared, now, peer, &buffer[..len]) {
            socket.send_to(&reply, peer).expect("it is sent");
        }
    }
}

fn answer_datagram(shared: &mut Shared, now: Instant, peer: SocketAddr, message: &[u8]) -> Option<Vec<u8>> {
    let Ok((call, _)) = Call::parse(message) else { return answer(shared, message) };
    let key = CallKey { peer, xid: call.xid, procedure: call.procedure };
    let reply = match shared.cache.admit(now, &key, Owner::host([0; 16]), message) {
        Admission::Run => answer(shared, message),
        Admission::Replay(reply) => return Some(reply.to_vec()),
        Admission::Ignore | Admission::ReplyLost | Admission::NoRoom => return None,
    };
    shared.cache.complete(now, &key, reply.as_deref());
    if call.procedure == COUNT && shared.lose > 0 {
        shared.lose -= 1;
        return None;
    }
    reply
}

fn serve_connection(mut connection: TcpStream, shared: &Mutex<Shared>) {
    let mut records = Records::new(RecordLimits::default());
    let mut buffer = vec![0; 1 << 16];
    while let Ok(len @ 1..) = connection.read(&mut buffer) {
        let mut input = &buffer[..len];
        loop {
            let record = match records.next(&mut input) {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(_) => return,
            };
            let shared = &mut *shared.lock().expect("no thread has panicked");
            let Some(reply) = answer(shared, record) else { return };
            let mark = record::mark(reply.len()).expect("a reply is no longer than a record");
            let sent = connection.write_all(&[&mark[..], &reply].concat());
            if sent.is_err() {
                return;
            }
        }
    }
}

/// The reply to a message, if there is one.
fn answer(shared: &mut Shared, message: &[u8]) -> Option<Vec<u8>> {
    let (call, arguments) = match Call::parse(message) {
        Ok(parsed) => parsed,
        Err(bad) => return bad.reply().map(|reply| to_vec(&reply).expect("a reply has a form")),
    };
    let identity = match Identity::of(call.credential) {
        Ok(identity) => identity,
        Err(status) => {
            return Some(to_vec(&Reply::denied(call.xid, Denied::Auth(status))).expect("it has a form"));
        }
    };
    let reply = run(shared, &call, &identity, arguments);
    Some(reply.unwrap_or_else(|status| to_vec(&Reply::accepted(call.xid, status)).expect("it has a form")))
}

/// Runs the procedure: RFC 5531 §9 says in which order it is looked for.
fn run(
    shared: &mut Shared,
    call: &Call<'_>,
    identity: &Identity<'_>,
    mut arguments: Reader<'_>,
) -> Result<Vec<u8>, Accepted> {
    if call.procedure.program != PEER {
        return Err(Accepted::ProgramUnavailable);
    }
    if !(1..=2).contains(&call.procedure.version) {
        return Err(Accepted::ProgramMismatch(VersionRange { low: 1, high: 2 }));
    }
    let garbage = |_| Accepted::GarbageArguments;
    match call.procedure {
        ADD => {
            let (a, b): (i32, i32) =
                (arguments.value().map_err(garbage)?, arguments.value().map_err(garbage)?);
            success(call, &(a + b))
        }
        LIST => success(call, &peer::list(arguments.value().map_err(garbage)?)),
        REVERSE => {
            let Opaque(bytes) = arguments.value::<Opaque<&[u8]>>().map_err(garbage)?;
            success(call, &Opaque(peer::reverse(bytes)))
        }
        COUNT => {
            shared.count += 1;
            success(call, &shared.count)
        }
        WHO => success(call, &peer::who(identity)),
        SQUARE => {
            let number = u64::from(arguments.value::<u32>().map_err(garbage)?);
            success(call, &(number * number))
        }
        _ if call.procedure.procedure == 0 => success(call, &()),
        _ => Err(Accepted::ProcedureUnavailable),
    }
}

fn success<R: Encode>(call: &Call<'_>, results: &R) -> Result<Vec<u8>, Accepted> {
    let mut reply = Vec::new();
    message::append(&Reply::success(call.xid), results, &mut reply).map_err(|_| Accepted::SystemError)?;
    Ok(reply)
}
