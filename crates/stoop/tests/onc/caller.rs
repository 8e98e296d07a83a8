//! Clients against servers that misbehave.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use stoop::error::{SendError, SunError, SunFault, UnknownCause};
use stoop::onc::{Client, ClientOptions, Retransmission};
use stoop::{CallError, Ran};
use stoop_onc::message::{self, Call, Reply};

const SECOND: Duration = Duration::from_secs(1);

fn bind(scheme: &str, server: SocketAddr, options: &ClientOptions) -> Client {
    Client::bind_with(&format!("{scheme}://{server}/7:1"), options).expect("the address is complete")
}

fn success(call: &[u8], result: u32) -> Vec<u8> {
    let (call, _) = Call::parse(call).expect("a call");
    let mut reply = Vec::new();
    message::append(&Reply::success(call.xid), &result, &mut reply).expect("it has a form");
    reply
}

/// A server of datagrams that answers each call by what `answers` gives for it and the number of calls before.
fn datagram_server(answers: impl Fn(&[u8], u32) -> Vec<Vec<u8>> + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let address = socket.local_addr().expect("it is bound");
    thread::spawn(move || {
        let mut buffer = [0; 65_536];
        for count in 0.. {
            let (len, caller) = socket.recv_from(&mut buffer).expect("a call");
            for answer in answers(&buffer[..len], count) {
                socket.send_to(&answer, caller).expect("it is sent");
            }
        }
    });
    address
}

/// A server of streams that holds its first connection and reads nothing, until the sender is dropped.
fn deaf_server() -> (SocketAddr, Sender<()>) {
    let (held, released) = channel::<()>();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        let connection = listener.accept();
        let _ = released.recv();
        drop(connection);
    });
    (address, held)
}

/// A server that passes each connection to `serve`.
fn stream_server(serve: impl Fn(std::net::TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || listener.incoming().for_each(|stream| serve(stream.expect("a connection"))));
    address
}

fn read_record(stream: &mut std::net::TcpStream) -> Option<Vec<u8>> {
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).ok()?;
    let mut record = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut record).ok()?;
    Some(record)
}

fn record(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32 | 0x8000_0000).to_be_bytes(), message].concat()
}

#[test]
fn a_call_is_sent_again_and_foreign_replies_are_dropped() {
    let server = datagram_server(|call, count| {
        let mut foreign = success(call, 1);
        foreign[0] ^= 1;
        match count {
            0 => vec![],
            1 => vec![foreign.clone(), vec![1, 2], foreign],
            _ => vec![success(call, 7), success(call, 8)],
        }
    });
    let every = Retransmission::Every(Duration::from_millis(50));
    let client = bind("onc+udp", server, &ClientOptions::new().retransmission(every));
    assert_eq!(client.call::<_, u32>(1, &()).unwrap(), 7);
    assert_eq!(client.unmatched_replies(), 3);
    // The second reply to the first call is still there.
    assert_eq!(client.call::<_, u32>(1, &()).unwrap(), 7);
}

#[test]
fn foreign_replies_prolong_no_call() {
    let datagrams = datagram_server(|call, _| {
        let mut foreign = success(call, 1);
        foreign[0] ^= 1;
        vec![foreign]
    });
    let stream = stream_server(|mut stream| {
        while let Some(call) = read_record(&mut stream) {
            let mut foreign = success(&call, 1);
            foreign[0] ^= 1;
            // As fast as the client takes them.
            while stream.write_all(&record(&foreign)).is_ok() {}
        }
    });
    let every = Retransmission::Every(Duration::from_millis(20));
    let options = ClientOptions::new().retransmission(every).timeout(Duration::from_millis(300));
    for (scheme, server) in [("onc+udp", datagrams), ("onc+tcp", stream)] {
        let client = bind(scheme, server, &options);
        let error = client.call::<_, u32>(1, &()).unwrap_err();
        assert!(error.is_timeout() && error.ran() == Ran::Perhaps, "{scheme}: {error}");
        assert!(client.unmatched_replies() > 3);
    }
}

