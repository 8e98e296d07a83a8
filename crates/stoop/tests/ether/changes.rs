//! Calls go on while the Ethernet below them changes: an interface goes down and comes up, gets another hardware address, or is removed
//! and made again; and between ends whose longest packets differ.

use crate::harness::echo::{BACKENDS, EchoClient, begun, bind, call, pattern, serve};
use crate::harness::ethernet;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use stoop::CallError;
use stoop_ether::{Interface, State};

/// Runs `change` each time that one of ten calls with `len` bytes has ended, while the next is made.
fn call_during(parameters: &str, len: usize, change: impl Fn(u8)) {
    call_at_during(&ethernet::address(parameters), len, change);
}

/// The same at a server that listens there.
fn call_at_during(address: &str, len: usize, change: impl Fn(u8)) {
    let server = serve(address);
    let client = bind(&server.uris()[0]);
    let (ended, has_ended) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let bytes = pattern(len);
            for round in 0..10 {
                ended.send(round).unwrap();
                assert!(call(&client, &bytes) == bytes);
            }
        });
        has_ended.into_iter().for_each(change);
    });
}

#[test]
fn long_calls_outlive_an_interface_that_goes_down_and_comes_up() {
    for parameters in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        call_during(parameters, 1 << 20, |_| {
            ethernet::ip("link set {} down");
            ethernet::ip("link set {} up");
        });
    }
}

#[test]
fn calls_go_on_from_another_hardware_address() {
    for parameters in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        call_during(parameters, 100, |round| {
            ethernet::ip(&format!("link set {{}} address 02:00:00:00:01:{round:02x}"));
        });
    }
}

#[test]
fn calls_go_on_to_another_hardware_address_of_their_server() {
    for backend in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        let by_name = format!("ether://{}/changes{backend}", ethernet::INTERFACE);
        for (address, len) in [(ethernet::address(backend), 100), (by_name, 1 << 20)] {
            call_at_during(&address, len, |round| {
                ethernet::at_servers(|| {
                    ethernet::ip(&format!("link set {{}} address 02:00:00:00:02:{round:02x}"));
                });
            });
            ethernet::at_servers(|| ethernet::ip(&format!("link set {{}} address {}", ethernet::SERVER_MAC)));
        }
    }
}

#[test]
fn address_that_a_server_has_had_leads_to_it() {
    if !ethernet::enter() {
        return;
    }
    let server = serve(&ethernet::address(""));
    ethernet::at_servers(|| ethernet::ip("link set {} address 02:00:00:00:02:ff"));
    let client = bind(&server.uris()[0]);
    assert_eq!(client.echo(vec![1]).unwrap(), [1]);
    // Other threads have endpoints of their own.
    thread::scope(|scope| {
        let call = || assert_eq!(client.echo(vec![2]).unwrap(), [2]);
        scope.spawn(call);
        scope.spawn(call);
    });
    assert_eq!(client.begin().echo(vec![3]).wait().unwrap(), [3]);
}

#[test]
fn calls_go_on_at_an_interface_that_was_removed_and_made_again() {
    for backend in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        let by_name = format!("ether://{}/again{backend}", ethernet::INTERFACE);
        for address in [ethernet::address(backend), by_name] {
            call_at_during(&address, 100, |_| ethernet::make_again(|| {}));
        }
    }
}

#[test]
fn calls_go_on_at_an_interface_that_has_been_in_another_namespace() {
    for backend in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        let uri = format!("ether://{}/moved{backend}", ethernet::INTERFACE);
        let _server = serve(&uri);
        let client = bind(&uri);
        let check = |client: &EchoClient, byte| {
            assert_eq!((call(client, &[byte]), begun(client, &[byte])), (vec![byte], vec![byte]));
        };
        check(&client, 7);
        for round in 0..6 {
            match round % 2 {
                0 => ethernet::move_away_and_back(),
                _ => ethernet::at_servers(ethernet::move_away_and_back),
            }
            check(&client, round);
            // The name leads there, too.
            check(&bind(&uri), round);
        }
    }
}

#[test]
fn packet_sockets_at_an_interface_that_is_gone_are_closed() {
    if !ethernet::enter() {
        return;
    }
    let server = serve(&ethernet::address(""));
    // The sockets of both bindings and of the idle thread are in one fan-out group.
    let clients = [(); 2].map(|()| bind(&server.uris()[0]));
    let (is_idle, (end, has_ended)) = (mpsc::channel(), mpsc::channel::<()>());
    let (client, tell) = (clients[0].clone(), is_idle.0);
    let idle = thread::spawn(move || {
        tell.send(call(&client, &[3])).unwrap();
        // Keeps the thread's socket.
        let _ = has_ended.recv();
    });
    assert_eq!(is_idle.1.recv().unwrap(), [3]);
    let call_by_all = || {
        for client in &clients {
            assert_eq!(call(client, &[1]), [1]);
            assert_eq!(begun(client, &[2]), [2]);
        }
    };
    call_by_all();
    let sockets = ethernet::packet_sockets().len();
    assert!(sockets > 0);
    for round in 0..10 {
        match round % 2 {
            0 => ethernet::make_again(|| {}),
            _ => ethernet::ip(&format!("link set {{}} address 02:00:00:00:01:{round:02x}")),
        }
        call_by_all();
        let interface = Interface::by_name(ethernet::INTERFACE).unwrap().index.to_string();
        // A socket is closed when the last thread that sleeps there has left. A table of begun calls whose threads have opened two at
        // the same time keeps the other one for later use.
        ethernet::wait_for(|| {
            let present = ethernet::packet_sockets();
            let lost = present.iter().filter(|place| **place != interface).count();
            match present.len() <= 2 * sockets && lost <= 1 {
                true => Ok(()),
                false => Err(format!("{present:?} at {interface}; at first there were {sockets}")),
            }
        });
    }
    drop(end);
    idle.join().unwrap();
}

