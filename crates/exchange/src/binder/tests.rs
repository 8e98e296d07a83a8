use super::*;
use crate::server::{Effect, Limits, Peer, Server};
use crate::{FORMS, Interfaces, OlderForm, Procedure};
use alloc::{format, vec};
use stoop_wire::HEADER_LEN;
use stoop_wire::bind::CHECKSUM;

#[derive(Clone, Copy)]
struct Host(u8);

impl Peer for Host {
    fn host(&self) -> [u8; 16] {
        [self.0; 16]
    }
    fn port(&self) -> u16 {
        7
    }
}

fn interface(procedures: usize) -> Interface {
    let procedure = |i| Procedure { name: format!("p{i}"), signature: format!("p{i}()") };
    Interface {
        name: "Wide".into(),
        procedures: (0..procedures).map(procedure).collect(),
        ..Interface::default()
    }
}

fn server(procedures: usize) -> Server<Host> {
    let mut exported = interface(procedures);
    exported.procedures.reverse();
    Server::new(now(), Interfaces::new([exported]), Limits::default(), HostFacts::default(), [1, 2])
}

fn now() -> Instant {
    Instant::from_nanos(1)
}

fn binder(interface: Interface) -> Binder {
    Binder::new(now(), now() + Duration::from_secs(1), interface, HostFacts::default(), 99)
}

/// Passes packets between both until the binder has an answer; counts the round trips.
fn bind(binder: &mut Binder, server: &mut Server<Host>) -> (BindStep, usize) {
    let mut reply = Vec::new();
    for round in 1..20 {
        let packet = binder.transmit(now()).expect("something to ask");
        assert!(matches!(server.handle_packet(now(), &Host(1), &packet, &mut reply), Effect::Reply));
        assert!(reply.len() <= packet.len(), "a reply longer than its request would amplify");
        match binder.handle_packet(now(), &reply) {
            BindStep::Continue => {}
            step => return (step, round),
        }
    }
    panic!("no answer");
}

#[test]
fn a_binding_takes_two_round_trips() {
    let mut server = server(3);
    let (BindStep::Bound(bound), 2) = bind(&mut binder(interface(2)), &mut server) else { panic!() };
    assert_eq!(bound.procedures, [2, 1], "the server's numbers, by fingerprint");
    assert_eq!(server.bindings(), 1);
}

#[test]
fn a_large_interface_is_bound_page_by_page() {
    let mut server = server(300);
    let (BindStep::Bound(bound), 4) = bind(&mut binder(interface(300)), &mut server) else { panic!() };
    assert!(bound.procedures.iter().copied().eq((0..300).rev()));
    assert_eq!(server.bindings(), 1);
}

#[test]
fn a_mismatch_shows_the_servers_signature() {
    let mut ours = interface(2);
    ours.procedures[1].signature = "p1(u32)".into();
    let (step, _) = bind(&mut binder(ours), &mut server(2));
    assert_eq!(step, BindStep::Mismatch { procedure: 1, theirs: "p1()".into() });
}

#[test]
fn a_missing_procedure_has_an_empty_signature() {
    let (step, _) = bind(&mut binder(interface(3)), &mut server(2));
    assert_eq!(step, BindStep::Mismatch { procedure: 2, theirs: String::new() });
}

#[test]
fn the_refusal_of_an_unknown_interface_names_the_known_ones() {
    let other = Interface { name: "Other".into(), procedures: Vec::new(), ..Interface::default() };
    let (step, _) = bind(&mut binder(other), &mut server(1));
    assert_eq!(step, BindStep::Refused(BindStatus::NoSuchInterface, "Wide".into()));
}

#[test]
fn a_repeated_request_makes_one_binding() {
    let mut server = server(1);
    let mut binder = binder(interface(1));
    let mut reply = Vec::new();
    let first = binder.transmit(now()).unwrap();
    server.handle_packet(now(), &Host(1), &first, &mut reply);
    binder.handle_packet(now(), &reply);
    let with_cookie = binder.transmit(now()).unwrap();
    server.handle_packet(now(), &Host(1), &with_cookie, &mut reply);
    let once = reply.clone();
    server.handle_packet(now(), &Host(1), &with_cookie, &mut reply);
    assert_eq!((once, server.bindings()), (reply, 1));
}

