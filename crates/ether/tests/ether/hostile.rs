//! Frames that no endpoint sends, and interfaces that change, over each backend.

use crate::network::raw::Raw;
use crate::network::{BACKENDS, Ethernet, GENERIC, NATIVE, if_possible, next, wait_until, wait_until_asleep};
use std::io::ErrorKind;
use stoop_ether::address::{Address, Mac};
use stoop_ether::frame::{Checksum, EtherType, OVERHEAD, Template, frame_len};
use stoop_ether::{Arrival, Backend, Counted, Endpoint, OpenError, Options, State};

/// A frame with a packet, to be damaged.
fn frame(from: Mac, to: Address, packet: &[u8]) -> Vec<u8> {
    let from = Address { mac: from, port: 40_000 };
    let template = Template::new(from, to, EtherType::default(), Checksum::Computed);
    let mut frame = vec![0; frame_len(packet.len())];
    frame[OVERHEAD..OVERHEAD + packet.len()].copy_from_slice(packet);
    template.complete(&mut frame, packet.len());
    frame
}

fn changed(frame: &[u8], change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = frame.to_vec();
    change(&mut frame);
    frame
}

fn with_server(test: &str, run: impl Fn(&Ethernet, &Endpoint)) {
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    for backend in BACKENDS {
        let server = ethernet.b.listen(7400, backend, &Options::of_many_lanes());
        if let Some(server) = if_possible(test, server) {
            println!("{server}");
            run(&ethernet, &server);
        }
    }
}

#[test]
fn padding_is_never_taken_for_data() {
    with_server("padding_is_never_taken_for_data", |ethernet, server| {
        let interface = ethernet.a.interface();
        let raw = ethernet.a.inside(|| Raw::open(interface.index));
        for packet_len in [1, 32, 36, 1000] {
            let packet = vec![7; packet_len];
            let sent = frame(interface.mac, server.address(), &packet);
            let shortest = sent[..OVERHEAD + packet_len].to_vec();
            for padding in [0, 1, 4, 100, 400] {
                raw.send(&[&shortest[..], &vec![0xff; padding]].concat());
                assert_eq!(next(server), packet, "{padding} bytes of padding");
            }
        }
        assert_eq!(server.counters(), Counted::default());
    });
}

#[test]
fn bad_frames_are_counted_or_left_to_the_kernel() {
    with_server("bad_frames_are_counted_or_left_to_the_kernel", |ethernet, server| {
        let interface = ethernet.a.interface();
        let raw = ethernet.a.inside(|| Raw::open(interface.index));
        let good = frame(interface.mac, server.address(), &[5; 50]);
        let malformed = [
            ("without a length", good[..18].to_vec()),
            ("cut off", good[..70].to_vec()),
            ("longer than it is", changed(&good, |frame| frame[18..20].copy_from_slice(&[0xff, 0xff]))),
            ("without a packet", changed(&good, |frame| frame[18..20].fill(0))),
            ("from no port", changed(&good, |frame| frame[16..18].fill(0))),
            ("from a group", changed(&good, |frame| frame[6] |= 1)),
        ];
        let corrupt = [
            changed(&good, |frame| frame[OVERHEAD + 10] ^= 4),
            changed(&good, |frame| frame[18] -= 1),
            changed(&good, |frame| frame[22] ^= 1),
        ];
        let for_others = [
            ("broadcast", changed(&good, |frame| frame[..6].fill(0xff))),
            ("multicast", changed(&good, |frame| frame[0] |= 1)),
            ("to another interface", changed(&good, |frame| frame[5] ^= 1)),
            ("to another port", changed(&good, |frame| frame[14] ^= 1)),
            ("of another type", changed(&good, |frame| frame[13] ^= 1)),
            ("with a VLAN tag", changed(&good, |frame| drop(frame.splice(12..12, [0x81, 0, 0, 5])))),
        ];
        for (_, frame) in malformed.iter().chain(&for_others) {
            raw.send(frame);
        }
        corrupt.iter().for_each(|frame| raw.send(frame));
        raw.send(&good);
        assert_eq!(next(server), [5; 50]);
        assert_eq!(server.receive(&mut [0; 2000]), Arrival::Nothing);
        let counted = server.counters();
        let expected = Counted {
            malformed: malformed.len() as u64,
            corrupt: corrupt.len() as u64,
            ..Counted::default()
        };
        assert_eq!(counted, expected);
    });
}

