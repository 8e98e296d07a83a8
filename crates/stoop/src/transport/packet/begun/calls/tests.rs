use crate::calling::begun::{BeginsCalls, CallBatch, OutstandingCalls};
use crate::calling::detaching::Detaching;
use crate::error::SendError;
use crate::locked::locked;
use crate::options::BindOptions;
use crate::server::RunningServer;
use crate::transport::packet::begun::calls::*;
use crate::transport::packet::begun::{NotSent, PacketCalls};
use crate::transport::packet::endpoint::Endpoint;
use crate::transport::packet::now;
use crate::transport::packet::options::PacketOptions;
use crate::transport::packet::tests::{bound, bound_with};
use crate::transport::udp::UdpLink;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use stoop_exchange::outcome::Verdict;
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Kind, RefusalCode};

fn calls() -> (RunningServer, Arc<PacketCalls<UdpLink>>) {
    let (server, binding) = bound(PacketOptions::new());
    (server, PacketCalls::new(Arc::new(binding)).unwrap())
}

/// Starts the call in the queue of `begin`, as if the system refused to send it.
fn start_without_sending(calls: &PacketCalls<UdpLink>, begin: &CallBatch) -> NotSent {
    let mut queue = locked(begin.queue.as_ref().unwrap());
    calls.calls().start_all(&mut queue, now());
    let (call, packet) = queue.packet(0);
    NotSent { call, packet: packet.to_vec(), why: io::ErrorKind::NetworkUnreachable.into() }
}

#[test]
fn a_packet_that_was_not_sent_is_not_that_of_the_same_call_on_another_lane() {
    let (_server, calls) = calls();
    let mut begin = calls.open_batch(10_000_000_000);
    let call = calls.begin(&mut begin, 0, 0).unwrap();
    let failed = start_without_sending(&calls, &begin);
    // Before the system has said what has become of that, the call has been sent on another lane, as its first, too.
    let mut locked = calls.calls();
    locked.await_rebind(call);
    let session = calls.link.binding.present();
    locked.send_again(call, &session, now());
    drop(locked);
    calls.not_sent(vec![failed]);
    assert_eq!(calls.wait(&[call], Instant::NEVER), Some(0));
    let mut result = None;
    assert!(calls.take(call, &mut |outcome| result = Some(outcome.map(drop))));
    assert!(matches!(result, Some(Ok(()))), "{result:?}");
}

#[test]
fn a_one_way_call_that_the_system_does_not_send_says_so() {
    let (_server, calls) = calls();
    let mut begin = calls.open_batch(10_000_000_000);
    let call = calls.begin(&mut begin, 0, 0).unwrap();
    // From now on the socket sends nothing: this shuts any kind of socket down.
    let Endpoint::Own(endpoint) = &calls.link.endpoint else { panic!("it is not shared") };
    let socket = TcpStream::from(endpoint.socket().as_fd().try_clone_to_owned().unwrap());
    socket.shutdown(Shutdown::Write).unwrap();
    calls.submit(begin);
    let error = calls.let_go(call, None).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Io(_), ..)), "{error}");
    assert_eq!(calls.detached(), 0);
}

#[test]
fn a_call_whose_packet_was_not_sent_did_not_run() {
    let (_server, calls) = calls();
    let mut begin = calls.open_batch(10_000_000_000);
    let call = calls.begin(&mut begin, 0, 0).unwrap();
    let failed = start_without_sending(&calls, &begin);
    calls.not_sent(vec![failed]);
    let mut result = None;
    assert!(calls.take(call, &mut |outcome| result = Some(outcome.map(drop))));
    assert!(matches!(result, Some(Err(CallError::NotSent(..)))), "{result:?}");
}

#[test]
fn the_packet_of_a_cancelled_call_that_is_held_back_has_no_arguments() {
    let (_server, calls) = calls();
    let mut begin = calls.open_batch(10_000_000_000);
    let call = calls.begin(&mut begin, 0, 4).unwrap();
    let mut queue = locked(begin.queue.as_ref().unwrap());
    let mut locked = calls.calls();
    locked.cancel(call, now());
    let (number, packet) = queue.packets_mut().next().map(|(call, packet)| (call.call, packet)).unwrap();
    assert_eq!(number, call);
    packet[HEADER_LEN..].fill(7);
    locked.start_all(&mut queue, now());
    let (_, packet) = queue.packet(0);
    assert_eq!(Header::parse(packet).unwrap().0.kind, Kind::Cancel);
    assert!(packet[HEADER_LEN..].iter().all(|byte| *byte == 0), "{packet:?}");
}

