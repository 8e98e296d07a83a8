//! Frames of other hosts on the Ethernet, in number and in kind, do calls no harm.

use crate::harness::echo::{BACKENDS, EchoClient, EchoServer, LONG, Same, bind, pattern, serve};
use crate::harness::ethernet;
use crate::harness::ethernet::raw::{EndOfAttack, Raw, address_in, frame};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stoop::stub::Exported;
use stoop::{BindOptions, RunningServer, Server};
use stoop_ether::address::{Address, Mac};
use stoop_ether::frame::{Checksum, EtherType, Frame};
use stoop_exchange::binder::{BindStep, Binder};
use stoop_exchange::{Interface, Procedure};
use stoop_wire::bind::HostFacts;

fn check(client: &EchoClient, len: usize) {
    let bytes = pattern(len);
    assert!(client.echo(bytes.clone()).unwrap() == bytes);
    assert!(client.begin().echo(bytes.clone()).wait().unwrap() == bytes);
}

fn host(number: u32) -> Address {
    let [_, a, b, c] = number.to_be_bytes();
    Address { mac: Mac([2, 0, 0xf0, a, b, c]), port: 40_000 }
}

/// What a caller of the interface says, for the exchange.
fn declared() -> Interface {
    let export = EchoServer::new(Same);
    let interface = export.interface();
    let procedure = |p: &stoop::stub::Procedure| Procedure { name: p.name.into(), signature: p.signature() };
    Interface {
        name: interface.name.into(),
        procedures: interface.procedures.iter().map(procedure).collect(),
        ..Interface::default()
    }
}

/// Makes a binding as the host of that number, whose frames come from its own hardware address.
fn bind_as(raw: &Raw, host: Address, server: Address, begun: Instant) {
    let now = || stoop_exchange::Instant::from_nanos(begun.elapsed().as_nanos() as u64);
    let nonce = u64::from_be_bytes([
        0,
        0,
        host.mac.0[0],
        host.mac.0[1],
        host.mac.0[2],
        host.mac.0[3],
        host.mac.0[4],
        host.mac.0[5],
    ]);
    let mut binder = Binder::new(now(), now() + LONG, declared(), HostFacts::default(), nonce);
    let mut buffer = [0; 2048];
    // The server's answer may be lost among those to other hosts: then the question is due again.
    ethernet::wait_for(|| {
        if let Some(question) = binder.transmit(now()) {
            raw.send(&frame(host, server, Checksum::Computed, &question));
        }
        let arrived = raw.receive(&mut buffer).and_then(|it| Frame::parse(it, EtherType::default()).ok());
        let Some(arrived) = arrived.filter(|frame| frame.to() == host) else {
            return Err(format!("no answer to {host}"));
        };
        match binder.handle_packet(now(), arrived.packets()) {
            BindStep::Bound(_) => Ok(()),
            step => Err(format!("{step:?}")),
        }
    });
}

#[test]
fn ten_thousand_forged_hosts_leave_a_server_to_its_callers() {
    const HOSTS: u32 = 10_000;
    for parameters in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        let server = serve(&ethernet::address(parameters));
        let (uri, address) = (&server.uris()[0], address_in(&server.uris()[0]));
        let before = bind(uri);
        let raw = Raw::open();
        let begun = Instant::now();
        // First each asks once and never answers the challenge, which makes no binding.
        let mut binder = Binder::new(
            stoop_exchange::Instant::from_nanos(0),
            stoop_exchange::Instant::from_nanos(1),
            declared(),
            HostFacts::default(),
            1,
        );
        let question = binder.transmit(stoop_exchange::Instant::from_nanos(0)).unwrap();
        for number in 0..HOSTS {
            raw.send(&frame(host(number), address, Checksum::Computed, &question));
        }
        check(&before, 10_000);
        assert_eq!(server.counters().bindings, 1);
        // Then a tenth of them see the answers to their forged addresses, and bind.
        for number in 0..HOSTS / 10 {
            bind_as(&raw, host(number), address, begun);
        }
        check(&before, 10_000);
        let after = bind(uri);
        check(&after, 10_000);
        assert_eq!(server.counters().bindings, u64::from(HOSTS / 10) + 2);
    }
}

/// Frames that a server has counted because their checksum was wrong, or because there was no room for them.
fn damaged_or_lost(server: &RunningServer) -> u64 {
    let counters = server.counters().packet;
    counters.corrupt + counters.overflowed
}

/// Frames to a server, and from it to others, that it is not to take.
fn foreign(server: Address, from: Address) -> Vec<Vec<u8>> {
    let good = frame(from, server, Checksum::Computed, &[5; 1400]);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        change(&mut frame);
        frame
    };
    vec![
        frame(from, Address { mac: Mac([2, 0, 0, 0, 0, 0x55]), ..server }, Checksum::Computed, &[5; 1400]),
        // As long as the sender's interface permits, which is longer than the server's rings were made for.
        frame(from, server, Checksum::Computed, &[5; 3000]),
        frame(from, server, Checksum::Computed, &[5; 8900]),
        changed(&|frame| drop(frame.splice(12..12, [0x81, 0, 0, 5]))),
        changed(&|frame| drop(frame.splice(12..12, [0x81, 0, 0, 0]))),
        changed(&|frame| drop(frame.splice(12..12, [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]))),
        changed(&|frame| frame[..6].fill(0xff)),
        changed(&|frame| frame[18..20].fill(0xff)),
        changed(&|frame| frame.truncate(100)),
        // The last one, and the only one whose checksum is wrong.
        changed(&|frame| frame[100] ^= 1),
    ]
}