#[test]
fn random_bytes_behind_the_header_do_no_harm() {
    with_server("random_bytes_behind_the_header_do_no_harm", |ethernet, server| {
        let interface = ethernet.a.interface();
        let raw = ethernet.a.inside(|| Raw::open(interface.index));
        let good = frame(interface.mac, server.address(), &[5; 50]);
        let mut state = 1u64;
        let mut random = || {
            // Knuth's MMIX generator.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        let (mut buffer, mut bad) = (vec![0; 2000], 0);
        for round in 0..2000 {
            let len = usize::from(random()) * 5;
            raw.send(&good[..16].iter().copied().chain((0..len).map(|_| random())).collect::<Vec<_>>());
            if round % 50 == 49 {
                // Only a sender that has computed no checksum can be believed.
                while let Arrival::Packet { checksum, .. } = server.receive_many(&mut buffer) {
                    assert_eq!(checksum, Checksum::Omitted);
                }
                let counted = server.counters();
                assert!(counted.malformed + counted.corrupt > bad);
                bad = counted.malformed + counted.corrupt;
            }
        }
        raw.send(&good);
        assert_eq!(next(server), [5; 50]);
    });
}

#[test]
fn endpoint_survives_an_interface_that_goes_down_and_comes_up() {
    let test = "endpoint_survives_an_interface_that_goes_down_and_comes_up";
    with_server(test, |ethernet, server| {
        let caller = ethernet.a.connect(Backend::PacketRing, &Options::of_one_lane()).unwrap();
        let (to, back) = (
            caller.template(server.address(), Checksum::Computed),
            server.template(caller.address(), Checksum::Computed),
        );
        caller.send(&to, &[1]).unwrap();
        assert_eq!(next(server), [1]);

        ethernet.b.run("ip link set stoop-b down");
        assert_eq!(ethernet.b.interface().state, State::Down);
        let closed = ethernet.b.listen(7401, Backend::PacketRing, &Options::of_one_lane());
        assert!(matches!(closed, Err(OpenError::Down(_))), "{closed:?}");
        // A frame that AF_XDP has taken before it noticed leaves when the interface is up.
        let sent = [(); 2].map(|()| server.send(&back, &[2]));
        assert!(sent[1].is_err());
        if let Endpoint::PacketRing(_) = server {
            let error = server.receive_within(&mut [0; 100], None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NetworkDown);
        }
        let quiet = server.receive_within(&mut [0; 100], Some(1_000_000)).unwrap();
        assert_eq!(quiet, Arrival::Nothing, "the error is reported once");

        ethernet.b.run("ip link set stoop-b up");
        wait_until(|| ethernet.a.interface().state == State::Up && ethernet.b.interface().state == State::Up);
        // What was sent meanwhile may have stayed in the socket's queue.
        let mut buffer = [0; 100];
        wait_until(|| {
            caller.send(&to, &[3]).unwrap();
            matches!(server.receive(&mut buffer), Arrival::Packet { .. }) && buffer[0] == 3
        });
        wait_until(|| {
            server.send(&back, &[4]).unwrap();
            matches!(caller.receive(&mut buffer), Arrival::Packet { .. }) && buffer[0] == 4
        });
    });
}

#[test]
fn packet_whose_send_has_failed_never_leaves() {
    let test = "packet_whose_send_has_failed_never_leaves";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    for backend in BACKENDS {
        let caller = ethernet.a.connect(backend, &Options::of_many_lanes());
        let Some(caller) = if_possible(test, caller) else { continue };
        let server = ethernet.b.listen(7400, Backend::PacketRing, &Options::of_many_lanes()).unwrap();
        let to = caller.template(server.address(), Checksum::Computed);
        ethernet.a.run("ip link set stoop-a down");
        let failed: Vec<bool> = (0..4).map(|number| caller.send(&to, &[number]).is_err()).collect();
        assert!(failed[3], "{caller}: the interface is down");
        ethernet.a.run("ip link set stoop-a up");
        wait_until(|| ethernet.a.interface().state == State::Up && ethernet.b.interface().state == State::Up);
        // The socket of a packet ring reports once more that the interface was down.
        wait_until(|| caller.send(&to, &[9]).is_ok());
        loop {
            let number = usize::from(next(&server)[0]);
            if number == 9 {
                break;
            }
            assert!(!failed[number], "{caller}: packet {number} has left later, and its send has failed");
        }
    }
}

#[test]
fn endpoint_of_an_interface_that_is_gone_reports_it() {
    let test = "endpoint_of_an_interface_that_is_gone_reports_it";
    for backend in BACKENDS {
        let Some(ethernet) = Ethernet::make(test, 1500) else { return };
        let server = ethernet.b.listen(7400, backend, &Options::of_many_lanes());
        let Some(server) = if_possible(test, server) else { continue };
        ethernet.b.run("ip link delete stoop-b");
        let back = server.template(Address { mac: Mac([2; 6]), port: 1 }, Checksum::Computed);
        assert!(server.send(&back, &[1]).is_err());
        for (packets, segment) in [(10, 100), (3, 1400)] {
            let mut failures = Vec::new();
            let bytes = vec![1; packets * segment];
            server.send_many(&back, &bytes, segment, |position, _| failures.push(position));
            assert_eq!(failures, (0..packets).collect::<Vec<_>>(), "{server}: none of them leaves");
        }
        assert!(server.receive_within(&mut [0; 100], None).is_err(), "{server}");
        let gone = ethernet.b.listen(7400, backend, &Options::of_many_lanes());
        assert!(matches!(gone, Err(OpenError::NoInterface(_))), "{gone:?}");
    }
}

#[test]
fn endpoint_goes_on_at_an_interface_that_was_removed_and_made_again() {
    let test = "endpoint_goes_on_at_an_interface_that_was_removed_and_made_again";
    for backend in BACKENDS {
        let Some(ethernet) = Ethernet::make(test, 1500) else { return };
        let options = Options { frames: 64, ..Options::of_many_lanes() };
        let Some(server) = if_possible(test, ethernet.b.listen(7400, backend, &options)) else { continue };
        for round in 0..10u8 {
            ethernet.b.run("ip link delete stoop-b");
            let nowhere = server.template(Address { mac: Mac([2; 6]), port: 1 }, Checksum::Computed);
            // More than there are chunks: what a dead socket keeps comes back with the next one.
            for _ in 0..2 * server.frames() {
                server.send(&nowhere, &[round]).unwrap_err();
            }
            ethernet.make_again(1 + u32::from(round) % 3);
            let interface = ethernet.b.interface();
            ethernet.b.inside(|| server.follow(&interface)).unwrap();
            assert_eq!(ethernet.b.interface().xdp.is_some(), backend != Backend::PacketRing);
            assert_eq!(server.address().mac, interface.mac);

            let caller = ethernet.a.connect(Backend::PacketRing, &Options::of_one_lane()).unwrap();
            let to = caller.template(server.address(), Checksum::Computed);
            let back = server.template(caller.address(), Checksum::Computed);
            for number in 0..200 {
                caller.send(&to, &[round, number]).unwrap();
                assert_eq!(next(&server), [round, number], "{server}");
                server.send(&back, &[number, round]).unwrap();
                assert_eq!(next(&caller), [number, round], "{server}");
            }
        }
    }
}

/// Packets go from either end to the other.
fn check(caller: &Endpoint, server: &Endpoint) {
    let (to, back) = (
        caller.template(server.address(), Checksum::Computed),
        server.template(caller.address(), Checksum::Computed),
    );
    for number in 0..200 {
        caller.send(&to, &[number, 1]).unwrap();
        assert_eq!(next(server), [number, 1], "{caller} to {server}");
        server.send(&back, &[number, 2]).unwrap();
        assert_eq!(next(caller), [number, 2], "{server} to {caller}");
    }
}

#[test]
fn endpoint_goes_on_at_an_interface_that_has_been_in_another_namespace() {
    let test = "endpoint_goes_on_at_an_interface_that_has_been_in_another_namespace";
    for backend in BACKENDS {
        let Some(ethernet @ Ethernet { a, b }) = &Ethernet::make(test, 1500) else { return };
        let options = Options::of_many_lanes();
        let Some(server) = if_possible(test, b.listen(7400, backend, &options)) else { continue };
        let mut caller = a.connect(backend, &options).unwrap();
        for round in 0..6 {
            let (side, endpoint) = if round % 2 == 0 { (a, &caller) } else { (b, &server) };
            assert!(!endpoint.has_lost_its_interface());
            side.move_away_and_back();
            assert!(endpoint.has_lost_its_interface(), "{endpoint}");
            wait_until(|| [a, b].iter().all(|side| side.interface().state == State::Up));
            let interface = side.interface();
            // The kernel frees the queue of a closed AF_XDP socket in the background.
            wait_until(|| match side.inside(|| endpoint.follow(&interface)) {
                Err(OpenError::XdpTaken(_)) => false,
                followed => followed.map(|()| true).unwrap(),
            });
            if let (Endpoint::PacketRing(_), 0) = (endpoint, round % 2) {
                // Beside the old one, which is in a fan-out group that no frame reaches.
                caller = ethernet.a.connect(backend, &options).unwrap();
            }
            check(&caller, &server);
        }
        let other = b.listen_once(7400, Backend::PacketRing, &options);
        assert!(matches!(other, Err(OpenError::PortTaken(7400))), "{other:?}");
    }
}

#[test]
fn callers_endpoint_on_af_xdp_goes_on_with_another_hardware_address_and_at_another_interface() {
    let test = "callers_endpoint_on_af_xdp_goes_on_with_another_hardware_address_and_at_another_interface";
    for backend in [GENERIC, NATIVE] {
        let Some(ethernet) = Ethernet::make(test, 1500) else { return };
        let options = Options::of_many_lanes();
        let Some(caller) = if_possible(test, ethernet.a.connect(backend, &options)) else { continue };
        let server = ethernet.b.listen(7400, Backend::PacketRing, &options).unwrap();
        let port = caller.address().port;
        for round in 0..6u8 {
            if round % 2 == 0 {
                ethernet.a.run(&format!("ip link set stoop-a address 02:00:00:00:03:{round:02x}"));
            } else {
                ethernet.a.run("ip link delete stoop-a");
                ethernet.make_again(1);
                let interface = ethernet.b.interface();
                ethernet.b.inside(|| server.follow(&interface)).unwrap();
            }
            let interface = ethernet.a.interface();
            ethernet.a.inside(|| caller.follow(&interface)).unwrap();
            assert_eq!(caller.address(), Address { mac: interface.mac, port });
            let to = caller.template(server.address(), Checksum::Computed);
            let back = server.template(caller.address(), Checksum::Computed);
            for number in 0..200 {
                caller.send(&to, &[round, number]).unwrap();
                assert_eq!(next(&server), [round, number], "{caller}");
                server.send(&back, &[number, round]).unwrap();
                assert_eq!(next(&caller), [number, round], "{caller}");
            }
        }
    }
}

#[test]
fn endpoint_that_could_not_go_on_does_so_at_the_next_attempt() {
    let test = "endpoint_that_could_not_go_on_does_so_at_the_next_attempt";
    for backend in [GENERIC, NATIVE] {
        let Some(ethernet) = Ethernet::make(test, 1500) else { return };
        let options = Options::of_many_lanes();
        let Some(server) = if_possible(test, ethernet.b.listen(7400, backend, &options)) else { continue };
        ethernet.b.run("ip link delete stoop-b");
        ethernet.make_again(1);
        let other = ethernet.b.listen(7401, GENERIC, &options).unwrap();
        let interface = ethernet.b.interface();
        let taken = ethernet.b.inside(|| server.follow(&interface));
        assert!(matches!(taken, Err(OpenError::XdpTaken(_))), "{taken:?}");
        let caller = ethernet.a.connect(Backend::PacketRing, &Options::of_one_lane()).unwrap();
        let back = server.template(caller.address(), Checksum::Computed);
        server.send(&back, &[1]).unwrap_err();
        assert_eq!(server.receive(&mut [0; 100]), Arrival::Nothing);
        drop(other);
        wait_until(|| ethernet.b.inside(|| server.follow(&interface)).is_ok());
        caller.send(&caller.template(server.address(), Checksum::Computed), &[2]).unwrap();
        assert_eq!(next(&server), [2]);
        server.send(&back, &[3]).unwrap();
        assert_eq!(next(&caller), [3]);
    }
}

#[test]
fn new_hardware_address_needs_a_new_endpoint() {
    let test = "new_hardware_address_needs_a_new_endpoint";
    with_server(test, |ethernet, server| {
        let caller = ethernet.a.connect(Backend::PacketRing, &Options::of_one_lane()).unwrap();
        let old = server.address();
        let own = ethernet.b.interface().mac;
        ethernet.b.run("ip link set stoop-b address 02:00:00:00:00:77");
        caller.send(&caller.template(old, Checksum::Computed), &[1]).unwrap();
        if let Endpoint::PacketRing(_) = server {
            let old = server.receive_within(&mut [0; 100], Some(1_000_000)).unwrap();
            assert_eq!(old, Arrival::Nothing);
        }
        let interface = ethernet.b.interface();
        assert_eq!(interface.mac, "02:00:00:00:00:77".parse().unwrap());
        let new = ethernet.b.listen(7401, Backend::PacketRing, &Options::of_one_lane()).unwrap();
        caller.send(&caller.template(new.address(), Checksum::Computed), &[2]).unwrap();
        assert_eq!(next(&new), [2]);
        ethernet.b.run(&format!("ip link set stoop-b address {own}"));
    });
}

/// Packet sockets at side `a` that receive frames of ours; others reserve ports.
fn packet_sockets(ethernet: &Ethernet) -> usize {
    let table = ethernet.a.inside(|| std::fs::read_to_string("/proc/thread-self/net/packet").unwrap());
    // sk, RefCnt, Type, Proto, …
    table.lines().filter(|line| line.split_whitespace().nth(3) == Some("88b5")).count()
}

#[test]
fn socket_of_an_endpoint_at_an_interface_that_is_gone_is_closed_when_it_is_retired_or_dropped() {
    let test = "socket_of_an_endpoint_at_an_interface_that_is_gone_is_closed_when_it_is_retired_or_dropped";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let connect = || ethernet.a.connect(Backend::PacketRing, &Options::of_one_lane()).unwrap();
    let [first, second, third] = [(); 3].map(|()| connect());
    ethernet.a.run("ip link delete stoop-a");
    first.retire();
    wait_until(|| packet_sockets(&ethernet) == 2);
    drop(second);
    wait_until(|| packet_sockets(&ethernet) == 1);
    ethernet.make_again(1);
    let fourth = connect();
    assert_eq!(packet_sockets(&ethernet), 2);
    drop((first, third));
    wait_until(|| packet_sockets(&ethernet) == 1);
    drop(fourth);
    wait_until(|| packet_sockets(&ethernet) == 0);
}

#[test]
fn socket_of_a_retired_endpoint_is_closed_with_the_last_of_its_group_while_a_thread_uses_it() {
    let test = "socket_of_a_retired_endpoint_is_closed_with_the_last_of_its_group_while_a_thread_uses_it";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let options = Options::of_one_lane();
    let [first, second] = [(); 2].map(|()| ethernet.a.connect(Backend::PacketRing, &options).unwrap());
    let (to, back) = (
        second.template(first.address(), Checksum::Computed),
        first.template(second.address(), Checksum::Computed),
    );
    let sockets = || packet_sockets(&ethernet);
    assert_eq!(sockets(), 2);
    first.retire();
    assert_eq!(sockets(), 2, "the kernel would give another number to the second one");
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            tell.send(rustix::thread::gettid()).unwrap();
            assert_eq!(second.receive_within(&mut [0; 100], None).unwrap(), Arrival::Nothing);
        });
        wait_until_asleep(told.recv().unwrap());
        second.retire();
    });
    wait_until(|| sockets() == 0);
    for (endpoint, template) in [(&first, &back), (&second, &to)] {
        endpoint.retire();
        assert_eq!(endpoint.receive(&mut [0; 100]), Arrival::Nothing);
        assert_eq!(endpoint.receive_within(&mut [0; 100], None).unwrap(), Arrival::Nothing);
        let refused = endpoint.send(template, &[2]).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::NotConnected);
        endpoint.send_many(template, &[3; 200], 100, |_, why| assert_eq!(why.kind(), refused.kind()));
    }
}

