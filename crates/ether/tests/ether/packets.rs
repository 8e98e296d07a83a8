//! Packets between two endpoints on a private Ethernet, over each backend.

use crate::network::{BACKENDS, Ethernet, GENERIC, NATIVE, if_possible, next, wait_until, wait_until_asleep};
use rustix::fd::OwnedFd;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use std::collections::HashSet;
use std::fs;
use std::io::IoSlice;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use stoop_ether::frame::Checksum;
use stoop_ether::ports::BLOCK;
use stoop_ether::{Arrival, Backend, Endpoint, Interface, Mode, OpenError, Options, Xdp, XdpOptions};

fn packet(len: usize, content: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(7) ^ content).collect()
}

/// Endpoints at both sides, over each backend and with each MTU.
fn with_pairs(test: &str, run: impl Fn(&Endpoint, &Endpoint)) {
    for mtu in [1500, 9000] {
        let Some(ethernet) = Ethernet::make(test, mtu) else { return };
        for backend in BACKENDS {
            let options = Options { frames: 512, ..Options::of_many_lanes() };
            let Some(server) = if_possible(test, ethernet.b.listen(7400, backend, &options)) else {
                continue;
            };
            let caller = ethernet.a.connect(backend, &options).unwrap();
            println!("MTU {mtu}, {server}");
            run(&caller, &server);
        }
    }
}

#[test]
fn packets_of_all_lengths_arrive_with_their_bytes_and_their_sender() {
    with_pairs("packets_of_all_lengths_arrive_with_their_bytes_and_their_sender", |caller, server| {
        let largest = caller.largest_packet();
        assert!(largest == 1490 || largest > 3800, "{largest}");
        for checksum in [Checksum::Computed, Checksum::Omitted] {
            let to = caller.template(server.address(), checksum);
            for len in [1, 32, 35, 36, 37, 232, 233, 1440, 1472, 1490, largest] {
                let sent = packet(len, 3);
                caller.send(&to, &sent).unwrap();
                let mut buffer = vec![0; largest];
                wait_until(|| match server.receive(&mut buffer) {
                    Arrival::Packet { len: received, from, checksum: verified } => {
                        assert_eq!((received, from, verified), (len, caller.address(), checksum));
                        assert_eq!(buffer[..len], sent);
                        let back = server.template(from, checksum);
                        server.send(&back, &buffer[..len]).unwrap();
                        true
                    }
                    Arrival::TooLarge(_) => panic!(),
                    Arrival::Nothing => false,
                });
                assert_eq!(next(caller), sent, "{len} bytes, and back");
            }
        }
        let to = caller.template(server.address(), Checksum::Computed);
        for too_long in [largest + 1, 65_535, 100_000] {
            let error = caller.send(&to, &packet(too_long, 1)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE), "{too_long} bytes");
        }
        let mut failures = Vec::new();
        caller.send_many(&to, &packet(2 * largest + 3, 1), largest + 1, |place, _| failures.push(place));
        assert_eq!(failures, [0, 1], "the last packet is short enough");
        assert_eq!(caller.counters().not_sent, 3 + 2);
        assert_eq!(server.counters().malformed + server.counters().corrupt + server.counters().overflowed, 0);
    });
}

#[test]
fn packets_that_leave_together_arrive_together() {
    with_pairs("packets_that_leave_together_arrive_together", |caller, server| {
        let to = caller.template(server.address(), Checksum::Computed);
        let segment = 1472.min(caller.largest_packet());
        let bytes = packet(20 * segment + 100, 9);
        let mut room = caller.room();
        for round in 0..5 {
            for (packet, bytes) in room.packets(bytes.len(), segment).zip(bytes.chunks(segment)) {
                packet.copy_from_slice(bytes);
            }
            caller.send_room(&to, &mut room, |position, error| panic!("{position}: {error}"));
            assert_eq!(all(server, bytes.len()), bytes, "round {round}");
        }
        caller.send_many(&to, &bytes[..64 * 32], 32, |position, error| panic!("{position}: {error}"));
        assert_eq!(all(server, 64 * 32), bytes[..64 * 32]);
        let (head, tail) = bytes.split_at(77);
        let pieces = [IoSlice::new(head), IoSlice::new(tail)];
        caller.send_gathered(&to, &pieces, segment, |position, error| panic!("{position}: {error}"));
        assert_eq!(all(server, bytes.len()), bytes);
        assert_eq!(caller.counters().not_sent, 0);
    });
}