#[test]
fn a_closed_port_means_that_the_call_did_not_run() {
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let begun = Instant::now();
    let error = bind("onc+udp", closed, &ClientOptions::new()).null().unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Bind(_), ..)), "{error}");
    assert!(begun.elapsed() < 10 * SECOND);
    assert!(Client::bind(&format!("onc+tcp://{closed}/7:1")).is_err());
}

#[test]
fn a_server_that_closes_the_connection_leaves_the_outcome_open() {
    let server = stream_server(|mut stream| drop(read_record(&mut stream)));
    let client = bind("onc+tcp", server, &ClientOptions::new());
    for _ in 0..3 {
        let error = client.null().unwrap_err();
        assert!(matches!(error, CallError::Unknown { cause: UnknownCause::ConnectionLost, .. }), "{error}");
    }
}

/// How a reply is broken.
type Break = fn(Vec<u8>) -> Vec<u8>;

#[test]
fn broken_replies_are_errors() {
    let cases: [(&str, Break); 4] = [
        ("truncated", |reply| reply[..12].to_vec()),
        ("a call", |mut reply| {
            reply[7] = 0;
            reply
        }),
        ("an unknown state", |mut reply| {
            reply[23] = 9;
            reply
        }),
        ("no result", |reply| reply[..24].to_vec()),
    ];
    for (name, broken) in cases {
        let datagrams = datagram_server(move |call, _| vec![broken(success(call, 1))]);
        let stream = stream_server(move |mut stream| {
            while let Some(call) = read_record(&mut stream) {
                stream.write_all(&record(&broken(success(&call, 1)))).expect("the client reads");
            }
        });
        for (scheme, server) in [("onc+udp", datagrams), ("onc+tcp", stream)] {
            let error = bind(scheme, server, &ClientOptions::new()).call::<_, u32>(1, &()).unwrap_err();
            let is_told = matches!(
                error,
                CallError::Sun(SunError { fault: SunFault::BadReply(_) | SunFault::BadResult(_), .. }, ..)
            );
            assert!(is_told && error.ran() == Ran::Perhaps, "{name} over {scheme}: {error}");
        }
    }
}

#[test]
fn a_record_beyond_the_limit_ends_the_connection_without_taking_memory() {
    let server = stream_server(|mut stream| {
        let _ = read_record(&mut stream);
        let _ = stream.write_all(&0xffff_ffff_u32.to_be_bytes());
        let _ = stream.read(&mut [0; 1]);
    });
    let client = bind("onc+tcp", server, &ClientOptions::new().max_message(1000));
    let error = client.null().unwrap_err();
    assert!(matches!(error, CallError::Unknown { cause: UnknownCause::ConnectionLost, .. }), "{error}");
}

#[test]
fn arguments_that_fit_in_no_datagram_are_not_sent() {
    let server = datagram_server(|_, _| vec![]);
    let client = bind("onc+udp", server, &ClientOptions::new());
    let error = client.call::<_, ()>(1, &stoop_xdr::Opaque(vec![0; 70_000])).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Xdr(_), ..)), "{error}");
}

#[test]
fn a_server_that_reads_nothing_holds_no_caller_beyond_its_deadline() {
    let (server, _held) = deaf_server();
    let client = bind("onc+tcp", server, &ClientOptions::new().timeout(Duration::from_millis(300)));
    let error = client.call::<_, ()>(1, &stoop_xdr::Opaque(vec![0; 50 << 20])).unwrap_err();
    assert_eq!(error.ran(), Ran::No, "{error}");
}