#[test]
fn a_cookie_is_rejected_from_another_address() {
    let mut server = server(1);
    let mut binder = binder(interface(1));
    let mut reply = Vec::new();
    let first = binder.transmit(now()).unwrap();
    server.handle_packet(now(), &Host(1), &first, &mut reply);
    binder.handle_packet(now(), &reply);
    let with_cookie = binder.transmit(now()).unwrap();
    server.handle_packet(now(), &Host(2), &with_cookie, &mut reply);
    assert_eq!(Header::parse(&reply).unwrap().0.kind, Kind::Challenge);
    assert_eq!(server.bindings(), 0);
}

#[test]
fn a_late_duplicate_of_a_request_does_not_revive_a_binding() {
    let mut server = server(1);
    let mut binder = binder(interface(1));
    let mut reply = Vec::new();
    let first = binder.transmit(now()).unwrap();
    server.handle_packet(now(), &Host(1), &first, &mut reply);
    binder.handle_packet(now(), &reply);
    let with_cookie = binder.transmit(now()).unwrap();
    server.handle_packet(now(), &Host(1), &with_cookie, &mut reply);
    let BindStep::Bound(bound) = binder.handle_packet(now(), &reply) else { panic!() };
    let unbind = Header::bare(Kind::Unbind, bound.binding, LaneId(0), CallNumber::ZERO).to_bytes();
    server.handle_packet(now(), &Host(1), &unbind, &mut reply);
    assert!(matches!(server.handle_packet(now(), &Host(1), &with_cookie, &mut reply), Effect::Nothing));
    assert_eq!(server.bindings(), 0);
}

#[test]
fn an_unanswered_bind_is_sent_again_until_the_deadline() {
    let mut binder = binder(interface(1));
    let mut sent = 0;
    while !binder.has_expired(binder.next_timeout()) {
        let now = binder.next_timeout();
        sent += usize::from(binder.transmit(now).is_some());
    }
    assert!((4..10).contains(&sent), "{sent}");
    assert!(binder.transmit(binder.next_timeout()).is_none());
}

/// Binds at a server that began at 1 ns and knows the flags `known`, some time after its start.
fn bound_at(nanos: u64, known: u32, required: u32, wanted: u32) -> BindStep {
    let limits = Limits { flags: known, lanes: 77, ..Limits::default() };
    let interfaces = Interfaces::new([interface(1)]);
    let server = Server::new(now(), interfaces, limits, HostFacts::default(), [1, 2]);
    // The server's machine slept for 50 ns before the server began.
    let mut server = server.with_clock(|now| now.after_nanos(50));
    let later = Instant::from_nanos(nanos);
    let deadline = later + Duration::from_secs(1);
    let mut binder = Binder::new(later, deadline, interface(1), HostFacts::default(), 99);
    binder = binder.asking(required, wanted);
    let mut reply = Vec::new();
    loop {
        let packet = binder.transmit(later).expect("something to ask");
        server.handle_packet(later, &Host(1), &packet, &mut reply);
        match binder.handle_packet(later, &reply) {
            BindStep::Continue => {}
            step => return step,
        }
    }
}

#[test]
fn a_bind_reply_tells_the_servers_clock_and_uptime() {
    let BindStep::Bound(bound) = bound_at(1001, 0, 0, 0) else { panic!() };
    assert_eq!(bound.clock, Some(ServerClock { now_ns: 1051, up_ns: 1000 }));
    assert_eq!((bound.packet_data, bound.lanes, bound.credit), (1440, 77, u32::MAX));
}

#[test]
fn the_wanted_flags_that_the_server_knows_hold() {
    let BindStep::Bound(bound) = bound_at(2, 0b110, 0b010, 0b1101) else { panic!() };
    assert_eq!(bound.chosen, 0b110);
}