/// Receives `len` bytes, as they come together.
fn all(endpoint: &Endpoint, len: usize) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    wait_until(|| {
        if let Arrival::Packet { len, .. } =
            endpoint.receive_many_within(&mut buffer, Some(10_000_000)).unwrap()
        {
            bytes.extend(len.split(&buffer).flatten());
        }
        bytes.len() >= len
    });
    bytes
}

#[test]
fn sleeping_receiver_is_woken_by_a_packet_by_another_thread_and_by_its_limit() {
    with_pairs(
        "sleeping_receiver_is_woken_by_a_packet_by_another_thread_and_by_its_limit",
        |caller, server| {
            let mut buffer = [0; 9000];
            let start = Instant::now();
            let limit = Duration::from_millis(5);
            assert_eq!(
                server.receive_within(&mut buffer, Some(limit.as_nanos() as u64)).unwrap(),
                Arrival::Nothing
            );
            assert!(start.elapsed() >= limit);

            std::thread::scope(|scope| {
                let (tell, told) = mpsc::channel();
                let waiting = scope.spawn(move || {
                    tell.send(rustix::thread::gettid()).unwrap();
                    let first = next(server);
                    tell.send(rustix::thread::gettid()).unwrap();
                    // Sleeps until it is woken.
                    let second = server.receive_within(&mut [0; 100], None).unwrap();
                    (first, second)
                });
                wait_until_asleep(told.recv().unwrap());
                let to = caller.template(server.address(), Checksum::Computed);
                caller.send(&to, &[5; 40]).unwrap();
                wait_until_asleep(told.recv().unwrap());
                server.wake();
                assert_eq!(waiting.join().unwrap(), (vec![5; 40], Arrival::Nothing));
            });
            let start = Instant::now();
            assert_eq!(server.receive_within(&mut buffer, None).unwrap(), Arrival::Nothing);
            assert!(start.elapsed() < Duration::from_secs(10), "woken for good");
        },
    );
}

#[test]
fn notice_ends_one_sleep_and_waking_ends_all() {
    with_pairs("notice_ends_one_sleep_and_waking_ends_all", |_, server| {
        let sleep = |limit: Option<Duration>| {
            let start = Instant::now();
            let limit = limit.map(|limit| limit.as_nanos() as u64);
            assert_eq!(server.receive_within(&mut [0; 100], limit).unwrap(), Arrival::Nothing);
            start.elapsed()
        };
        server.notify();
        sleep(None);
        let limit = Duration::from_millis(5);
        assert!(sleep(Some(limit)) >= limit, "the notice has been taken");
        server.notify();
        server.wake();
        for _ in 0..3 {
            sleep(None);
        }
    });
}

#[test]
fn burst_of_ten_thousand_frames_arrives_in_order_or_is_counted() {
    const COUNT: u32 = 10_000;
    let test = "burst_of_ten_thousand_frames_arrives_in_order_or_is_counted";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    for backend in BACKENDS {
        for frames in [256, 16_384] {
            let options = Options { frames, ..Options::of_many_lanes() };
            let Some(server) = if_possible(test, ethernet.b.listen(7400, backend, &options)) else {
                continue;
            };
            let caller = ethernet.a.connect(backend, &options).unwrap();
            let to = caller.template(server.address(), Checksum::Computed);
            for number in 0..COUNT {
                // A refusal is counted; the queue of the other end may be full for a moment.
                let _ = caller.send(&to, &[&number.to_le_bytes()[..], &[0; 36]].concat());
            }
            let (mut received, mut last) = (0, None);
            let mut buffer = [0; 100];
            while let Arrival::Packet { .. } = server.receive_within(&mut buffer, Some(100_000_000)).unwrap()
            {
                let number = u32::from_le_bytes(buffer[..4].try_into().unwrap());
                assert!(last < Some(number), "in order, none twice");
                (received, last) = (received + 1, Some(number));
            }
            let (ours, theirs) = (server.counters(), caller.counters());
            println!("{server}, ring of {}: {received} received, {ours:?}, {theirs:?}", server.frames());
            assert_eq!(received + ours.overflowed + theirs.not_sent, u64::from(COUNT));
            if frames > COUNT as usize {
                assert_eq!(received, u64::from(COUNT), "the ring has room for all");
            } else {
                assert_eq!(received as usize, server.frames());
            }
        }
    }
}

