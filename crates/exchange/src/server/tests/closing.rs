//! Notices of a server that shuts down, and their effect on a lane.

use super::*;
use crate::RoundTrip;
use crate::caller::{Heard, Lane};

fn notices(server: &Server<Host>) -> Vec<Header> {
    let notices = server.closing_notices(usize::MAX);
    assert!(notices.iter().all(|(peer, _)| *peer == CALLER));
    notices.iter().map(|(_, packet)| Header::from_bytes(packet).unwrap()).collect()
}

#[test]
fn lane_is_told_that_its_next_call_is_refused_also_when_its_answer_is_no_longer_retained() {
    for is_retained in [true, false] {
        let (mut server, binding) = bound();
        let answered = run(&mut server, &packet(Kind::Call, binding, 1));
        finish(&mut server, answered);
        if !is_retained {
            server.handle_timeout(server.next_timeout());
            let again = give(&mut server, &packet(Kind::Call, binding, 1));
            assert!(matches!(again, Made::Reply(Kind::Failure, _)), "the answer is gone");
        }
        server.shut_down();
        let told = notices(&server);
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].kind, told[0].binding, told[0].number), (Kind::Refusal, binding, CallNumber(2)));
        assert_eq!(told[0].refused().code, RefusalCode::ShuttingDown);
        assert!(matches!(give(&mut server, &packet(Kind::Call, binding, 2)), Made::Reply(Kind::Refusal, _)));
    }
}

#[test]
fn lane_with_a_running_call_is_told_when_that_has_ended() {
    let (mut server, binding) = bound();
    let running = run(&mut server, &packet(Kind::Call, binding, 1));
    server.shut_down();
    assert_eq!(notices(&server), []);
    finish(&mut server, running);
    assert_eq!(notices(&server)[0].number, CallNumber(2));
}

#[test]
fn notices_are_bounded_for_a_binding_and_for_all() {
    let (mut server, binding) = bound();
    for lane in 0..300 {
        let mut call = Header::bare(Kind::Call, binding, LaneId(lane), CallNumber(1));
        call.time = 1_000_000;
        let answered = run(&mut server, &call.to_bytes());
        finish(&mut server, answered);
    }
    server.shut_down();
    assert_eq!(notices(&server).len(), 256);
    assert_eq!(server.closing_notices(7).len(), 7);
}

#[test]
fn a_notice_refuses_the_next_call_of_its_lane_and_no_other() {
    let (mut server, binding) = bound();
    let mut lane = Lane::new(binding, LaneId(0), RoundTrip::default(), 1);
    let mut call = [0; HEADER_LEN];
    lane.start(at(0), at(1000), 0, &mut call);
    let answered = run(&mut server, &call);
    finish(&mut server, answered);
    server.shut_down();
    let notice = notices(&server)[0];
    assert_eq!(
        lane.handle_packet(at(1), &notice.to_bytes()),
        Heard::Ignored,
        "its call runs, or has a result"
    );
    lane.abandon(at(2));
    lane.start(at(3), at(1000), 0, &mut call);
    for forged in [
        Header { binding: BindingId(binding.0 ^ 1), ..notice },
        Header { lane: LaneId(1), ..notice },
        Header { number: CallNumber(1), ..notice },
        Header { number: CallNumber(3), ..notice },
    ] {
        assert_eq!(lane.handle_packet(at(4), &forged.to_bytes()), Heard::Ignored);
    }
    assert!(matches!(lane.handle_packet(at(4), &notice.to_bytes()), Heard::Refused(_)));
}
