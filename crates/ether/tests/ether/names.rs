//! Names of servers on a private Ethernet.

use crate::network;
use crate::network::raw::Raw;
use crate::network::{Ethernet, Side, if_possible};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use stoop_ether::address::{Address, Mac};
use stoop_ether::frame::{Checksum, EtherType, OVERHEAD, Template, frame_len};
use stoop_ether::names::{Announcement, Name, ether_type_of_questions, find};
use stoop_ether::{Backend, Interface, OpenError, Options, State};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(30);

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn announce(side: &Side, text: &str, server: Address) -> Announcement {
    let made =
        side.inside(|| Announcement::new(&side.interface(), EtherType::default(), &name(text), server));
    made.unwrap()
}

fn found(side: &Side, text: &str, limit: Duration) -> Vec<Address> {
    side.inside(|| find(&Interface::by_name(side.name)?, EtherType::default(), &name(text), limit)).unwrap()
}

#[test]
fn name_leads_to_the_server_that_has_it_while_it_has_it() {
    let test = "name_leads_to_the_server_that_has_it_while_it_has_it";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    for backend in network::BACKENDS {
        let server = ethernet.b.listen(7400, backend, &Options::of_one_lane());
        let Some(server) = if_possible(test, server) else { continue };
        let announcement = announce(&ethernet.b, "greeter", server.address());
        let _other = announce(&ethernet.b, "other", Address { port: 7401, ..server.address() });
        assert_eq!(found(&ethernet.a, "greeter", LONG), [server.address()]);
        for unknown in ["Greeter", "greeter2", "greete"] {
            assert_eq!(found(&ethernet.a, unknown, SHORT), [], "{unknown}");
        }
        let of_another_type = ethernet.a.inside(|| {
            find(&ethernet.a.interface(), EtherType::LOCAL_EXPERIMENTAL_2, &name("greeter"), SHORT).unwrap()
        });
        assert_eq!(of_another_type, []);
        drop(announcement);
        assert_eq!(found(&ethernet.a, "greeter", SHORT), [], "the server has gone");
    }
}

#[test]
fn name_belongs_to_one_endpoint_of_an_interface() {
    let test = "name_belongs_to_one_endpoint_of_an_interface";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let server = Address { mac: ethernet.b.interface().mac, port: 7400 };
    let is_here = |text: &str| {
        let interface = ethernet.b.interface();
        ethernet.b.inside(|| Announcement::is_here(&interface, EtherType::default(), &name(text)))
    };
    assert!(!is_here("greeter"));
    let first = announce(&ethernet.b, "greeter", server);
    assert!(is_here("greeter") && !is_here("greete") && !is_here("greeter2"));
    let second = ethernet.b.inside(|| {
        Announcement::new(&ethernet.b.interface(), EtherType::default(), &name("greeter"), server)
    });
    assert!(matches!(&second, Err(OpenError::NameTaken(name)) if name == "greeter"), "{second:?}");
    drop(first);
    announce(&ethernet.b, "greeter", server);
}

#[test]
fn all_servers_that_have_the_name_are_found() {
    let test = "all_servers_that_have_the_name_are_found";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    // Two hosts of the Ethernet, as far as a caller can tell.
    let first = Address { mac: Mac([2, 0, 0, 0, 0, 0x76]), port: 7400 };
    let second = Address { mac: Mac([2, 0, 0, 0, 0, 0x77]), port: 7401 };
    let of_questions = ether_type_of_questions(EtherType::default());
    let own = ethernet.a.interface().mac;
    let (raw, listener) = ethernet.b.inside(|| {
        let index = ethernet.b.interface().index;
        (Raw::open(index), Raw::listen(index, of_questions))
    });
    // How long the second answer left after the first, since this was last taken.
    let apart = Mutex::new(Duration::ZERO);
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                if let Some(frame) = listener.receive_within(Duration::from_millis(10)) {
                    let (mut apart, begun) = (apart.lock().unwrap(), Instant::now());
                    raw.send(&answer(&frame, first, own));
                    // The search goes on after the first answer.
                    thread::sleep(Duration::from_millis(2));
                    raw.send(&answer(&frame, second, own));
                    *apart = begun.elapsed().max(*apart);
                }
            }
        });
        let end = Instant::now() + network::LIMIT;
        let both = loop {
            let found = found(&ethernet.a, "greeter", LONG);
            // A server that answers 20 ms after the other is not waited for: on a busy machine this one may be so late.
            let apart = std::mem::take(&mut *apart.lock().unwrap());
            if apart < Duration::from_millis(15) {
                break found;
            }
            assert!(Instant::now() < end, "found {found:?}, which answer {apart:?} apart");
        };
        has_ended.store(true, Ordering::Relaxed);
        assert_eq!(both, [first, second]);
    });
}

/// A question of our own making, and its EtherType.
fn question(ethernet: &Ethernet, text: &str) -> (Vec<u8>, EtherType) {
    let of_questions = ether_type_of_questions(EtherType::default());
    let packet = packet(7, 1, text);
    let from = Address { mac: ethernet.a.interface().mac, port: 0 };
    (frame(from, Mac([0xff; 6]), of_questions, &packet), of_questions)
}

fn packet(nonce: u64, kind: u8, text: &str) -> Vec<u8> {
    let ether_type = EtherType::default().number().to_le_bytes();
    [&nonce.to_le_bytes()[..], &ether_type, &[kind], text.as_bytes()].concat()
}

