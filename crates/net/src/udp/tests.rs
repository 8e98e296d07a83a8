use super::*;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsFd;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const SECOND_NS: u64 = 1_000_000_000;

fn server_at(ip: impl Into<IpAddr>) -> (ServerSocket, u16) {
    let server = ServerSocket::bind(SocketAddr::new(ip.into(), 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    (server, port)
}

fn caller_of(ip: impl Into<IpAddr>, port: u16) -> CallerSocket {
    CallerSocket::connect(SocketAddr::new(ip.into(), port)).unwrap()
}

fn datagram(arrival: ServerArrival) -> (usize, Peer) {
    match arrival {
        ServerArrival::Datagram { len, peer } => (len, peer),
        other => panic!("expected a datagram, got {other:?}"),
    }
}

/// Sends a datagram to the server and its answer back, and returns how the server saw the caller.
fn exchange(server: &ServerSocket, caller: &CallerSocket) -> Peer {
    let mut buffer = [0; 64];
    assert_eq!(caller.send(b"call").unwrap(), Sending::Sent);
    let (len, peer) = datagram(server.recv(&mut buffer, Patience::Block).unwrap());
    assert_eq!(&buffer[..len], b"call");
    server.send(b"the result", &peer).unwrap();
    assert_eq!(caller.recv_within(&mut buffer, 10 * SECOND_NS).unwrap(), CallerArrival::Datagram(10));
    assert_eq!(&buffer[..10], b"the result");
    peer
}

fn have_ipv6() -> bool {
    ServerSocket::bind("[::1]:0".parse().unwrap()).is_ok()
}

#[test]
fn server_on_one_address_answers_its_caller() {
    let (server, port) = server_at(Ipv4Addr::LOCALHOST);
    let caller = caller_of(Ipv4Addr::LOCALHOST, port);
    let peer = exchange(&server, &caller);
    assert_eq!((peer.addr(), peer.called()), (caller.local_addr().unwrap(), None));
}

#[test]
fn server_on_one_ipv6_address_answers_its_caller() {
    if !have_ipv6() {
        return;
    }
    let (server, port) = server_at(Ipv6Addr::LOCALHOST);
    let caller = caller_of(Ipv6Addr::LOCALHOST, port);
    let peer = exchange(&server, &caller);
    assert_eq!((peer.addr(), peer.called()), (caller.local_addr().unwrap(), None));
}

#[test]
fn server_on_all_addresses_answers_from_the_called_one() {
    let (server, port) = server_at(Ipv4Addr::UNSPECIFIED);
    for called in [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 9, 8, 7)] {
        // The connected caller receives only what comes from `called`; the kernel by itself would
        // answer from 127.0.0.1.
        let caller = caller_of(called, port);
        let peer = exchange(&server, &caller);
        assert_eq!((peer.addr(), peer.called()), (caller.local_addr().unwrap(), Some(called.into())));
    }
}

#[test]
fn server_on_all_ipv6_addresses_answers_from_the_called_one() {
    if !have_ipv6() {
        return;
    }
    let (server, port) = server_at(Ipv6Addr::UNSPECIFIED);
    let caller = caller_of(Ipv6Addr::LOCALHOST, port);
    let peer = exchange(&server, &caller);
    assert_eq!(
        (peer.addr(), peer.called()),
        (caller.local_addr().unwrap(), Some(Ipv6Addr::LOCALHOST.into()))
    );
}

#[test]
fn server_on_all_ipv6_addresses_answers_ipv4_from_the_called_address() {
    if !have_ipv6()
        || std::fs::read_to_string("/proc/sys/net/ipv6/bindv6only").is_ok_and(|only| only.trim() != "0")
    {
        return;
    }
    let (server, port) = server_at(Ipv6Addr::UNSPECIFIED);
    let called = Ipv4Addr::new(127, 0, 0, 2);
    let peer = exchange(&server, &caller_of(called, port));
    assert_eq!(peer.called(), Some(called.into()));
}

#[test]
fn datagram_that_does_not_fit_is_told_from_one_that_does() {
    for ip in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
        let (server, port) = server_at(ip);
        let caller = caller_of(Ipv4Addr::LOCALHOST, port);
        let mut buffer = [0; 8];

        caller.send(&[7; 9]).unwrap();
        let too_large = server.recv(&mut buffer, Patience::Block).unwrap();
        assert!(matches!(too_large, ServerArrival::TooLarge { len: 9, .. }), "{too_large:?}");

        caller.send(&[7; 8]).unwrap();
        let (len, peer) = datagram(server.recv(&mut buffer, Patience::Block).unwrap());
        assert_eq!((len, buffer), (8, [7; 8]));

        server.send(&[7; 9], &peer).unwrap();
        assert_eq!(caller.recv_within(&mut buffer, SECOND_NS).unwrap(), CallerArrival::TooLarge(9));
    }
}