#[test]
fn an_empty_last_fragment_ends_the_reply() {
    let server = stream_server(|mut stream| {
        while let Some(call) = read_record(&mut stream) {
            let (empty, empty_last) = ([0; 4], [0x80, 0, 0, 0]);
            let reply = success(&call, 7);
            let (first, rest) = reply.split_at(12);
            let marked = |part: &[u8]| [&(part.len() as u32).to_be_bytes(), part].concat();
            let bytes = [&empty_last[..], &marked(first), &empty, &marked(rest), &empty_last].concat();
            for byte in bytes {
                stream.write_all(&[byte]).expect("the client reads");
            }
        }
    });
    let client = bind("onc+tcp", server, &ClientOptions::new());
    for _ in 0..2 {
        assert_eq!(client.call::<_, u32>(1, &()).unwrap(), 7);
    }
    let endless = stream_server(|mut stream| {
        let _ = read_record(&mut stream);
        while stream.write_all(&[0; 1024]).is_ok() {}
    });
    let error = bind("onc+tcp", endless, &ClientOptions::new()).null().unwrap_err();
    assert!(matches!(error, CallError::Unknown { cause: UnknownCause::ConnectionLost, .. }), "{error}");
}

#[test]
fn replies_in_any_order_and_in_any_pieces_reach_their_callers() {
    let server = stream_server(|mut stream| {
        let calls: Vec<_> = (0..8).map(|_| read_record(&mut stream).expect("a call")).collect();
        for call in calls.iter().rev() {
            let (header, mut arguments) = Call::parse(call).expect("a call");
            let number: u32 = arguments.value().expect("a number");
            let mut reply = Vec::new();
            message::append(&Reply::success(header.xid), &(number * 2), &mut reply).expect("it has a form");
            // Fragments of 4 bytes, sent byte by byte.
            let last = reply.len() / 4 - 1;
            for (place, word) in reply.chunks(4).enumerate() {
                let mark = 4 | if place == last { 0x8000_0000_u32 } else { 0 };
                for byte in [&mark.to_be_bytes(), word].concat() {
                    stream.write_all(&[byte]).expect("the client reads");
                }
            }
        }
        let _ = stream.read(&mut [0; 1]);
    });
    let client = bind("onc+tcp", server, &ClientOptions::new());
    thread::scope(|scope| {
        for number in 0..8_u32 {
            let client = &client;
            scope.spawn(move || assert_eq!(client.call::<_, u32>(1, &number).unwrap(), 2 * number));
        }
    });
}

#[test]
fn begun_calls_end_without_a_waiting_thread_and_in_any_order() {
    let datagrams = datagram_server(|call, _| {
        let (_, mut arguments) = Call::parse(call).expect("a call");
        vec![success(call, arguments.value::<u32>().expect("a number") * 2)]
    });
    let stream = stream_server(|mut stream| {
        while let Some(call) = read_record(&mut stream) {
            let (_, mut arguments) = Call::parse(&call).expect("a call");
            let reply = success(&call, arguments.value::<u32>().expect("a number") * 2);
            stream.write_all(&record(&reply)).expect("the client reads");
        }
    });
    for (scheme, server) in [("onc+udp", datagrams), ("onc+tcp", stream)] {
        let client = bind(scheme, server, &ClientOptions::new());
        let pending: Vec<_> = (0..20_u32).map(|number| client.begin::<_, u32>(1, &number)).collect();
        while !pending.iter().all(|each| each.is_ready()) {
            thread::yield_now();
        }
        for (number, result) in (0..20).zip(stoop::wait_all(pending)) {
            assert_eq!(result.unwrap(), 2 * number, "{scheme}");
        }
        let mut pending: Vec<_> = (0..20_u32).map(|number| client.begin::<_, u32>(1, &number)).collect();
        let mut sum = 0;
        while let Some(place) = stoop::wait_any(&mut pending) {
            sum += pending.swap_remove(place).wait().unwrap();
        }
        assert_eq!(sum, 380);
        // Blocking calls between begun ones, and a handle that is dropped.
        let first = client.begin::<_, u32>(1, &21);
        drop(client.begin::<_, u32>(1, &22));
        assert_eq!(client.call::<_, u32>(1, &4).unwrap(), 8);
        client.begin::<_, u32>(1, &23).detach();
        assert_eq!(first.wait().unwrap(), 42);
    }
}