fn frame(from: Address, to: Mac, ether_type: EtherType, packet: &[u8]) -> Vec<u8> {
    let template = Template::new(from, Address { mac: to, port: 0 }, ether_type, Checksum::Computed);
    let mut frame = vec![0; frame_len(packet.len())];
    frame[OVERHEAD..OVERHEAD + packet.len()].copy_from_slice(packet);
    template.complete(&mut frame, packet.len());
    frame
}

/// The answer of `server` to the question in a frame.
fn answer(question: &[u8], server: Address, to: Mac) -> Vec<u8> {
    let len = usize::from(u16::from_le_bytes([question[18], question[19]]));
    let mut packet = question[OVERHEAD..OVERHEAD + len].to_vec();
    packet[10] = 2;
    frame(server, to, ether_type_of_questions(EtherType::default()), &packet)
}

#[test]
fn forged_and_damaged_answers_are_not_believed() {
    let test = "forged_and_damaged_answers_are_not_believed";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let (own, of_questions) = (ethernet.a.interface().mac, ether_type_of_questions(EtherType::default()));
    let there = Address { mac: ethernet.b.interface().mac, port: 7400 };
    let (raw, listener) = ethernet.b.inside(|| {
        let index = ethernet.b.interface().index;
        (Raw::open(index), Raw::listen(index, of_questions))
    });
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::Relaxed) {
                let Some(asked) = listener.receive_within(Duration::from_millis(10)) else { continue };
                let good = answer(&asked, there, own);
                let group = Address { mac: Mac([3, 0, 0, 0, 0, 1]), ..there };
                let bad = [
                    frame(there, own, of_questions, &packet(1, 2, "greeter")),
                    frame(there, own, of_questions, &packet(1, 2, "other")),
                    asked.clone(),
                    answer(&asked, Address { port: 0, ..there }, own),
                    answer(&asked, Address { port: 0x8000, ..there }, own),
                    answer(&asked, group, own),
                    answer(&asked, there, Mac([0xff; 6])),
                    answer(&asked, there, Mac([2, 0, 0, 0, 0, 0x55])),
                    good[..good.len() - 30].to_vec(),
                    changed(&good, |frame| frame[OVERHEAD + 3] ^= 1),
                    changed(&good, |frame| frame[20..24].fill(0)),
                    changed(&good, |frame| drop(frame.splice(12..12, [0x81, 0, 0, 5]))),
                    [&good[..OVERHEAD], &[0xff; 1400]].concat(),
                ];
                bad.iter().for_each(|frame| raw.send(frame));
            }
        });
        let believed = found(&ethernet.a, "greeter", Duration::from_millis(200));
        has_ended.store(true, Ordering::Relaxed);
        assert_eq!(believed, []);
    });
}

fn changed(frame: &[u8], change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = frame.to_vec();
    change(&mut frame);
    frame
}

#[test]
fn server_answers_its_own_questions_only_and_goes_on_after_others() {
    let test = "server_answers_its_own_questions_only_and_goes_on_after_others";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let server = Address { mac: ethernet.b.interface().mac, port: 7400 };
    let _announcement = announce(&ethernet.b, "greeter", server);
    let (good, of_questions) = question(&ethernet, "greeter");
    let (raw, listener) = ethernet.a.inside(|| {
        let index = ethernet.a.interface().index;
        (Raw::open(index), Raw::listen(index, of_questions))
    });
    let own = ethernet.a.interface().mac;
    let from = Address { mac: own, port: 0 };
    let all = Mac([0xff; 6]);
    for bad in [
        good[..20].to_vec(),
        changed(&good, |frame| frame[OVERHEAD] ^= 1),
        changed(&good, |frame| frame[20..24].fill(0)),
        changed(&good, |frame| drop(frame.splice(12..12, [0x81, 0, 0, 5]))),
        changed(&good, |frame| frame[0..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1])),
        frame(from, server.mac, of_questions, &packet(7, 1, "greeter")),
        frame(from, all, of_questions, &packet(7, 2, "greeter")),
        frame(from, all, of_questions, &packet(7, 3, "greeter")),
        frame(from, all, of_questions, &packet(7, 1, "")),
        frame(from, all, of_questions, &packet(7, 1, "other")),
        frame(from, all, of_questions, &packet(7, 1, &"greeter".repeat(100))),
        frame(from, all, of_questions, &[]),
        frame(Address { mac: Mac([3, 0, 0, 0, 0, 1]), port: 0 }, all, of_questions, &packet(7, 1, "greeter")),
    ] {
        raw.send(&bad);
    }
    raw.send(&frame(from, all, of_questions, &packet(99, 1, "greeter")));
    let answered = listener.receive_within(LONG).expect("an answer");
    assert_eq!(answered[..6], own.0);
    assert_eq!(answered[OVERHEAD..OVERHEAD + 8], 99u64.to_le_bytes(), "the first answer of all");
}

#[test]
fn name_is_found_when_the_interface_has_been_down_and_not_while_it_is() {
    let test = "name_is_found_when_the_interface_has_been_down_and_not_while_it_is";
    let Some(ethernet) = Ethernet::make(test, 1500) else { return };
    let server = ethernet.b.listen(7400, Backend::PacketRing, &Options::of_one_lane()).unwrap();
    let _announcement = announce(&ethernet.b, "greeter", server.address());
    ethernet.b.run("ip link set stoop-b down");
    let down =
        ethernet.b.inside(|| find(&ethernet.b.interface(), EtherType::default(), &name("greeter"), LONG));
    assert!(matches!(down, Err(OpenError::Down(_))), "{down:?}");
    ethernet.b.run("ip link set stoop-b up");
    network::wait_until(|| [&ethernet.a, &ethernet.b].iter().all(|side| side.interface().state == State::Up));
    assert_eq!(found(&ethernet.a, "greeter", LONG), [server.address()]);
}