#[test]
fn endpoints_of_one_interface_receive_their_own_packets_only() {
    let test = "endpoints_of_one_interface_receive_their_own_packets_only";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let options = Options::of_one_lane();
    let mut servers = vec![
        ethernet.b.listen(7400, Backend::PacketRing, &options).unwrap(),
        ethernet.b.listen(7401, Backend::PacketRing, &options).unwrap(),
    ];
    servers.extend(if_possible(test, ethernet.b.listen(7402, GENERIC, &options)));
    let taken = ethernet.b.listen_once(7400, Backend::PacketRing, &options);
    assert!(matches!(taken, Err(OpenError::PortTaken(7400))));
    if servers.len() == 3 {
        for backend in [GENERIC, NATIVE] {
            let second = ethernet.b.listen_once(7403, backend, &options);
            assert!(matches!(&second, Err(OpenError::XdpTaken(name)) if name == "stoop-b"), "{second:?}");
        }
        ethernet.b.listen(7403, Backend::PacketRing, &options).unwrap();
    }
    let callers: Vec<_> =
        (0..64).map(|_| ethernet.a.connect(Backend::PacketRing, &options).unwrap()).collect();

    let exchange = |caller: &Endpoint, content: u8| {
        for (number, server) in servers.iter().enumerate() {
            let number = number as u8;
            caller.send(&caller.template(server.address(), Checksum::Computed), &[content, number]).unwrap();
            assert_eq!(next(server), [content, number]);
            server.send(&server.template(caller.address(), Checksum::Computed), &[number, content]).unwrap();
            assert_eq!(next(caller), [number, content]);
        }
    };
    let mut callers: Vec<_> = callers.into_iter().map(Some).collect();
    for (number, caller) in callers.iter().flatten().enumerate() {
        exchange(caller, number as u8);
    }
    // Endpoints that go leave the ports of the others alone, and new ones take their places.
    let left: Vec<_> = [0, 5, 63].iter().map(|&number| callers[number].take().unwrap().address()).collect();
    for (number, caller) in callers.iter().flatten().enumerate() {
        exchange(caller, number as u8);
    }
    // A late packet for an endpoint that has gone is not for the next one at its port.
    servers[0].send(&servers[0].template(left[0], Checksum::Computed), &[9]).unwrap();
    let again: Vec<_> = (0..3).map(|_| ethernet.a.connect(Backend::PacketRing, &options).unwrap()).collect();
    assert!(again.iter().map(Endpoint::address).eq(left));
    for caller in &again {
        exchange(caller, 77);
    }
    let mut buffer = [0; 1500];
    for endpoint in again.iter().chain(callers.iter().flatten()).chain(&servers) {
        assert_eq!(endpoint.receive(&mut buffer), Arrival::Nothing);
        assert_eq!(endpoint.counters(), Default::default());
    }
}

#[test]
fn endpoints_of_rings_of_all_lengths_and_threads_are_one_group_as_long_as_it_has_room() {
    let test = "endpoints_of_rings_of_all_lengths_and_threads_are_one_group_as_long_as_it_has_room";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let side = &ethernet.a;
    // Two lengths in turn, by eight threads at once.
    let open = |count: usize| -> Vec<Endpoint> {
        let some = |frames| {
            let options = Options { frames, ..Options::of_one_lane() };
            let connect = move |_| side.connect(Backend::PacketRing, &options).unwrap();
            (0..count / 8).map(connect).collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|thread| scope.spawn(move || some(64 << (thread % 2)))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        })
    };
    // A group has a block of ports.
    let blocks = |endpoints: &[Endpoint]| -> HashSet<u16> {
        endpoints.iter().map(|endpoint| endpoint.address().port / BLOCK).collect()
    };
    let first = open(64);
    assert_eq!(blocks(&first).len(), 1);
    let second = open(64);
    assert_eq!(blocks(&second).len(), 1);
    assert_ne!(blocks(&first), blocks(&second));
    let further: Vec<_> = (2..8).map(|_| open(64)).collect();
    assert!(further.iter().all(|endpoints| blocks(endpoints).len() == 1));
    let more = ethernet.a.connect(Backend::PacketRing, &Options::of_one_lane());
    assert!(matches!(more, Err(OpenError::NoneFree)), "{more:?}");

    let server = ethernet.b.listen(7400, Backend::PacketRing, &Options::of_one_lane()).unwrap();
    for (number, caller) in first.iter().chain(&second).enumerate() {
        server.send(&server.template(caller.address(), Checksum::Computed), &[number as u8 + 1]).unwrap();
    }
    for (number, caller) in first.iter().chain(&second).enumerate() {
        assert_eq!(next(caller), [number as u8 + 1]);
    }
}