#[test]
fn a_call_that_has_not_left_is_not_answered_whatever_arrives() {
    let (_server, calls) = calls();
    let mut begin = calls.open_batch(10_000_000_000);
    let call = calls.begin(&mut begin, 0, 0).unwrap();
    for kind in [Kind::Result, Kind::Refusal, Kind::Failure, Kind::Acknowledgement, Kind::Challenge] {
        let binding = calls.link.binding.present().bound.binding;
        let mut locked = calls.calls();
        let answer = Header::bare(kind, binding, locked.slots[call as usize].lane.id(), CallNumber(1));
        let answer = answer.to_bytes();
        locked.deliver_all(now(), [&answer[..]].into_iter());
        assert_eq!(locked.slots[call as usize].stage, Stage::HeldBack(begin.batch), "{kind:?}");
        assert!(!locked.slots[call as usize].lane.last_was_acknowledged());
    }
    calls.submit(begin);
    assert_eq!(calls.wait(&[call], Instant::NEVER), Some(0));
    let mut result = None;
    assert!(calls.take(call, &mut |outcome| result = Some(outcome.map(drop))));
    assert!(matches!(result, Some(Ok(()))), "{result:?}");
}

#[test]
fn a_result_ends_no_call_that_has_not_been_sent_here() {
    let (_server, calls) = calls();
    let mut begin = calls.open_batch(10_000_000_000);
    let call = calls.begin(&mut begin, 0, 0).unwrap();
    let sent = start_without_sending(&calls, &begin);
    let mut locked = calls.calls();
    let (header, _) = Header::parse(&sent.packet).unwrap();
    let result = Header { kind: Kind::Result, ..header }.to_bytes();
    for stage in [Stage::Apart, Stage::Waiting, Stage::HeldBack(begin.batch)] {
        locked.slots[call as usize].stage = stage;
        locked.deliver_all(now(), [&result[..]].into_iter());
        assert_eq!(locked.slots[call as usize].stage, stage);
    }
    locked.slots[call as usize].stage = Stage::Sent;
    locked.deliver_all(now(), [&result[..]].into_iter());
    assert_eq!(locked.slots[call as usize].stage, Stage::Ended);
}

#[test]
fn a_notice_of_shutdown_counts_only_for_the_present_binding() {
    let (_server, calls) = calls();
    let mut begin = calls.open_batch(10_000_000_000);
    let call = calls.begin(&mut begin, 0, 0).unwrap();
    let BindingId(binding) = calls.link.binding.present().bound.binding;
    let mut locked = calls.calls();
    let lane = locked.slots[call as usize].lane.id();
    for (binding, leaves) in [(binding ^ 1, false), (binding, true)] {
        let next = Header::bare(Kind::Call, BindingId(binding), lane, CallNumber(1));
        let notice = next.refuse(RefusalCode::ShuttingDown).to_bytes();
        locked.deliver_all(now(), [&notice[..]].into_iter());
        assert_eq!(locked.leaves, leaves);
    }
}

#[test]
fn a_detached_call_for_which_another_thread_waits_is_outstanding() {
    let (_server, calls) = calls();
    let mut begin = calls.open_batch(10_000_000_000);
    let call = calls.begin(&mut begin, 0, 0).unwrap();
    calls.detach(call, None);
    assert_eq!(calls.reclaim(Selection::All), Reclaimed::Call(call, None));
    let report = calls.flush(now()).unwrap_err();
    assert_eq!((report.outstanding, report.failed), (1, 0));
}

#[test]
fn an_idempotent_call_that_a_former_server_may_have_run_waits_for_the_next_one_at_a_closed_port() {
    let (server, binding) = bound_with(&BindOptions::new().wait_for_restart(Duration::from_secs(600)));
    let calls = PacketCalls::new(Arc::new(binding)).unwrap();
    let mut begin = calls.open_batch(600_000_000_000);
    let call = calls.begin(&mut begin, 1, 0).unwrap();
    start_without_sending(&calls, &begin);
    drop(server);
    let session = calls.link.binding.present();
    let mut locked = calls.calls();
    locked.await_rebind(call);
    let slot = &mut locked.slots[call as usize];
    let loss = slot.loss();
    slot.fate.judged(Verdict::RunAgain, || loss, true);
    locked.send_again(call, &session, now());
    drop(locked);
    let stage = || calls.calls().slots[call as usize].stage;
    while stage() == Stage::Sent {
        thread::yield_now();
    }
    assert_eq!(stage(), Stage::Unbound, "it waits");
}

#[test]
fn a_call_goes_on_at_a_server_that_has_refused_a_cancelled_one_because_it_shuts_down() {
    let (_server, calls) = calls();
    let mut begin = calls.open_batch(600_000_000_000);
    let [running, cancelled] = [(); 2].map(|()| calls.begin(&mut begin, 0, 0).unwrap());
    let mut queue = locked(begin.queue.as_ref().unwrap());
    let mut locked = calls.calls();
    locked.start_all(&mut queue, now());
    locked.expand(cancelled).owner = Owner::Cancelled;
    let (header, _) = Header::parse(queue.packet(1).1).unwrap();
    let refusal = header.refuse(RefusalCode::ShuttingDown).to_bytes();
    locked.deliver_all(now(), [&refusal[..]].into_iter());
    assert_ne!(locked.slots[cancelled as usize].stage, Stage::Sent);
    // Another thread's call goes to another server.
    calls.link.binding.rebind(&calls.link.binding.present(), None, Instant::NEVER).unwrap();
    locked.note_session();
    assert_eq!(locked.slots[running as usize].stage, Stage::Sent);
}
