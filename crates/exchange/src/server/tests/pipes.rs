use super::*;
use stoop_wire::{CallList, Data, flags};

/// A call of that number on that lane, with pipes both ways.
fn call_with_pipes(binding: BindingId, lane: u16, number: u32) -> Vec<u8> {
    let header = Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(number));
    let mut packet = Header { time: u32::MAX, ..header }.to_bytes().to_vec();
    packet[3] |= flags::PIPE_IN | flags::PIPE_OUT;
    packet
}

fn due(server: &mut Server<Host>, now: Instant) -> Vec<(CallKey, PipeDue)> {
    server.handle_timeout(now);
    core::iter::from_fn(|| server.next_due_pipe()).collect()
}

fn list_of(binding: BindingId, calls: &[(LaneId, CallNumber)]) -> Vec<u8> {
    let mut packet = [0; MAX_DATAGRAM];
    let len = CallList::put_probes(binding, calls.iter().copied(), &mut packet);
    packet[..len].to_vec()
}

/// Looks in time until then, as a driver does, while the caller asks every second about these calls.
fn asks_about(
    server: &mut Server<Host>,
    binding: BindingId,
    calls: &[(LaneId, CallNumber)],
    (from, to): (u64, u64),
) -> Vec<(CallKey, PipeDue)> {
    let (mut found, mut reply) = (Vec::new(), Vec::new());
    for second in from..to {
        if !calls.is_empty() {
            server.handle_packet(at(1000 * second), &CALLER, &list_of(binding, calls), &mut reply);
        }
        found.extend(due(server, at(1000 * second)));
    }
    found
}

#[test]
fn a_call_with_pipes_is_silent_though_its_caller_asks_about_others() {
    let (mut server, binding) = bound();
    let given_up = run(&mut server, &call_with_pipes(binding, 0, 1));
    let other = run(&mut server, &call_with_pipes(binding, 1, 1));
    let asked = [(LaneId(1), CallNumber(1))];
    assert_eq!(asks_about(&mut server, binding, &asked, (1, 25)), []);
    let found = asks_about(&mut server, binding, &asked, (25, 90));
    assert_eq!(found, [(given_up.identity(), PipeDue::Silent)], "it is said once");
    let found = asks_about(&mut server, binding, &[], (90, 120));
    assert_eq!(found, [(other.identity(), PipeDue::Silent)]);
}

#[test]
fn a_server_that_did_not_look_for_long_does_not_take_its_callers_for_silent() {
    let (mut server, binding) = bound();
    let running = run(&mut server, &call_with_pipes(binding, 0, 1));
    assert_eq!(due(&mut server, at(600_000)), []);
    assert_eq!(asks_about(&mut server, binding, &[], (601, 624)), []);
    let found = asks_about(&mut server, binding, &[], (624, 640));
    assert_eq!(found, [(running.identity(), PipeDue::Silent)]);
}

#[test]
fn a_window_grows_within_a_quarter_of_the_memory_and_for_an_item_that_has_begun_within_all_of_it() {
    let (mut server, binding) = bound_with(|limits| limits.pipes = 400_000);
    let running = run(&mut server, &call_with_pipes(binding, 0, 1));
    let call = running.identity();
    assert_eq!(server.pipe_bytes(), 16_384);
    assert!(server.pipe_credit(call, 0, 100_000, false));
    assert!(!server.pipe_credit(call, 0, 100_001, false));
    assert!(server.pipe_credit(call, 0, 200_000, true));
    assert_eq!(server.pipe_bytes(), 200_000);
    assert!(!server.pipe_credit(call, 0, 400_000, true));
    server.pipe_retry(at(1), call);
    assert_eq!(due(&mut server, at(20)), []);
    assert_eq!(due(&mut server, at(21)), [(call, PipeDue::Retry)]);
    assert_eq!(due(&mut server, at(50)), []);
}

#[test]
fn a_failure_tells_how_many_bytes_were_sent_before_it() {
    let (mut server, binding) = bound();
    let mut running = run(&mut server, &call_with_pipes(binding, 0, 1));
    let call = running.identity();
    server.pipe_allow(call, 100);
    assert_eq!(server.pipe_send(at(1), call, &[7; 50]), 50);
    server.pipe_send_rest(at(1), call, &[8; 20_000]);
    assert_eq!(server.pipe_close(call), 20_050);
    let failure = running.fail_behind_pipe(FailureCode::Abandoned, "why", 20_050).to_vec();
    let (header, payload) = Header::parse(&failure).unwrap();
    assert_eq!((header.kind, header.time), (Kind::Failure, FailureCode::Abandoned.code()));
    assert_eq!(payload, [&20_050_u64.to_le_bytes()[..], b"why"].concat());
    assert!(Header::tells_pipe(&failure));
    let next = server.finish(at(2), running);
    assert!(matches!(next, Next::Nothing) && server.is_sending(), "the pipe goes on");
    let question = Data { at: 0, len: 0, end: None, has_waited: false, transmission: 1 };
    let question = question.header(binding, LaneId(0), CallNumber(1)).to_bytes();
    assert!(
        matches!(give(&mut server, &question), Made::Reply(Kind::Failure, _)),
        "and the answer is repeated"
    );
}