#[test]
fn endpoints_of_two_namespaces_whose_interfaces_are_alike_are_apart() {
    let test = "endpoints_of_two_namespaces_whose_interfaces_are_alike_are_apart";
    let Some(first) = Ethernet::make(test, 1500) else { return };
    let Some(second) = Ethernet::make(test, 1500) else { return };
    let both = [first, second].map(|ethernet| {
        ethernet.a.run("ip link set stoop-a address 02:00:00:00:00:0a");
        let server = ethernet.b.listen(7400, Backend::PacketRing, &Options::of_one_lane()).unwrap();
        let callers =
            [(); 2].map(|()| ethernet.a.connect(Backend::PacketRing, &Options::of_one_lane()).unwrap());
        (ethernet, server, callers)
    });
    let [a, b] = [&both[0].0, &both[1].0].map(|ethernet| ethernet.a.interface());
    assert_eq!((a.index, a.mac, a.mtu, &a.name), (b.index, b.mac, b.mtu, &b.name));
    assert_ne!(a.namespace, b.namespace);
    for (number, (_, server, callers)) in both.iter().enumerate() {
        for caller in callers {
            let content = [number as u8];
            caller.send(&caller.template(server.address(), Checksum::Computed), &content).unwrap();
            assert_eq!(next(server), content);
            server.send(&server.template(caller.address(), Checksum::Computed), &content).unwrap();
            assert_eq!(next(caller), content);
        }
    }
}

#[test]
fn check_of_xdp_tells_what_opening_would_find_and_touches_nothing() {
    let test = "check_of_xdp_tells_what_opening_would_find_and_touches_nothing";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let options = Options::of_many_lanes();
    let before = ethernet.b.interface();
    let check = || ethernet.b.inside(|| Xdp::check(&Interface::by_name(ethernet.b.name)?, &options));
    match check() {
        Ok(()) => {}
        Err(why @ (OpenError::Unsupported { .. } | OpenError::NotPermitted { .. })) => {
            return println!("SKIPPED: {test}: {why}");
        }
        Err(why) => panic!("{why}"),
    }
    assert_eq!(ethernet.b.interface(), before);
    let other_queue = Backend::Xdp(XdpOptions { queue: Some(3), ..XdpOptions::new(Mode::Generic) });
    let none = ethernet.b.listen(7400, other_queue, &options);
    assert!(matches!(none, Err(OpenError::Unsupported { .. })), "the interface has one queue: {none:?}");
    let _held = ethernet.b.listen(7400, GENERIC, &options).unwrap();
    let taken = check();
    assert!(matches!(taken, Err(OpenError::XdpTaken(_))), "{taken:?}");
    ethernet.b.run("ip link set stoop-b down");
    let down = check();
    assert!(matches!(down, Err(OpenError::Down(_))), "{down:?}");
}

#[test]
fn busy_polling_receives() {
    let test = "busy_polling_receives";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    for mode in [Mode::Generic, Mode::Native] {
        let backend = Backend::Xdp(XdpOptions { busy_poll: true, ..XdpOptions::new(mode) });
        let server = ethernet.b.listen(7400, backend, &Options::of_many_lanes());
        let Some(server) = if_possible(test, server) else { continue };
        let caller = ethernet.a.connect(backend, &Options::of_one_lane()).unwrap();
        let to = caller.template(server.address(), Checksum::Computed);
        let mut buffer = [0; 100];
        for number in 0..1000u32 {
            caller.send(&to, &number.to_le_bytes()).unwrap();
            wait_until(|| matches!(server.receive(&mut buffer), Arrival::Packet { len: 4, .. }));
            assert_eq!(buffer[..4], number.to_le_bytes());
        }
    }
}

