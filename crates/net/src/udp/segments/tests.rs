use crate::Patience;
use crate::udp::{CallerArrival, CallerSocket, Peer, Segments, SegmentsSending, ServerArrival, ServerSocket};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

const SECOND_NS: u64 = 1_000_000_000;

/// A server at `address` and a caller of it.
fn pair(address: &str) -> Option<(ServerSocket, CallerSocket)> {
    let server = match ServerSocket::bind(address.parse().unwrap()) {
        Ok(server) => server,
        Err(error) => {
            assert!(address.starts_with('['), "no IPv4: {error}");
            return None;
        }
    };
    let mut to = server.local_addr().unwrap();
    if to.ip().is_unspecified() {
        // Not the address that the kernel itself would answer from.
        to.set_ip(if to.is_ipv4() { Ipv4Addr::new(127, 0, 0, 2).into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    let caller = CallerSocket::connect(to).unwrap();
    Some((server, caller))
}

const ADDRESSES: [&str; 4] = ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"];

/// `len` bytes that tell where they are.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// All that the server receives until it has `wanted` bytes, datagram by datagram.
fn receive_at_server(server: &ServerSocket, wanted: usize) -> (Vec<Vec<u8>>, Vec<Segments>, Peer) {
    let mut buffer = vec![0; 1 << 16];
    let (mut datagrams, mut receipts, mut got) = (Vec::new(), Vec::new(), 0);
    loop {
        let ServerArrival::Datagram { len: segments, peer } =
            server.recv_segments(&mut buffer, Patience::Block).unwrap()
        else {
            panic!("a datagram was sent")
        };
        datagrams.extend(segments.split(&buffer).map(<[u8]>::to_vec));
        receipts.push(segments);
        got += segments.len;
        if got >= wanted {
            return (datagrams, receipts, peer);
        }
    }
}

fn receive_at_caller(caller: &CallerSocket, wanted: usize) -> (Vec<Vec<u8>>, Vec<Segments>) {
    let mut buffer = vec![0; 1 << 16];
    let (mut datagrams, mut receipts, mut got) = (Vec::new(), Vec::new(), 0);
    while got < wanted {
        match caller.recv_segments_about(&mut buffer, 10 * SECOND_NS, 10 * SECOND_NS).unwrap() {
            CallerArrival::Datagram(segments) => {
                datagrams.extend(segments.split(&buffer).map(<[u8]>::to_vec));
                receipts.push(segments);
                got += segments.len;
            }
            CallerArrival::Nothing => {}
            other => panic!("expected datagrams, got {other:?}"),
        }
    }
    (datagrams, receipts)
}

/// Lengths of all, and of each.
const SHAPES: [(usize, usize); 10] = [
    (1, 1),
    (100, 100),
    (100, 1000),
    (144, 72),
    (100, 72),
    (73, 72),
    (7 * 33 + 1, 33),
    (64 * 72, 72),
    (63 * 1023 + 1, 1023),
    (44 * 1472, 1472),
];

#[test]
fn datagrams_sent_together_arrive_cut_as_they_were_whether_they_are_received_together_or_not() {
    for address in ADDRESSES {
        let Some((server, caller)) = pair(address) else { continue };
        for gro in [false, true, false, true] {
            server.set_gro(gro).unwrap();
            caller.set_gro(gro).unwrap();
            for (len, segment) in SHAPES {
                let sent = pattern(len);
                let expected: Vec<_> = sent.chunks(segment).map(<[u8]>::to_vec).collect();

                assert_eq!(caller.send_segments(&sent, segment).unwrap(), SegmentsSending::Sent);
                let (datagrams, receipts, peer) = receive_at_server(&server, len);
                assert_eq!(datagrams, expected, "{len} bytes by {segment} at {address}, gro {gro}");
                assert_eq!(receipts.len(), if gro { 1 } else { expected.len() });

                // The caller hears only what leaves from the address that it called.
                assert_eq!(server.send_segments(&sent, segment, &peer).unwrap(), SegmentsSending::Sent);
                let (datagrams, receipts) = receive_at_caller(&caller, len);
                assert_eq!(datagrams, expected);
                assert_eq!(receipts.len(), if gro { 1 } else { expected.len() });
            }
        }
    }
}

#[test]
fn single_datagrams_and_empty_ones_come_by_themselves_though_they_might_come_together() {
    let (server, caller) = pair("127.0.0.1:0").unwrap();
    server.set_gro(true).unwrap();
    caller.send(&[1; 10]).unwrap();
    caller.send(&[]).unwrap();
    caller.send_segments(&[], 10).unwrap();
    caller.send(&[2; 10]).unwrap();
    let mut buffer = vec![0; 1 << 16];
    for expected in [10, 0, 0, 10] {
        let ServerArrival::Datagram { len, .. } = server.recv_segments(&mut buffer, Patience::Block).unwrap()
        else {
            panic!("sent above")
        };
        assert_eq!(len, Segments { len: expected, segment: expected });
        assert_eq!(len.count(), 1);
    }
    let nothing = server.recv_segments(&mut buffer, Patience::DontWait).unwrap();
    assert_eq!(nothing, ServerArrival::Nothing);
}

#[test]
fn count_and_split_agree() {
    let buffer = pattern(1000);
    for (len, segment, count) in [(1000, 1000, 1), (1000, 999, 2), (1000, 250, 4), (9, 4, 3)] {
        let segments = Segments { len, segment };
        assert_eq!((segments.count(), segments.split(&buffer).count()), (count, count));
    }
}

#[test]
fn loopback_carries_all_that_can_be_sent_together_in_one_piece() {
    let (server, caller) = pair("127.0.0.1:0").unwrap();
    assert_eq!(caller.largest_datagram().unwrap(), super::MAX_SEGMENTS_LEN);
    caller.send(b"call").unwrap();
    let (_, _, peer) = receive_at_server(&server, 4);
    assert_eq!(server.largest_datagram(&peer).unwrap(), super::MAX_SEGMENTS_LEN);
    let longest = pattern(super::MAX_SEGMENTS_LEN);
    assert_eq!(caller.send_segments(&longest, longest.len()).unwrap(), SegmentsSending::Sent);
    let (datagrams, ..) = receive_at_server(&server, longest.len());
    assert!(datagrams == [longest]);
}

#[test]
fn a_closed_port_is_reported_to_senders_of_many_packets_and_of_one() {
    let (server, caller) = pair("127.0.0.1:0").unwrap();
    drop(server);
    assert_eq!(caller.send_segments(&[0; 20], 10).unwrap(), SegmentsSending::Sent);
    assert_eq!(caller.send_segments(&[0; 20], 10).unwrap(), SegmentsSending::Refused);
    assert_eq!(caller.send_segments(&[0; 20], 10).unwrap(), SegmentsSending::Sent);
    let heard = caller.recv_segments_about(&mut [0; 64], 10 * SECOND_NS, 10 * SECOND_NS).unwrap();
    assert_eq!(heard, CallerArrival::Refused);
}

#[test]
fn waiting_for_many_ends_as_waiting_for_one_does() {
    for address in ADDRESSES {
        let Some((server, caller)) = pair(address) else { continue };
        let mut buffer = [0; 64];
        assert_eq!(caller.recv_segments(&mut buffer).unwrap(), CallerArrival::Nothing);
        assert_eq!(caller.recv_segments_about(&mut buffer, 0, 0).unwrap(), CallerArrival::Nothing);
        assert_eq!(caller.recv_segments_about(&mut buffer, 1, 1).unwrap(), CallerArrival::Nothing);
        server.wake_receivers().unwrap();
        assert_eq!(server.recv_segments(&mut buffer, Patience::Block).unwrap(), ServerArrival::WokenUp);
        caller.retire().unwrap();
        let end = caller.recv_segments_blocking(&mut buffer).unwrap();
        assert_eq!(end, CallerArrival::Datagram(Segments { len: 0, segment: 0 }));
    }
}

#[test]
fn what_does_not_fit_is_told() {
    let (server, caller) = pair("127.0.0.1:0").unwrap();
    server.set_gro(true).unwrap();
    caller.send_segments(&pattern(100), 40).unwrap();
    let arrival = server.recv_segments(&mut [0; 99], Patience::Block).unwrap();
    assert!(matches!(arrival, ServerArrival::TooLarge { len: 100, .. }), "{arrival:?}");
}

#[test]
fn more_than_can_be_sent_together_is_our_own_mistake() {
    let (_server, caller) = pair("127.0.0.1:0").unwrap();
    for (len, segment) in [(65, 1), (10, 0), (super::MAX_SEGMENTS_LEN + 1, 1472)] {
        let sent = std::panic::catch_unwind(|| caller.send_segments(&pattern(len), segment));
        assert!(sent.is_err(), "{len} bytes by {segment}");
    }
}

#[test]
fn room_for_what_arrives_is_granted_or_at_least_told() {
    let (server, caller) = pair("127.0.0.1:0").unwrap();
    for granted in [server.set_receive_buffer(1 << 22).unwrap(), caller.set_receive_buffer(1 << 22).unwrap()]
    {
        assert!(granted >= 4096, "{granted}");
    }
    assert_eq!(server.receive_buffer().unwrap(), server.set_receive_buffer(1 << 22).unwrap());
    assert_eq!(caller.receive_buffer().unwrap(), caller.set_receive_buffer(1 << 22).unwrap());
}

#[test]
fn forbidding_fragments_is_allowed_and_lets_single_packets_through() {
    for address in ADDRESSES {
        let Some((server, caller)) = pair(address) else { continue };
        for on in [true, false] {
            caller.set_dont_fragment(on).unwrap();
            server.set_dont_fragment(on).unwrap();
            caller.send(&[7; 1472]).unwrap();
            assert_eq!(receive_at_server(&server, 1472).0, [vec![7; 1472]]);
        }
    }
}

#[test]
fn dedicated_socket_sends_and_receives_many_as_well() {
    for address in ADDRESSES {
        let Some((server, caller)) = pair(address) else { continue };
        caller.send(b"first").unwrap();
        let (_, _, peer) = receive_at_server(&server, 5);
        let own = server.connected_to(&peer).unwrap();
        own.set_gro(true).unwrap();
        caller.send_segments(&pattern(100), 40).unwrap();
        let (datagrams, receipts) = receive_at_caller(&own, 100);
        assert_eq!((datagrams.len(), receipts.len()), (3, 1));
        own.send_segments(&pattern(80), 40).unwrap();
        assert_eq!(receive_at_caller(&caller, 80).0.len(), 2);
    }
}

#[test]
fn peer_without_a_called_address_is_answered() {
    let (server, caller) = pair("127.0.0.1:0").unwrap();
    let peer = Peer::from(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), caller.local_addr().unwrap().port()));
    server.send_segments(&pattern(80), 40, &peer).unwrap();
    assert_eq!(receive_at_caller(&caller, 80).0.len(), 2);
}
