//! Servers whose sockets another process has made, and keeps while they are restarted (`LISTEN_FDS`).

use crate::harness::passed_sockets;
use crate::harness::passed_sockets::{Sockets, patient};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use stoop::{Security, Server, Waiting};

#[stoop::interface]
trait Counter {
    #[idempotent]
    fn add(&self, a: u32, b: u32) -> u32;
    fn process(&self) -> u32;
    /// As `process`, when there is such a file.
    fn hold(&self, path: &str) -> u32;
}

struct Sum;

impl Counter for Sum {
    fn add(&self, a: u32, b: u32) -> u32 {
        a + b
    }
    fn process(&self) -> u32 {
        std::process::id()
    }
    fn hold(&self, path: &str) -> u32 {
        std::fs::write(format!("{path}-held"), "").unwrap();
        while !Path::new(path).exists() {
            thread::yield_now();
        }
        std::process::id()
    }
}

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, addresses: &str) -> bool {
    if role != "serve-counter" {
        return false;
    }
    passed_sockets::serve(|| {
        let server = Server::new().export(CounterServer::new(Sum));
        let listen = |server: Server, uri| match uri {
            "plain" => Ok(server.security(Security::none())),
            "asleep" => Ok(server.waiting(Waiting::Block)),
            uri => server.listen(uri),
        };
        addresses.split(' ').try_fold(server, listen)?.start()
    });
    true
}

#[test]
fn a_server_takes_the_sockets_that_were_passed_for_its_addresses() {
    let sockets = Sockets::new();
    let uris = sockets.uris();
    let (mut process, said) = sockets.serve("serve-counter", &uris.join(" "));
    assert_eq!(said, format!("ready {}", uris.join(" ")));
    for uri in &uris {
        let client = CounterClient::bind_with(uri, &patient()).unwrap();
        assert_eq!(client.process().unwrap(), process.pid(), "{uri}");
    }
    process.end();
    assert!(sockets.path.exists(), "the socket's file is its maker's");
}

#[test]
fn a_server_takes_sockets_by_their_names() {
    let sockets = Sockets::new();
    let [tcp, udp, unix] = sockets.uris();
    let (mut process, said) = sockets.serve("serve-counter", "fd:web fd:local");
    assert_eq!(said, format!("ready {tcp} {udp} {unix}"));
    process.end();
    let (_, said) = sockets.serve("serve-counter", "fd:other");
    assert!(said.starts_with("failed") && said.contains("LISTEN_FDNAMES"), "{said}");
}

#[test]
fn a_server_does_not_take_sockets_that_others_reach_before_it_says_how_its_calls_are_protected() {
    let sockets = Sockets::at("0.0.0.0");
    let [tcp, udp, _] = sockets.uris();
    for addresses in ["fd:web", &tcp, &udp] {
        let (_, said) = sockets.serve("serve-counter", addresses);
        assert!(said.starts_with("failed") && said.contains("other machines reach it"), "{said}");
    }
    let (mut process, said) = sockets.serve("serve-counter", "plain fd:web");
    assert_eq!(said, format!("ready {tcp} {udp}"));
    process.end();
}

#[test]
fn callers_wait_for_the_server_that_takes_the_sockets_over() {
    let sockets = Sockets::new();
    let uris = sockets.uris();
    let (mut first, _) = sockets.serve("serve-counter", &uris.join(" "));
    first.end();
    thread::scope(|scope| {
        let calls = uris.each_ref().map(|uri| {
            scope.spawn(move || CounterClient::bind_with(uri, &patient()).unwrap().process().unwrap())
        });
        let (mut second, _) = sockets.serve("serve-counter", &uris.join(" "));
        for call in calls {
            assert_eq!(call.join().unwrap(), second.pid());
        }
        second.end();
    });
}

#[test]
fn a_server_at_a_passed_socket_ends_while_packets_without_calls_keep_coming() {
    let sockets = Sockets::new();
    let [_, udp, _] = sockets.uris();
    let (mut process, _) = sockets.serve("serve-counter", &format!("asleep {udp}"));
    assert_eq!(CounterClient::bind_with(&udp, &patient()).unwrap().add(2, 3).unwrap(), 5);
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            while !ends.load(Ordering::Relaxed) {
                socket.send_to(b"no call", udp.trim_start_matches("udp://")).unwrap();
                // As callers that try again: the worker sleeps in between, but not until it would look by itself.
                thread::sleep(Duration::from_millis(20));
            }
        });
        process.end();
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
fn no_idempotent_call_fails_while_a_server_is_restarted_on_its_sockets() {
    let sockets = Sockets::new();
    let [tcp, _, unix] = sockets.uris();
    let (mut process, _) = sockets.serve("serve-counter", &[tcp.as_str(), &unix].join(" "));
    let (ends, made) = (AtomicBool::new(false), [AtomicU32::new(0), AtomicU32::new(0)]);
    thread::scope(|scope| {
        let callers = [&tcp, &unix].into_iter().zip(&made).map(|(uri, made)| {
            let ends = &ends;
            scope.spawn(move || {
                let client = CounterClient::bind_with(uri, &patient()).unwrap();
                while !ends.load(Ordering::Relaxed) {
                    assert_eq!(client.add(2, 3).unwrap(), 5);
                    made.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        let callers: Vec<_> = callers.collect();
        let go_on = || {
            let before = made.each_ref().map(|made| made.load(Ordering::Relaxed));
            let has_gone_on =
                || made.iter().zip(before).all(|(made, before)| made.load(Ordering::Relaxed) > before + 10);
            while !has_gone_on() && !callers.iter().any(|caller| caller.is_finished()) {
                thread::yield_now();
            }
        };
        for _ in 0..3 {
            go_on();
            process.end();
            process = sockets.serve("serve-counter", &[tcp.as_str(), &unix].join(" ")).0;
        }
        go_on();
        ends.store(true, Ordering::Relaxed);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    });
    process.end();
}

#[test]
fn a_server_that_shuts_down_ends_its_calls_while_others_go_to_the_next() {
    let sockets = Sockets::new();
    let [tcp, _, unix] = sockets.uris();
    for uri in [tcp, unix] {
        let released = sockets.path.with_extension(if uri.starts_with("tcp") { "tcp" } else { "unix" });
        let arrived = PathBuf::from(format!("{}-held", released.display()));
        let (mut first, _) = sockets.serve("serve-counter", &uri);
        let client = CounterClient::bind_with(&uri, &patient()).unwrap();
        thread::scope(|scope| {
            let held = scope.spawn(|| client.hold(released.to_str().unwrap()).unwrap());
            while !arrived.exists() && !held.is_finished() {
                thread::yield_now();
            }
            first.end_input();
            let (mut second, _) = sockets.serve("serve-counter", &uri);
            while client.process().unwrap() != second.pid() {}
            assert!(!held.is_finished());
            std::fs::write(&released, "").unwrap();
            assert_eq!(held.join().unwrap(), first.pid());
            first.end();
            second.end();
        });
        [&released, &arrived].iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}
