use super::sweep::SHORTEST_SWEEP_INTERVAL;
use super::*;
use crate::{Interface, Procedure};
use alloc::vec;
use core::time::Duration;
use stoop_wire::bind::{BindReply, BindRequest, BindStatus};
use stoop_wire::{Challenge, FailureCode, HEADER_LEN, MAX_DATAGRAM, RefusalCode, Template};

mod batches;
mod cancels;
mod closing;
mod large;
mod memory;
mod pipes;
mod probes;
mod quiet;
mod retained;
mod shares;
mod unasked;
mod unknown_peers;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Host(u8);

impl Peer for Host {
    fn host(&self) -> [u8; 16] {
        [self.0; 16]
    }
    fn port(&self) -> u16 {
        7
    }
}

const CALLER: Host = Host(1);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A server of one interface with two procedures, and a binding to it.
fn bound() -> (Server<Host>, BindingId) {
    bound_with(|_| {})
}

/// The same, with limits other than the defaults.
fn bound_with(change: impl FnOnce(&mut Limits)) -> (Server<Host>, BindingId) {
    let mut limits = Limits::default();
    change(&mut limits);
    let procedure = |name: &str| Procedure { name: name.into(), signature: name.into() };
    let interface = Interface {
        name: "I".into(),
        procedures: vec![procedure("a"), procedure("b")],
        ..Interface::default()
    };
    let interfaces = Interfaces::new([interface]);
    let mut server = Server::new(at(0), interfaces, limits, HostFacts::default(), [1, 2]);
    let binding = bind(&mut server, 5).expect("there is room");
    (server, binding)
}

fn bind_request() -> BindRequest {
    BindRequest { max_message: 4 << 20, window: 64 << 10, ..BindRequest::new(0, "I", vec![]) }
}

fn bind(server: &mut Server<Host>, nonce: u64) -> Option<BindingId> {
    bind_from(server, CALLER, at(0), nonce)
}

fn bind_from(server: &mut Server<Host>, from: Host, now: Instant, nonce: u64) -> Option<BindingId> {
    let mut request = BindRequest { nonce, ..bind_request() };
    let mut reply = Vec::new();
    server.handle_packet(now, &from, &bind_packet(&request), &mut reply);
    request.cookie = Header::parse(&reply).unwrap().0.challenge().expect("a challenge first");
    server.handle_packet(now, &from, &bind_packet(&request), &mut reply);
    let (header, payload) = Header::parse(&reply).unwrap();
    let reply = BindReply::decode(payload).unwrap();
    (reply.status == BindStatus::Bound).then_some(header.binding)
}

fn bind_packet(request: &BindRequest) -> Vec<u8> {
    let payload = request.encode();
    let mut header = Header::bare(Kind::Bind, BindingId::NONE, LaneId(0), CallNumber(0));
    header.message_len = payload.len() as u32;
    [&header.to_bytes()[..], &payload].concat()
}

fn packet(kind: Kind, binding: BindingId, number: u32) -> Vec<u8> {
    let mut header = Header::bare(kind, binding, LaneId(0), CallNumber(number));
    header.time = 1_000_000;
    header.to_bytes().to_vec()
}

/// The server's answer to a packet: its reply's kind and reason, or an assignment.
enum Made {
    Run(Assignment<Host>),
    Reply(Kind, u32),
    Nothing,
}

fn give_from(server: &mut Server<Host>, from: Host, now: Instant, packet: &[u8]) -> Made {
    let mut reply = Vec::new();
    match server.handle_packet(now, &from, packet, &mut reply) {
        Effect::Run(assignment) => Made::Run(assignment),
        Effect::Nothing | Effect::Transmit | Effect::Pipe(..) | Effect::Unbound(_) => Made::Nothing,
        Effect::Reply | Effect::Cancelled(..) => {
            let (header, _) = Header::parse(&reply).unwrap();
            Made::Reply(header.kind, header.time)
        }
    }
}

fn give(server: &mut Server<Host>, packet: &[u8]) -> Made {
    give_from(server, CALLER, at(1), packet)
}

fn run(server: &mut Server<Host>, packet: &[u8]) -> Assignment<Host> {
    let Made::Run(assignment) = give(server, packet) else { panic!("not run") };
    assignment
}

fn finish(server: &mut Server<Host>, mut assignment: Assignment<Host>) -> Next<Host> {
    assignment.complete(at(2), 3);
    server.finish(at(2), assignment)
}