#[test]
fn call_without_an_interface_is_not_sent_and_says_so() {
    if !ethernet::enter() {
        return;
    }
    let server = serve(&ethernet::address(""));
    let client = bind(&server.uris()[0]);
    assert_eq!(client.echo(vec![1]).unwrap(), [1]);
    assert_eq!(client.begin().echo(vec![2]).wait().unwrap(), [2]);
    ethernet::make_again(|| {
        for call in [client.echo(vec![3]), client.begin().echo(vec![4]).wait()] {
            assert!(matches!(call, Err(CallError::NotSent(..))), "{call:?}");
        }
        let bound = EchoClient::bind(&server.uris()[0]).map(drop).unwrap_err().to_string();
        assert!(bound.contains("there is no network interface"), "{bound}");
    });
    assert_eq!(call(&client, &[5]), [5]);
    assert_eq!(begun(&client, &[6]), [6]);
}

#[test]
fn call_that_an_interface_has_cut_off_says_so_at_its_deadline() {
    for backend in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        let server = serve(&ethernet::address(backend));
        let client = bind(&server.uris()[0]);
        assert_eq!(client.echo(vec![1]).unwrap(), [1]);
        // The server's end, so that the call is sent: the caller's end has no carrier then.
        ethernet::at_servers(|| ethernet::ip("link set {} down"));
        ethernet::wait_for(|| match Interface::by_name(ethernet::INTERFACE).unwrap().state {
            State::Up => Err("the interface is up".into()),
            _ => Ok(()),
        });
        let hasty = client.with_timeout(Duration::from_millis(20));
        for call in [hasty.echo(vec![2; 100_000]), hasty.begin().echo(vec![3]).wait()] {
            let why = call.unwrap_err();
            let says_so = why.to_string().contains("this end's interface to the server is down");
            assert!(matches!(why, CallError::NotSent(..)) || (says_so && why.is_timeout()), "{why}");
        }
        ethernet::at_servers(|| ethernet::ip("link set {} up"));
        assert_eq!(call(&client, &[5]), [5]);
    }
}

#[test]
fn long_calls_outlive_changes_of_the_mtu() {
    for parameters in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        // A driver with an XDP program on veth takes no frames longer than 3,506 bytes.
        let mtu = |bytes: u32| move || ethernet::ip(&format!("link set {{}} mtu {bytes}"));
        mtu(3000)();
        ethernet::at_servers(mtu(3000));
        call_during(parameters, 1 << 20, |round| match round % 4 {
            0 => mtu(1500)(),
            1 => ethernet::at_servers(mtu(1500)),
            2 => mtu(3000)(),
            _ => ethernet::at_servers(mtu(3000)),
        });
    }
}

#[test]
fn calls_of_all_lengths_go_on_when_the_mtu_becomes_less() {
    const LENGTHS: [usize; 7] = [1400, 1441, 2000, 2960, 3000, 5000, 20_000];
    for parameters in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        let mtu = |bytes: u32| move || ethernet::ip(&format!("link set {{}} mtu {bytes}"));
        for (at_callers, at_servers) in [(1500, 3000), (3000, 1500), (1500, 1500)] {
            mtu(3000)();
            ethernet::at_servers(mtu(3000));
            let server = serve(&ethernet::address(parameters));
            let client = bind(&server.uris()[0]);
            let check = |len| {
                let bytes = pattern(len);
                assert!(client.echo(bytes.clone()).unwrap() == bytes, "{len} bytes by {parameters}");
                assert!(
                    client.begin().echo(bytes.clone()).wait().unwrap() == bytes,
                    "{len} bytes by {parameters}"
                );
            };
            LENGTHS.iter().copied().for_each(check);
            mtu(at_callers)();
            ethernet::at_servers(mtu(at_servers));
            LENGTHS.iter().copied().for_each(check);
        }
    }
}

#[test]
fn ends_whose_longest_packets_differ_agree() {
    if !ethernet::enter() {
        return;
    }
    let long_frames = || ethernet::ip("link set {} mtu 9000");
    long_frames();
    ethernet::at_servers(long_frames);
    // AF_XDP takes packets of at most a page.
    let server = serve(&ethernet::address("?backend=xdp-generic"));
    let by_ring = server.uris()[0].replace("?backend=xdp-generic", "");
    for uri in [&server.uris()[0], &by_ring] {
        let client = bind(uri);
        for len in [1, 1440, 3816, 3817, 8990, 9000, 48_000, 1 << 20] {
            let bytes = pattern(len);
            assert!(client.echo(bytes.clone()).unwrap() == bytes, "{len} bytes by {uri}");
        }
    }
}