#[test]
fn empty_datagram_is_a_datagram() {
    for ip in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
        let (server, port) = server_at(ip);
        caller_of(Ipv4Addr::LOCALHOST, port).send(&[]).unwrap();
        assert_eq!(datagram(server.recv(&mut [0; 8], Patience::Block).unwrap()).0, 0);
    }
}

#[test]
fn nothing_there_is_nothing() {
    for ip in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
        let (server, port) = server_at(ip);
        assert_eq!(server.recv(&mut [0; 8], Patience::DontWait).unwrap(), ServerArrival::Nothing);
        let caller = caller_of(Ipv4Addr::LOCALHOST, port);
        assert_eq!(caller.recv(&mut [0; 8]).unwrap(), CallerArrival::Nothing);
        assert_eq!(caller.recv_within(&mut [0; 8], 0).unwrap(), CallerArrival::Nothing);
        assert_eq!(caller.recv_within(&mut [0; 8], 1).unwrap(), CallerArrival::Nothing);
    }
}

#[test]
fn closed_port_is_told_once_and_the_socket_goes_on() {
    // A port of 127.0.0.1 may be another test's as soon as it is given back.
    let [_, a, b, c] = crate::host::random_bytes();
    let ip = Ipv4Addr::new(127, a, b, 1 + c % 254);
    let (server, port) = server_at(ip);
    let caller = caller_of(ip, port);
    drop(server);

    assert_eq!(caller.send(b"call").unwrap(), Sending::Sent);
    assert_eq!(caller.recv_within(&mut [0; 8], 10 * SECOND_NS).unwrap(), CallerArrival::Refused);
    assert_eq!(caller.recv(&mut [0; 8]).unwrap(), CallerArrival::Nothing);

    // The news may take a while, and the next to be sent is told of it.
    let told = std::iter::repeat_with(|| caller.send(b"call").unwrap()).find(|told| *told != Sending::Sent);
    assert_eq!(told, Some(Sending::Refused));
}

#[test]
fn a_port_is_closed_though_a_child_still_has_a_copy_of_its_socket() {
    for ip in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(127, 3, 2, 1)] {
        let (server, port) = server_at(ip);
        let caller = caller_of(if ip.is_unspecified() { Ipv4Addr::LOCALHOST } else { ip }, port);
        // What a child has between fork and exec.
        let copy = server.as_fd().try_clone_to_owned().unwrap();
        drop(server);
        assert_eq!(caller.send(b"call").unwrap(), Sending::Sent);
        assert_eq!(caller.recv_within(&mut [0; 8], 10 * SECOND_NS).unwrap(), CallerArrival::Refused);
        drop(copy);
    }
}

/// A port at which no program listens, of an address that no other test uses.
fn closed_port(ipv6: bool) -> SocketAddr {
    let [_, a, b, c] = crate::host::random_bytes();
    let ip = if ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::new(127, a, b, 1 + c % 254).into() };
    ServerSocket::bind(SocketAddr::new(ip, 0)).unwrap().local_addr().unwrap()
}