#[test]
fn a_noted_result_carries_the_time_at_the_server_until_it_is_sent() {
    let (mut server, binding) = bound();
    let mut assignment = run(&mut server, &packet(Kind::Call, binding, 1));
    let arrived = assignment.arrived;
    assignment.note(3);
    assert_eq!(assignment.answer_len(), HEADER_LEN + 3);
    let sent = assignment.complete_noted(arrived + Duration::from_micros(70)).to_vec();
    let (header, _) = Header::parse(&sent).unwrap();
    assert_eq!((header.kind, header.message_len, header.time), (Kind::Result, 3, 70_000));
}

/// Kind and code of the answer to a call whose procedure returns `nanos` after its arrival.
fn answer_after(server: &mut Server<Host>, call: &[u8], nanos: u64) -> (Kind, u32) {
    let mut assignment = run(server, call);
    let returned = assignment.arrived.after_nanos(nanos);
    let (header, _) = Header::parse(assignment.complete(returned, 3)).unwrap();
    server.finish(returned, assignment);
    (header.kind, if header.kind == Kind::Failure { header.time } else { 0 })
}

#[test]
fn a_result_at_or_after_the_deadline_becomes_a_failure() {
    let (mut server, binding) = bound();
    let mut header = Header::bare(Kind::Call, binding, LaneId(0), CallNumber(1));
    header.time = 5_000;
    assert_eq!(answer_after(&mut server, &header.to_bytes(), 4_999_999), (Kind::Result, 0));
    header.number = CallNumber(2);
    let too_late = (Kind::Failure, FailureCode::FinishedTooLate.code());
    assert_eq!(answer_after(&mut server, &header.to_bytes(), 5_000_000), too_late);
    let Made::Reply(kind, code) = give(&mut server, &header.to_bytes()) else { panic!("it is retained") };
    assert_eq!((kind, code), too_late);
}

#[test]
fn a_duplicate_of_an_answered_call_gets_the_retained_answer() {
    let (mut server, binding) = bound();
    let call = packet(Kind::Call, binding, 1);
    let mut assignment = run(&mut server, &call);
    assignment.packet_mut()[HEADER_LEN..HEADER_LEN + 3].copy_from_slice(b"abc");
    let sent = assignment.complete(at(2), 3).to_vec();
    server.finish(at(2), assignment);
    let mut reply = Vec::new();
    assert!(matches!(server.handle_packet(at(3), &CALLER, &call, &mut reply), Effect::Reply));
    assert_eq!(reply, sent);
    assert_eq!(server.counters().calls, 1);
}

#[test]
fn a_duplicate_of_a_running_call_is_acknowledged() {
    let (mut server, binding) = bound();
    let _running = run(&mut server, &packet(Kind::Call, binding, 1));
    for kind in [Kind::Call, Kind::Probe] {
        let made = give(&mut server, &packet(kind, binding, 1));
        assert!(matches!(made, Made::Reply(Kind::Acknowledgement, _)));
    }
}

#[test]
fn a_late_duplicate_of_an_earlier_call_is_dropped() {
    let (mut server, binding) = bound();
    for number in 1..=2 {
        let assignment = run(&mut server, &packet(Kind::Call, binding, number));
        finish(&mut server, assignment);
    }
    assert!(matches!(give(&mut server, &packet(Kind::Call, binding, 1)), Made::Nothing));
}

#[test]
fn a_newer_call_starts_only_when_the_running_one_has_returned() {
    let (mut server, binding) = bound();
    let first = run(&mut server, &packet(Kind::Call, binding, 1));
    assert!(matches!(
        give(&mut server, &packet(Kind::Call, binding, 2)),
        Made::Reply(Kind::Acknowledgement, _)
    ));
    assert!(matches!(
        give(&mut server, &packet(Kind::Call, binding, 3)),
        Made::Reply(Kind::Acknowledgement, _)
    ));
    assert!(
        matches!(give(&mut server, &packet(Kind::Call, binding, 2)), Made::Reply(..)),
        "3 has superseded 2, which is not forgotten for that"
    );
    let Next::Run(second, parked) = finish(&mut server, first) else { panic!("nothing parked") };
    assert_eq!((second.number, parked.to_vec()), (CallNumber(3), packet(Kind::Call, binding, 3)));
    assert!(matches!(finish(&mut server, second), Next::Nothing));
}