#[test]
fn the_refusal_names_an_unknown_required_flag() {
    let step = bound_at(2, 0b110, 0b1011, 0b1100);
    assert_eq!(step, BindStep::Refused(BindStatus::UnknownFlags(0b1001), String::new()));
}

/// Binds at a server that knows checksums. `tamper` changes the bind, `spoil` the server's answer.
fn bound_with_checksum(tamper: impl Fn(&mut Vec<u8>), spoil: impl Fn(&mut Vec<u8>)) -> BindStep {
    let limits = Limits { flags: CHECKSUM, ..Limits::default() };
    let interfaces = Interfaces::new([interface(1)]);
    let mut server = Server::new(now(), interfaces, limits, HostFacts::default(), [1, 2]);
    let mut binder =
        Binder::new(now(), now() + Duration::from_secs(60), interface(1), HostFacts::default(), 99)
            .asking(CHECKSUM, 0);
    let mut step = BindStep::Continue;
    for _ in 0..3 {
        let mut packet = binder.transmit(binder.next_timeout()).expect("something to ask");
        tamper(&mut packet);
        let mut reply = Vec::new();
        server.handle_packet(now(), &Host(1), &packet, &mut reply);
        spoil(&mut reply);
        step = binder.handle_packet(now(), &reply);
    }
    step
}

/// Flips the bit that says whether a packet has a checksum.
fn flip(packet: &mut [u8]) {
    if let Some(byte) = packet.get_mut(15) {
        *byte ^= 0x80;
    }
}

#[test]
fn the_number_of_a_binding_with_checksums_says_so_and_its_packets_carry_less_data() {
    let BindStep::Bound(bound) = bound_with_checksum(|_| {}, |_| {}) else { panic!() };
    assert!(bound.binding.has_checksum());
    assert_eq!((bound.chosen, bound.packet_data), (CHECKSUM, 1432));
    let BindStep::Bound(bound) = bound_at(2, CHECKSUM, 0, 0) else { panic!() };
    assert!(!bound.binding.has_checksum());
}

#[test]
fn a_bind_whose_flags_and_header_disagree_about_the_checksum_is_dropped() {
    assert_eq!(bound_with_checksum(|packet| flip(packet), |_| {}), BindStep::Continue);
    let without_flag = |packet: &mut Vec<u8>| packet[HEADER_LEN + 16] ^= CHECKSUM as u8;
    assert_eq!(bound_with_checksum(without_flag, |_| {}), BindStep::Continue);
}

#[test]
fn a_reply_without_a_required_checksum_is_ignored() {
    assert_eq!(bound_with_checksum(|_| {}, |reply| flip(reply)), BindStep::Continue);
}

#[test]
fn a_binding_with_an_unrequested_checksum_is_ignored() {
    let mut server = server(1);
    let mut binder = binder(interface(1));
    let mut reply = Vec::new();
    let mut ask = |binder: &mut Binder, spoil: fn(&mut [u8])| {
        let packet = binder.transmit(binder.next_timeout()).expect("something to ask");
        server.handle_packet(now(), &Host(1), &packet, &mut reply);
        spoil(&mut reply);
        binder.handle_packet(now(), &reply)
    };
    assert_eq!(ask(&mut binder, |_| {}), BindStep::Continue, "a challenge");
    assert_eq!(ask(&mut binder, flip), BindStep::Continue);
    assert!(matches!(ask(&mut binder, |_| {}), BindStep::Bound(_)));
}

#[test]
fn repeated_challenges_are_answered_once_between_two_timeouts() {
    let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    let mut binder = Binder::new(at(0), at(10_000), interface(1), HostFacts::default(), 5);
    let challenge = |cookie| {
        let header = Header::bare(Kind::Challenge, BindingId::NONE, LaneId(0), CallNumber(5));
        header.with_challenge(Kind::Challenge, Challenge(cookie)).to_bytes()
    };
    assert!(binder.transmit(at(0)).is_some());
    let mut cookie = 0;
    for _ in 0..3 {
        let mut sent = 0;
        for _ in 0..20 {
            cookie += 1;
            binder.handle_packet(at(1), &challenge(cookie));
            sent += u32::from(binder.transmit(at(1)).is_some());
        }
        assert_eq!(sent, 1);
        let due = binder.next_timeout();
        let packet = binder.transmit(due).expect("it is asked again");
        let (_, payload) = Header::parse(&packet).unwrap();
        assert_eq!(BindRequest::decode(payload).unwrap().cookie, Challenge(cookie), "with the newest cookie");
    }
}