#[test]
fn datagram_sent_back_from_a_closed_port_begins_as_it_was_sent() {
    for ipv6 in [false, true] {
        let caller = CallerSocket::connect(closed_port(ipv6)).unwrap();
        let mut buffer = [0; 8];
        assert_eq!(caller.send(b"not kept").unwrap(), Sending::Sent);
        assert_eq!(caller.recv_within(&mut buffer, 10 * SECOND_NS).unwrap(), CallerArrival::Refused);
        assert_eq!(caller.sent_back(&mut buffer), None);

        caller.keep_sent_back().unwrap();
        for call in [&b"first call"[..], b"2nd"] {
            assert_eq!(caller.send(call).unwrap(), Sending::Sent);
            assert_eq!(caller.recv_within(&mut buffer, 10 * SECOND_NS).unwrap(), CallerArrival::Refused);
            let len = caller.sent_back(&mut buffer).unwrap();
            assert_eq!(buffer[..len], call[..call.len().min(8)]);
            assert_eq!(caller.sent_back(&mut buffer), None);
            assert_eq!(caller.recv(&mut buffer).unwrap(), CallerArrival::Nothing);
        }
    }
}

#[test]
fn waking_ends_every_blocked_receive_now_and_later() {
    for ip in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
        let (server, _) = server_at(ip);
        thread::scope(|scope| {
            let receivers: Vec<_> =
                (0..4).map(|_| scope.spawn(|| server.recv(&mut [0; 8], Patience::Block).unwrap())).collect();
            server.wake_receivers().unwrap();
            for receiver in receivers {
                assert_eq!(receiver.join().unwrap(), ServerArrival::WokenUp);
            }
        });
        assert_eq!(server.recv(&mut [0; 8], Patience::Block).unwrap(), ServerArrival::WokenUp);
        assert_eq!(server.recv(&mut [0; 8], Patience::DontWait).unwrap(), ServerArrival::Nothing);
    }
}

#[test]
fn notified_server_receives_one_empty_datagram_of_its_own() {
    let v4 = [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED].map(IpAddr::from);
    let v6 = [Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED].map(IpAddr::from);
    for ip in v4.into_iter().chain(v6) {
        let Ok(server) = ServerSocket::bind((ip, 0).into()) else {
            println!("SKIPPED: notified_server_receives_one_empty_datagram_of_its_own: no {ip} here");
            continue;
        };
        let port = server.local_addr().unwrap().port();
        server.notify_receiver();
        let Ok(ServerArrival::Datagram { len, peer }) = server.recv(&mut [0; 8], Patience::Block) else {
            panic!("{ip}: no datagram");
        };
        assert_eq!((len, peer.addr().port(), peer.ip().is_loopback()), (0, port, true));
        assert_eq!(server.recv(&mut [0; 8], Patience::DontWait).unwrap(), ServerArrival::Nothing);
    }
}

#[test]
fn woken_server_still_receives_what_is_queued_and_sends() {
    for ip in [Ipv4Addr::LOCALHOST, Ipv4Addr::UNSPECIFIED] {
        let (server, port) = server_at(ip);
        let caller = caller_of(Ipv4Addr::LOCALHOST, port);
        server.wake_receivers().unwrap();
        exchange(&server, &caller);
        assert_eq!(server.recv(&mut [0; 8], Patience::Block).unwrap(), ServerArrival::WokenUp);
    }
}