#[test]
fn a_refused_call_is_refused_again() {
    let (mut server, binding) = bound();
    let call = packet(Kind::Call, binding, 1);
    let mut assignment = run(&mut server, &call);
    assignment.refuse(RefusalCode::Overloaded, "");
    server.finish(at(2), assignment);
    let overloaded = RefusalCode::Overloaded.code();
    for _ in 0..2 {
        assert!(matches!(give(&mut server, &call), Made::Reply(Kind::Refusal, code) if code == overloaded));
    }
}

#[test]
fn a_refusal_is_remembered_after_its_packet_is_released() {
    let (mut server, binding) = bound();
    let call = packet(Kind::Call, binding, 1);
    let mut assignment = run(&mut server, &call);
    assignment.refuse(RefusalCode::Overloaded, "");
    server.finish(at(2), assignment);
    server.handle_timeout(server.next_timeout());
    let overloaded = RefusalCode::Overloaded.code();
    for kind in [Kind::Call, Kind::Probe] {
        assert!(
            matches!(give(&mut server, &packet(kind, binding, 1)), Made::Reply(Kind::Refusal, code) if code == overloaded),
            "it did not run, so it is not said that its result is gone"
        );
    }
}

#[test]
fn a_waiting_call_holds_no_more_bytes_than_its_packet_announces() {
    let (mut server, binding) = bound();
    let running = run(&mut server, &packet(Kind::Call, binding, 1));
    let held = server.bytes_held();
    let padded = [packet(Kind::Call, binding, 2), vec![0; 60_000]].concat();
    give(&mut server, &padded);
    assert_eq!(server.bytes_held(), held + HEADER_LEN);
    let Next::Run(_, parked) = finish(&mut server, running) else { panic!("nothing parked") };
    assert_eq!(parked.to_vec(), packet(Kind::Call, binding, 2));
}

#[test]
fn a_silence_limit_of_zero_does_not_make_the_server_spin() {
    let (mut server, _) = bound();
    server.limits.silence = Duration::ZERO;
    let due = server.next_timeout();
    server.handle_timeout(due);
    assert!(server.next_timeout() > due);
    assert!(server.sweep_interval() >= SHORTEST_SWEEP_INTERVAL);
}

#[test]
fn a_call_of_an_unknown_procedure_is_refused_each_time() {
    let (mut server, binding) = bound();
    let mut header = Header::bare(Kind::Call, binding, LaneId(0), CallNumber(1));
    header.procedure = 2;
    let unknown = RefusalCode::UnknownProcedure.code();
    for _ in 0..2 {
        assert!(
            matches!(give(&mut server, &header.to_bytes()), Made::Reply(Kind::Refusal, code) if code == unknown)
        );
    }
}

#[test]
fn a_binding_works_from_another_address_only_after_a_proof() {
    let (mut server, binding) = bound();
    let call = packet(Kind::Call, binding, 1);
    let mut reply = Vec::new();
    server.handle_packet(at(1), &Host(2), &call, &mut reply);
    let (challenge, _) = Header::parse(&reply).unwrap();
    let cookie = challenge.challenge().expect("a challenge");
    assert!(reply.len() <= call.len());
    let forged = challenge.with_challenge(Kind::Proof, Challenge(cookie.0 ^ 1)).to_bytes();
    give_from(&mut server, Host(2), at(1), &forged);
    assert!(matches!(give_from(&mut server, Host(2), at(1), &call), Made::Reply(Kind::Challenge, _)));
    let proof = challenge.with_challenge(Kind::Proof, cookie).to_bytes();
    give_from(&mut server, Host(2), at(1), &proof);
    assert!(matches!(give_from(&mut server, Host(2), at(1), &call), Made::Run(_)));
}

/// Gives the server a call from there, and answers its challenge if it has one. Returns whether it had.
fn call_from(server: &mut Server<Host>, host: Host, call: &[u8]) -> bool {
    let mut reply = Vec::new();
    let arrival = server.handle_packet(at(1), &host, call, &mut reply);
    if let Effect::Run(assignment) = arrival {
        finish(server, assignment);
        return false;
    }
    let (challenge, _) = Header::parse(&reply).unwrap();
    let cookie = challenge.challenge().expect("a challenge");
    server.handle_packet(at(1), &host, &challenge.with_challenge(Kind::Proof, cookie).to_bytes(), &mut reply);
    assert!(!call_from(server, host, call), "its address is proven");
    true
}