#[test]
fn a_server_of_another_version_is_reported_with_its_versions() {
    let mut binder = binder(interface(1));
    let asked = binder.transmit(now()).unwrap();
    let mut answer = asked[..stoop_wire::HEADER_LEN].to_vec();
    (answer[1], answer[2], answer[3]) = (2, Kind::Versions as u8, 0xff);
    answer[24..].copy_from_slice(&[2, 3, 0, 0, 0, 0, 0, 0]);
    let BindStep::OtherVersion(versions) = binder.handle_packet(now(), &answer) else { panic!() };
    assert!(versions.iter().eq([2, 3]));
    answer[16] ^= 1;
    assert_eq!(binder.handle_packet(now(), &answer), BindStep::Continue, "it answers another's question");
}

/// Procedures `p0`, `p1` … as at a revision: each has a parameter more with each revision, and one procedure more comes with each.
fn at_revision(revision: u16, first: u16) -> Interface {
    let form =
        |procedure, revision| format!("p{procedure}({})", vec!["u8"; usize::from(revision)].join(", "));
    let mut interface = Interface { name: "Wide".into(), ..Interface::default() };
    for procedure in 0..first + revision {
        let since = procedure.saturating_sub(first - 1);
        interface
            .procedures
            .push(Procedure { name: format!("p{procedure}"), signature: form(procedure, revision) });
        let forms = (since..revision).rev();
        interface
            .older
            .extend(forms.map(|revision| OlderForm { procedure, signature: form(procedure, revision) }));
        if since > 0 {
            interface.later.push(procedure);
        }
    }
    interface
}

/// The signature that the interface of either end has for that number.
fn signature(of: &Interface, form: u16) -> &str {
    match form.checked_sub(FORMS) {
        Some(older) => &of.older[usize::from(older)].signature,
        None => &of.procedures[usize::from(form)].signature,
    }
}

#[test]
fn each_revision_binds_to_each_with_the_newest_common_forms() {
    for (ours, theirs) in (0..4).flat_map(|ours| (0..4).map(move |theirs| (ours, theirs))) {
        for first in [1, 3, 127, 128, 300] {
            let (caller, exported) = (at_revision(ours, first), at_revision(theirs, first));
            let interfaces = Interfaces::new([exported.clone()]);
            let agreed = interfaces.agree(&caller).unwrap();
            let mut server = Server::new(now(), interfaces, Limits::default(), HostFacts::default(), [1, 2]);
            let (BindStep::Bound(bound), rounds) = bind(&mut binder(caller.clone()), &mut server) else {
                panic!("{ours} {theirs}")
            };
            assert_eq!(server.bindings(), 1);
            for (procedure, found) in (0..).zip(&agreed) {
                let form = bound.form(procedure);
                if *found == Found::NOTHING {
                    assert!(procedure >= first + theirs && form.is_none(), "{ours} {theirs} {procedure}");
                    assert_eq!(bound.known(procedure), None);
                    continue;
                }
                let form = form.unwrap();
                assert_eq!((form, bound.known(form)), (found.form, Some(found.number)));
                assert_eq!(signature(&caller, form), signature(&exported, found.number));
                assert_eq!(signature(&caller, form).matches("u8").count(), usize::from(ours.min(theirs)));
            }
            let pages = usize::from(first + ours).div_ceil(128);
            if ours <= theirs {
                assert_eq!(rounds, 1 + pages);
            } else if first <= 3 {
                assert_eq!(rounds, 4);
            }
        }
    }
}

