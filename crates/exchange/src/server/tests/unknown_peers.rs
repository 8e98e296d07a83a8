//! Packets on unknown bindings, from other hosts, and of other versions.

use super::*;

#[test]
fn the_refusal_of_an_unknown_binding_carries_the_servers_incarnation() {
    let (mut server, binding) = bound();
    let mut incarnation_of = |packet: &[u8]| {
        let mut reply = Vec::new();
        server.handle_packet(at(0), &CALLER, packet, &mut reply);
        assert_eq!(reply.len(), stoop_wire::HEADER_LEN);
        Header::parse(&reply).unwrap().0.incarnation()
    };
    let foreign = BindingId(binding.0 ^ 1 << 63);
    let kinds = [Kind::Call, Kind::Probe, Kind::Receipt, Kind::Cancel];
    let told: Vec<_> = kinds.iter().map(|kind| incarnation_of(&packet(*kind, foreign, 1))).collect();
    let mut request = BindRequest { nonce: 6, ..bind_request() };
    let mut reply = Vec::new();
    server.handle_packet(at(0), &CALLER, &bind_packet(&request), &mut reply);
    request.cookie = Header::parse(&reply).unwrap().0.challenge().expect("a challenge first");
    server.handle_packet(at(0), &CALLER, &bind_packet(&request), &mut reply);
    let bound = BindReply::decode(Header::parse(&reply).unwrap().1).unwrap();
    assert_eq!(told, [Some(bound.incarnation); 4]);
}

#[test]
fn a_packet_of_another_version_is_answered_with_the_spoken_versions() {
    let (mut server, binding) = bound();
    for kind in 0..=255 {
        let mut asked = packet(Kind::Call, binding, 1);
        (asked[1], asked[2]) = (2, kind);
        let mut reply = Vec::new();
        let arrival = server.handle_packet(at(0), &CALLER, &asked, &mut reply);
        if kind == Kind::Versions as u8 {
            assert!(matches!(arrival, Effect::Nothing));
            continue;
        }
        assert!(matches!(arrival, Effect::Reply));
        let list = stoop_wire::Versions::answer_to(&asked).unwrap();
        assert_eq!((&reply[..], reply.len() <= asked.len()), (&list[..], true));
    }
}

#[test]
fn a_peer_at_another_host_cannot_unbind() {
    let (mut server, binding) = bound();
    give_from(&mut server, Host(2), at(1), &packet(Kind::Unbind, binding, 0));
    assert_eq!(server.bindings(), 1);
}

#[test]
fn a_call_on_an_unknown_binding_is_refused() {
    let (mut server, binding) = bound();
    let code = RefusalCode::UnknownBinding.code();
    let foreign = packet(Kind::Call, BindingId(binding.0 ^ 1 << 63), 1);
    assert!(matches!(give(&mut server, &foreign), Made::Reply(Kind::Refusal, c) if c == code));
    give(&mut server, &packet(Kind::Unbind, binding, 0));
    assert!(
        matches!(give(&mut server, &packet(Kind::Call, binding, 1)), Made::Reply(Kind::Refusal, c) if c == code)
    );
}