#[test]
fn a_caller_that_sends_from_two_addresses_in_turn_proves_the_second_once() {
    let (mut server, binding) = bound();
    let challenged = (1..=100).filter(|number| {
        let host = Host(1 + (number % 2) as u8);
        call_from(&mut server, host, &packet(Kind::Call, binding, *number))
    });
    assert_eq!(challenged.count(), 1);
}

#[test]
fn a_proof_counts_for_the_challenged_address_from_wherever_it_comes() {
    let (mut server, binding) = bound();
    let challenge_of = |server: &mut Server<Host>, host, number| {
        let mut reply = Vec::new();
        server.handle_packet(at(1), &host, &packet(Kind::Call, binding, number), &mut reply);
        let (challenge, _) = Header::parse(&reply).unwrap();
        challenge.with_challenge(Kind::Proof, challenge.challenge().expect("a challenge")).to_bytes()
    };
    let (second, third) = (challenge_of(&mut server, Host(2), 1), challenge_of(&mut server, Host(3), 1));
    give_from(&mut server, Host(1), at(1), &second);
    let call = packet(Kind::Call, binding, 1);
    assert!(call_from(&mut server, Host(2), &call), "the third was challenged after it");
    let fourth = challenge_of(&mut server, Host(4), 2);
    give_from(&mut server, Host(3), at(1), &third);
    give_from(&mut server, Host(1), at(1), &fourth);
    let call = packet(Kind::Call, binding, 2);
    assert!(!call_from(&mut server, Host(4), &call), "the proof came from another address");
}

#[test]
fn a_caller_that_has_been_at_more_addresses_than_are_remembered_proves_the_oldest_again() {
    let (mut server, binding) = bound();
    let mut number = 0;
    let mut is_challenged = |host| {
        number += 1;
        call_from(&mut server, Host(host), &packet(Kind::Call, binding, number))
    };
    assert!((2..=5).all(&mut is_challenged));
    assert!((2..=5).rev().all(|host| !is_challenged(host)));
    assert!(is_challenged(1));
}

#[test]
fn an_answer_is_released_after_its_callers_deadline() {
    let (mut server, binding) = bound();
    let call = packet(Kind::Call, binding, 1);
    let assignment = run(&mut server, &call);
    finish(&mut server, assignment);
    let held = server.bytes_held();
    server.handle_timeout(server.next_timeout());
    let of_it = server.bytes_held().saturating_sub(held);
    assert!(of_it <= size_of::<Host>(), "all but where its caller is");
    let gone = FailureCode::ResultGone.code();
    assert!(
        matches!(give(&mut server, &call), Made::Reply(Kind::Failure, code) if code == gone),
        "it does not run again"
    );
}

#[test]
fn a_silent_peer_is_released_and_a_running_call_holds_its_binding() {
    let (mut server, idle) = bound();
    let busy = bind(&mut server, 6).unwrap();
    let running = run(&mut server, &packet(Kind::Call, busy, 1));
    let silence = Limits::default().silence;
    while server.bindings() > 1 {
        server.handle_timeout(server.next_timeout());
    }
    assert!(server.next_timeout() >= at(0) + silence);
    assert!(matches!(give(&mut server, &packet(Kind::Call, idle, 1)), Made::Reply(Kind::Refusal, _)));
    finish(&mut server, running);
    server.handle_timeout(server.next_timeout());
    assert_eq!((server.bindings(), server.next_timeout()), (0, Instant::NEVER));
}

#[test]
fn a_reused_packet_carries_nothing_of_another_binding() {
    let (mut server, first) = bound();
    let mut assignment = run(&mut server, &packet(Kind::Call, first, 1));
    assignment.packet_mut().fill(0xaa);
    finish(&mut server, assignment);
    server.handle_timeout(server.next_timeout());
    let second = bind(&mut server, 6).unwrap();
    let mut assignment = run(&mut server, &packet(Kind::Call, second, 1));
    assert!(assignment.packet_mut().iter().all(|byte| *byte == 0));
}

#[test]
fn during_shutdown_running_calls_are_answered_and_new_ones_refused() {
    let (mut server, binding) = bound();
    let call = packet(Kind::Call, binding, 1);
    let running = run(&mut server, &call);
    server.shut_down();
    assert!(matches!(give(&mut server, &call), Made::Reply(Kind::Acknowledgement, _)));
    let mut other_lane = Header::bare(Kind::Call, binding, LaneId(1), CallNumber(1));
    other_lane.time = 1000;
    let code = RefusalCode::ShuttingDown.code();
    assert!(matches!(give(&mut server, &other_lane.to_bytes()), Made::Reply(Kind::Refusal, c) if c == code));
    assert_eq!(bind(&mut server, 8), None);
    finish(&mut server, running);
    assert_eq!(server.running(), 0);
    assert!(matches!(give(&mut server, &call), Made::Reply(Kind::Result, _)));
}