#[test]
fn frames_of_all_receive_queues_arrive() {
    const QUEUES: u32 = 4;
    let test = "frames_of_all_receive_queues_arrive";
    let Some(ethernet) = Ethernet::make_with_queues(test, QUEUES) else { return };
    let options = Options::of_many_lanes();
    let xdp = |mode, queue| Backend::Xdp(XdpOptions { queue, ..XdpOptions::new(mode) });
    for mode in [Mode::Generic, Mode::Native] {
        for own in [None, Some(2)] {
            let server = ethernet.b.listen(7400, xdp(mode, own), &options);
            let Some(server) = if_possible(test, server) else { continue };
            assert!(
                server.to_string().ends_with("packet socket for frames of other receive queues"),
                "{server}"
            );
            let before = server.counters();
            for queue in 0..QUEUES {
                // A frame that leaves by a queue of veth arrives by the same one.
                let caller = ethernet.a.connect(xdp(Mode::Generic, Some(queue)), &options).unwrap();
                let to = caller.template(server.address(), Checksum::Computed);
                let back = server.template(caller.address(), Checksum::Computed);
                for round in 0..3 {
                    caller.send(&to, &packet(100, queue as u8)).unwrap();
                    assert_eq!(next(&server), packet(100, queue as u8), "queue {queue}, round {round}");
                    server.send(&back, &packet(50, queue as u8)).unwrap();
                    assert_eq!(next(&caller), packet(50, queue as u8), "back to queue {queue}");
                }
                let bytes = packet(20 * 1000, queue as u8);
                caller.send_many(&to, &bytes, 1000, |position, error| panic!("{position}: {error}"));
                assert_eq!(all(&server, bytes.len()), bytes);
            }
            assert_eq!(server.receive(&mut [0; 100]), Arrival::Nothing, "no frame arrives twice");
            assert_eq!(server.counters(), before);
        }
    }
}

/// Further descriptors of the XDP programs that are attached, as a child has between fork and exec.
fn copies_of_links() -> Vec<OwnedFd> {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    let is_link = |path: &Path| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains("bpf"));
    let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let numbers =
        open.filter(|path| is_link(path)).filter_map(|path| path.file_name()?.to_str()?.parse().ok());
    numbers.filter_map(|number| pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok()).collect()
}

#[test]
fn program_is_detached_though_a_child_still_has_a_copy_of_its_link() {
    let test = "program_is_detached_though_a_child_still_has_a_copy_of_its_link";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let backend = Backend::Xdp(XdpOptions::new(Mode::Generic));
    let Some(server) = if_possible(test, ethernet.b.listen(7400, backend, &Options::of_many_lanes())) else {
        return;
    };
    let copies = copies_of_links();
    assert!(!copies.is_empty() && ethernet.b.interface().xdp.is_some());
    drop(server);
    assert_eq!(ethernet.b.interface().xdp, None);
    drop(copies);
}

#[test]
fn socket_of_a_receive_queue_that_an_interface_does_not_have_is_refused() {
    let test = "socket_of_a_receive_queue_that_an_interface_does_not_have_is_refused";
    let Some(ethernet) = Ethernet::make_with_queues(test, 2) else { return };
    let options = Options::of_many_lanes();
    let open = |queue| {
        let backend = Backend::Xdp(XdpOptions { queue, ..XdpOptions::new(Mode::Generic) });
        ethernet.b.listen(7400, backend, &options)
    };
    for queue in [0, 1] {
        let Some(server) = if_possible(test, open(Some(queue))) else { return };
        assert!(server.to_string().starts_with("AF_XDP in generic mode, copying"), "{server}");
    }
    let refused = open(Some(2));
    assert!(matches!(refused, Err(OpenError::Unsupported { .. })), "{refused:?}");
    assert_eq!(ethernet.b.interface().xdp, None, "nothing is left behind");
}