#[test]
fn second_server_on_a_port_is_told_that_it_is_in_use() {
    let (_server, port) = server_at(Ipv4Addr::LOCALHOST);
    let error = ServerSocket::bind(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn names_and_numbers_are_resolved() {
    assert_eq!(resolve("127.0.0.1:7400").unwrap(), ["127.0.0.1:7400".parse().unwrap()]);
    assert_eq!(resolve("[::1]:7400").unwrap(), ["[::1]:7400".parse().unwrap()]);
    assert!(resolve("localhost:7400").unwrap().iter().all(|address| address.ip().is_loopback()));
    for wrong in ["localhost", "no.such.name.invalid:1", ":", "127.0.0.1:99999"] {
        assert!(resolve(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn connected_socket_takes_over_its_peer_and_leaves_the_others() {
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
        if address.starts_with('[') && !have_ipv6() {
            continue;
        }
        let server = ServerSocket::bind(address.parse().unwrap()).unwrap();
        let mut to = server.local_addr().unwrap();
        if to.ip().is_unspecified() {
            to.set_ip(if to.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        let (busy, other) = (CallerSocket::connect(to).unwrap(), CallerSocket::connect(to).unwrap());
        let mut buffer = [0; 16];
        busy.send(b"first").unwrap();
        let (_, peer) = datagram(server.recv(&mut buffer, Patience::Block).unwrap());
        let own = server.connected_to(&peer).unwrap();
        busy.send(b"second").unwrap();
        other.send(b"third").unwrap();
        assert_eq!(own.recv_blocking(&mut buffer).unwrap(), CallerArrival::Datagram(6));
        while !server.has_waiting().unwrap() {
            thread::yield_now();
        }
        assert_eq!(datagram(server.recv(&mut buffer, Patience::Block).unwrap()).0, 5);
        assert!(!server.has_waiting().unwrap());
        own.send(b"answer").unwrap();
        assert_eq!(busy.recv_within(&mut buffer, 10 * SECOND_NS).unwrap(), CallerArrival::Datagram(6));
        drop(own);
        busy.send(b"again").unwrap();
        assert_eq!(datagram(server.recv(&mut buffer, Patience::Block).unwrap()).0, 5);
        assert!(ServerSocket::bind(server.local_addr().unwrap()).is_err(), "the port is still its own");
    }
}

#[test]
fn retired_socket_wakes_its_receiver_keeps_arrived_datagrams_and_receives_no_others() {
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let server = ServerSocket::bind(address.parse().unwrap()).unwrap();
        let caller = caller_of(Ipv4Addr::LOCALHOST, server.local_addr().unwrap().port());
        caller.send(b"call").unwrap();
        let mut buffer = [0; 16];
        let (_, peer) = datagram(server.recv(&mut buffer, Patience::Block).unwrap());
        let own = server.connected_to(&peer).unwrap();
        thread::scope(|scope| {
            let receiver = scope.spawn(|| own.recv_blocking(&mut [0; 16]).unwrap());
            own.retire().unwrap();
            assert_eq!(receiver.join().unwrap(), CallerArrival::Datagram(0));
        });
        caller.send(b"after").unwrap();
        assert_eq!(datagram(server.recv(&mut buffer, Patience::Block).unwrap()).0, 5);

        let own = server.connected_to(&peer).unwrap();
        caller.send(b"before").unwrap();
        let mut arrival = [PollFd::new(&own, PollFlags::IN)];
        assert_eq!(rustix::event::poll(&mut arrival, None).unwrap(), 1);
        own.retire().unwrap();
        assert_eq!(own.recv(&mut buffer).unwrap(), CallerArrival::Datagram(6));
    }
}

#[test]
fn nothing_that_is_sent_while_a_socket_is_retired_arrives_in_it() {
    let server = ServerSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let caller = caller_of(Ipv4Addr::LOCALHOST, server.local_addr().unwrap().port());
    caller.send(b"call").unwrap();
    let mut buffer = [0; 16];
    let (_, peer) = datagram(server.recv(&mut buffer, Patience::Block).unwrap());
    for _ in 0..300 {
        let own = server.connected_to(&peer).unwrap();
        let is_retired = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| while own.send(b"answer").is_ok() && !is_retired.load(Ordering::SeqCst) {});
            while caller.recv(&mut buffer).unwrap() == CallerArrival::Nothing {}
            own.retire().unwrap();
            is_retired.store(true, Ordering::SeqCst);
        });
        while caller.recv(&mut buffer).unwrap() != CallerArrival::Nothing {}
        assert_eq!(own.recv(&mut buffer).unwrap(), CallerArrival::Nothing);
    }
}

#[test]
fn what_arrived_in_a_connected_socket_is_told_with_its_sender() {
    for address in ["127.0.0.1:0", "0.0.0.0:0"] {
        let server = ServerSocket::bind(address.parse().unwrap()).unwrap();
        let caller = caller_of(Ipv4Addr::LOCALHOST, server.local_addr().unwrap().port());
        caller.send(b"call").unwrap();
        let mut buffer = [0; 16];
        let (_, peer) = datagram(server.recv(&mut buffer, Patience::Block).unwrap());
        let own = server.connected_to(&peer).unwrap();
        assert!(server.strays_in(&own, &peer).unwrap().is_empty());
        caller.send(b"stray").unwrap();
        caller.send(b"").unwrap();
        let mut strays = Vec::new();
        while strays.len() < 2 {
            strays.extend(server.strays_in(&own, &peer).unwrap());
        }
        assert_eq!(strays, [(b"stray".to_vec(), peer), (Vec::new(), peer)]);
    }
}