#[test]
fn a_server_holds_no_more_bindings_than_its_limit() {
    let (mut server, _) = bound_with(|limits| limits.bindings = 12);
    let from = |host: u8, server: &mut Server<Host>| {
        (0..20).filter(|nonce| bind_from(server, Host(host), at(0), 100 + nonce).is_some()).count()
    };
    assert_eq!((from(1, &mut server), server.bindings()), (8, 9), "three quarters for one host");
    assert_eq!((from(2, &mut server), from(3, &mut server), server.bindings()), (2, 1, 12));
    assert_eq!((from(4, &mut server), server.counters().full), (0, 12 + 18 + 19 + 20));
}

#[test]
fn lanes_beyond_the_limit_are_refused_and_take_no_memory() {
    let (mut server, binding) = bound();
    let held = server.bytes_held();
    let header = Header::bare(Kind::Call, binding, LaneId(u16::MAX), CallNumber(1));
    let code = RefusalCode::TooManyLanes.code();
    assert!(matches!(give(&mut server, &header.to_bytes()), Made::Reply(Kind::Refusal, c) if c == code));
    assert_eq!(server.bytes_held(), held);
}

#[test]
fn a_message_beyond_the_bound_is_refused_and_takes_no_memory() {
    let (mut server, binding) = bound();
    let (template, len) = (Template::new(Kind::Call, binding, LaneId(0)), server.limits.max_message + 1);
    let mut packet = vec![0; MAX_DATAGRAM];
    template.stamp_part(packet.first_chunk_mut().unwrap(), 0, CallNumber(1), len, (0, 1440), 0);
    let code = RefusalCode::MessageTooLarge.code();
    assert!(matches!(give(&mut server, &packet), Made::Reply(Kind::Refusal, c) if c == code));
    assert_eq!(server.incomplete_bytes(), 0);
}

#[test]
fn an_empty_packet_is_not_answered_and_not_counted() {
    let (mut server, _) = bound();
    assert!(matches!(give(&mut server, &[]), Made::Nothing));
    assert_eq!(server.counters().malformed, 0);
}

#[test]
fn a_part_of_a_message_that_is_one_packet_is_dropped() {
    let (mut server, binding) = bound();
    let mut header = Header::bare(Kind::Call, binding, LaneId(0), CallNumber(1));
    (header.message_len, header.offset) = (10, 5);
    assert!(matches!(give(&mut server, &[&header.to_bytes()[..], &[0; 5]].concat()), Made::Nothing));
    assert_eq!(server.counters().malformed, 1);
}

#[test]
fn beyond_the_limit_of_packets_no_answer_is_retained_and_no_call_runs_twice() {
    let (mut server, binding) = bound_with(|limits| limits.packets = 1);
    let call = |lane| {
        let mut header = Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(1));
        header.time = 1_000_000;
        header.to_bytes()
    };
    for lane in 0..3 {
        let mut assignment = run(&mut server, &call(lane));
        match lane {
            2 => drop(assignment.refuse(RefusalCode::Overloaded, "").to_vec()),
            _ => drop(assignment.complete(at(2), 3).to_vec()),
        }
        server.finish(at(2), assignment);
    }
    assert!(matches!(give(&mut server, &call(0)), Made::Reply(Kind::Result, _)));
    let gone = FailureCode::ResultGone.code();
    assert!(matches!(give(&mut server, &call(1)), Made::Reply(Kind::Failure, code) if code == gone));
    let refused = RefusalCode::Overloaded.code();
    assert!(matches!(give(&mut server, &call(2)), Made::Reply(Kind::Refusal, code) if code == refused));
    assert_eq!(server.counters().dropped, 2);
    server.bytes_held();
}

#[test]
fn beyond_the_limit_of_packets_a_waiting_call_is_dropped_and_may_be_sent_again() {
    let (mut server, binding) = bound_with(|limits| limits.packets = 0);
    let running = run(&mut server, &packet(Kind::Call, binding, 1));
    let next = packet(Kind::Call, binding, 2);
    assert!(matches!(give(&mut server, &next), Made::Nothing));
    assert!(matches!(finish(&mut server, running), Next::Nothing));
    assert!(matches!(give(&mut server, &next), Made::Run(_)));
}