#[test]
fn longer_frame_than_a_chunk_is_dropped_and_counted() {
    let test = "longer_frame_than_a_chunk_is_dropped_and_counted";
    let Some(ethernet) = Ethernet::make(test, 9000) else { return };
    let server = ethernet.b.listen(7400, GENERIC, &Options::of_many_lanes());
    let Some(server) = if_possible(test, server) else { return };
    let caller = ethernet.a.connect(Backend::PacketRing, &Options::of_one_lane()).unwrap();
    assert!(server.largest_packet() < caller.largest_packet());
    let to = caller.template(server.address(), Checksum::Computed);
    caller.send(&to, &vec![1; caller.largest_packet()]).unwrap();
    caller.send(&to, &vec![2; server.largest_packet()]).unwrap();
    assert_eq!(next(&server), vec![2; server.largest_packet()]);
    assert_eq!(server.counters().overflowed, 1);
}

#[test]
fn longer_frame_than_a_ring_has_room_for_is_dropped_and_counted() {
    let test = "longer_frame_than_a_ring_has_room_for_is_dropped_and_counted";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let server = ethernet.b.listen(7400, Backend::PacketRing, &Options::of_many_lanes()).unwrap();
    // The ring is for frames of the MTU that the interface had.
    for side in [&ethernet.a, &ethernet.b] {
        side.run(&format!("ip link set {} mtu 9000", side.name));
    }
    let interface = ethernet.a.interface();
    let raw = ethernet.a.inside(|| Raw::open(interface.index));
    for len in [1600, 4000, 8990] {
        raw.send(&frame(interface.mac, server.address(), &vec![7; len]));
        raw.send(&frame(interface.mac, server.address(), &[8; 100]));
        assert_eq!(next(&server), [8; 100], "behind a packet of {len} bytes");
    }
    let counted = server.counters();
    assert_eq!((counted.malformed, counted.overflowed), (3, 0), "{counted:?}");
}