#[test]
fn begun_calls_are_sent_again_and_end_by_their_deadline() {
    let server = datagram_server(|call, count| match count {
        0..3 => vec![],
        3 => vec![success(call, 7)],
        _ => vec![],
    });
    let every = Retransmission::Every(Duration::from_millis(30));
    let client = bind("onc+udp", server, &ClientOptions::new().retransmission(every).timeout(SECOND));
    assert_eq!(client.begin::<_, u32>(1, &()).wait().unwrap(), 7);
    // A busy machine may keep it from being sent again in time. Then another gets more.
    let times = [100, 200, 400, 800, 1600, 3200, 6400].map(Duration::from_millis);
    let is_sent_again = times.into_iter().any(|time| {
        let late = client.with_timeout(time).begin::<_, u32>(1, &());
        let early = late.wait_timeout(Duration::from_millis(1)).expect_err("no reply comes");
        while !early.is_ready() {
            thread::yield_now();
        }
        let error = early.wait().unwrap_err();
        assert!(matches!(error, CallError::Unknown { .. }) && error.is_timeout(), "{error}");
        matches!(error, CallError::Unknown { transmissions: 2.., .. })
    });
    assert!(is_sent_again);
}

#[test]
fn calls_without_replies_leave_with_the_next_call() {
    let (tell, told) = std::sync::mpsc::channel();
    let server = stream_server(move |mut stream| {
        let mut buffer = [0; 65_536];
        let len = stream.read(&mut buffer).expect("calls");
        tell.send(buffer[..len].to_vec()).expect("the test waits");
        let last = &buffer[len - 40..len];
        stream.write_all(&record(&success(last, 6))).expect("the client reads");
        let _ = stream.read(&mut [0; 1]);
    });
    let client = bind("onc+tcp", server, &ClientOptions::new());
    (0..5).for_each(|_| client.send(1, &()).expect("it waits"));
    assert_eq!(client.call::<_, u32>(1, &()).unwrap(), 6);
    let arrived = told.recv().unwrap();
    assert_eq!(arrived.len(), 6 * 44, "six records in one segment");
}

#[test]
fn a_thousand_calls_are_in_flight_on_one_connection() {
    const CALLS: u32 = 1000;
    let server = stream_server(|mut stream| {
        let calls: Vec<_> = (0..CALLS).map(|_| read_record(&mut stream).expect("a call")).collect();
        for call in calls.iter().rev() {
            let (_, mut arguments) = Call::parse(call).expect("a call");
            let reply = success(call, arguments.value::<u32>().expect("a number") * 2);
            stream.write_all(&record(&reply)).expect("the client reads");
        }
        let _ = stream.read(&mut [0; 1]);
    });
    let client = bind("onc+tcp", server, &ClientOptions::new());
    let pending: Vec<_> = (0..CALLS - 2).map(|number| client.begin::<_, u32>(1, &number)).collect();
    // One is given up and one ends by its deadline; the server has them all the same.
    drop(client.begin::<_, u32>(1, &7));
    let short = client.with_timeout(Duration::from_millis(1)).begin::<_, u32>(1, &8);
    for (number, result) in (0..).zip(stoop::wait_all(pending)) {
        assert_eq!(result.unwrap(), 2 * number);
    }
    let short = short.wait();
    assert!(matches!(&short, Ok(16)) || short.as_ref().is_err_and(CallError::is_timeout), "{short:?}");
    assert_eq!(client.unmatched_replies(), 1 + u64::from(short.is_err()));
}

#[test]
fn calls_without_replies_leave_with_the_end_of_their_client() {
    let (tell, told) = channel();
    let server = stream_server(move |mut stream| {
        while let Some(call) = read_record(&mut stream) {
            tell.send(call).expect("the test waits");
        }
    });
    let client = bind("onc+tcp", server, &ClientOptions::new());
    (0..5).for_each(|_| client.send(1, &()).expect("it waits"));
    drop(client);
    (0..5).for_each(|_| assert_eq!(told.recv().unwrap().len(), 40));
}