#[test]
fn older_forms_change_no_byte_of_a_bind_between_ends_of_one_revision() {
    for first in [1, 40, 200] {
        let grown = at_revision(3, first);
        let plain = Interface { older: Vec::new(), later: Vec::new(), ..grown.clone() };
        let packets = |interface: &Interface| {
            let interfaces = Interfaces::new([interface.clone()]);
            let mut server = Server::new(now(), interfaces, Limits::default(), HostFacts::default(), [1, 2]);
            let (mut binder, mut reply, mut all) = (binder(interface.clone()), Vec::new(), Vec::new());
            while let Some(packet) = binder.transmit(now()) {
                server.handle_packet(now(), &Host(1), &packet, &mut reply);
                all.extend([packet, reply.clone()]);
                if let BindStep::Bound(bound) = binder.handle_packet(now(), &reply) {
                    return (all, bound.procedures);
                }
            }
            panic!("it is not bound");
        };
        assert_eq!(packets(&grown), packets(&plain));
    }
}

#[test]
fn a_procedure_known_in_no_form_is_described() {
    let mut caller = at_revision(2, 2);
    caller.older.retain(|form| form.procedure != 1);
    let (step, _) = bind(&mut binder(caller), &mut {
        let interfaces = Interfaces::new([at_revision(1, 2)]);
        Server::new(now(), interfaces, Limits::default(), HostFacts::default(), [1, 2])
    });
    assert_eq!(step, BindStep::Mismatch { procedure: 1, theirs: "p1(u8)".into() });
}

#[test]
fn a_server_that_forgets_what_it_knew_is_asked_a_bounded_number_of_times() {
    let mut binder = binder(at_revision(3, 40));
    for asked in 0..100 {
        let packet = binder.transmit(now()).expect("something to ask");
        let (header, payload) = Header::parse(&packet).unwrap();
        if header.kind == Kind::Describe {
            return;
        }
        let request = BindRequest::decode(payload).unwrap();
        // Of the newest forms it knows none, then all but one of the others.
        let mut procedures = vec![7; request.fingerprints.len()];
        procedures[asked % request.fingerprints.len()] = NO_PROCEDURE;
        let reply = BindReply {
            status: BindStatus::Mismatch,
            nonce: request.nonce,
            incarnation: 1,
            chosen: 0,
            silence_ms: 1,
            max_message: 1440,
            window: 1440,
            host: HostFacts::default(),
            first: request.first,
            procedures,
            text: String::new(),
            clock: None,
            packet_data: 1440,
            lanes: 1,
            credit: 1,
            metadata: 0,
        };
        let mut answer = Vec::new();
        let mut header = Header::bare(Kind::BindReply, BindingId::NONE, LaneId(0), header.number);
        let payload = reply.encode();
        header.message_len = payload.len() as u32;
        answer.extend_from_slice(&header.to_bytes());
        answer.extend_from_slice(&payload);
        assert_eq!(binder.handle_packet(now(), &answer), BindStep::Continue);
    }
    panic!("it is asked for ever");
}

#[test]
fn a_late_answer_to_an_earlier_question_is_not_taken_for_that_to_the_present_one() {
    let interfaces = Interfaces::new([at_revision(0, 3)]);
    let mut server = Server::new(now(), interfaces, Limits::default(), HostFacts::default(), [1, 2]);
    let mut binder = binder(at_revision(1, 3));
    let (mut replies, mut reply) = (Vec::<Vec<u8>>::new(), Vec::new());
    loop {
        let packet = binder.transmit(now()).expect("something to ask");
        server.handle_packet(now(), &Host(1), &packet, &mut reply);
        for late in &replies {
            assert_eq!(binder.handle_packet(now(), late), BindStep::Continue);
        }
        replies.push(reply.clone());
        match binder.handle_packet(now(), &reply) {
            BindStep::Continue => {}
            BindStep::Bound(bound) => {
                assert_eq!(bound.known(FORMS + 1), Some(1));
                return;
            }
            step => panic!("{step:?}"),
        }
    }
}