#[test]
fn foreign_frames_at_a_promiscuous_interface_do_long_calls_no_harm() {
    for parameters in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        let server = serve(&ethernet::address(parameters));
        let (uri, address) = (&server.uris()[0], address_in(&server.uris()[0]));
        let client = bind(uri);
        check(&client, 1);
        // A driver that runs an XDP program refuses an MTU of more than a page.
        let longest = if parameters.ends_with("xdp") { 1500 } else { 9000 };
        let prepare = || ethernet::ip(&format!("link set {{}} promisc on mtu {longest}"));
        prepare();
        ethernet::at_servers(prepare);
        let raw = Raw::open();
        let frames = foreign(address, host(1));
        let (has_ended, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    let before = damaged_or_lost(&server);
                    for frame in frames.iter().filter(|frame| frame.len() <= longest + 14) {
                        raw.send(frame);
                    }
                    // Until the server has received the last one, so that it also receives frames of the caller.
                    while damaged_or_lost(&server) == before && !has_ended.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
            let _end = EndOfAttack(&has_ended);
            ethernet::wait_for(|| {
                check(&client, 1 << 20);
                match rounds.load(Ordering::Relaxed) {
                    0..100 => Err(format!("{rounds:?} rounds")),
                    _ => Ok(()),
                }
            });
        });
    }
}

#[test]
fn calls_pass_a_bridge_at_which_another_host_is() {
    if !ethernet::enter() {
        return;
    }
    let _bridge = ethernet::put_bridge_between();
    for parameters in BACKENDS {
        let by_name = format!("ether://{}/bridged{parameters}", ethernet::INTERFACE);
        for uri in [ethernet::address(parameters), by_name] {
            let _server = serve(&uri);
            let client = bind(&uri);
            for len in [0, 1440, 48_000, 1 << 20] {
                check(&client, len);
            }
        }
    }
}

#[test]
fn each_ethertype_has_servers_of_its_own() {
    for parameters in
        ["?ethertype=0x88b6", "?backend=xdp-generic&ethertype=0x9abc", "?backend=xdp&ethertype=0x0600"]
    {
        if !ethernet::enter() {
            return;
        }
        let by_name = format!("ether://{}/typed{parameters}", ethernet::INTERFACE);
        for uri in [ethernet::address(parameters), by_name] {
            let server = serve(&uri);
            assert!(server.uris()[0].contains("ethertype="), "{:?}", server.uris());
            let client = bind(&uri);
            for len in [0, 1440, 1 << 20] {
                check(&client, len);
            }
            let hasty = BindOptions::new().bind_timeout(Duration::from_millis(100));
            let of_the_usual = uri.split('?').next().unwrap();
            assert!(EchoClient::bind_with(of_the_usual, &hasty).is_err(), "{of_the_usual}");
        }
    }
}

/// Counts how often it has run.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

#[stoop::interface]
trait Count {
    /// One more than have run before, and these bytes.
    fn count(&self, bytes: Vec<u8>) -> (u64, Vec<u8>);
}

impl Count for Counting {
    fn count(&self, bytes: Vec<u8>) -> (u64, Vec<u8>) {
        (self.0.fetch_add(1, Ordering::Relaxed) + 1, bytes)
    }
}

/// Sends the frames once more that have come to one end, from the other. Returns how many.
fn replay(seen_at: &Raw, from: &Raw) -> u64 {
    let (mut buffer, mut frames) = ([0; 2048], Vec::new());
    while let Some(frame) = seen_at.receive(&mut buffer) {
        frames.push(frame.to_vec());
    }
    frames.iter().for_each(|frame| from.send(frame));
    // Answers to those.
    while seen_at.receive(&mut buffer).is_some() {}
    frames.len() as u64
}

#[test]
fn replayed_frames_run_no_procedure_again_and_give_no_result_twice() {
    for parameters in BACKENDS {
        if !ethernet::enter() {
            return;
        }
        let counting = Counting::default();
        // On a ring, so that the frames of the calls are seen beside it.
        let server = ethernet::at_servers(|| {
            let server =
                Server::new().security(stoop::Security::none()).export(CountServer::new(counting.clone()));
            server.listen(&ethernet::address("")).unwrap().start().unwrap()
        });
        let uri = format!("{}{parameters}", server.uris()[0]);
        let options = BindOptions::new().timeout(LONG).bind_timeout(LONG);
        let (at_callers, at_servers) = (Raw::open(), ethernet::at_servers(Raw::open));
        let client = CountClient::bind_with(&uri, &options).unwrap();
        let (mut calls, mut replayed) = (0, 0);
        for _ in 0..10 {
            for len in [0, 1400, 5000, 100_000] {
                calls += 1;
                assert_eq!(client.count(vec![1; len]).unwrap(), (calls, vec![1; len]));
                calls += 1;
                assert_eq!(client.begin().count(vec![2; len]).wait().unwrap(), (calls, vec![2; len]));
                replayed += replay(&at_servers, &at_callers);
                replay(&at_callers, &at_servers);
            }
        }
        assert_eq!(counting.0.load(Ordering::Relaxed), calls);
        assert!(replayed > calls, "{replayed} frames were seen of {calls} calls");
    }
}
