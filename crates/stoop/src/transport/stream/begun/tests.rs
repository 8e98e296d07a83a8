//! Begun calls while their binding goes over to another session.

use crate::calling::begun::{CallBatch, PipeTerms};
use crate::options::BindOptions;
use crate::pipes::contract::{Ends, Pipes};
use crate::pipes::record::Record;
use crate::pipes::window::Window;
use crate::server::{RunningServer, Server};
use crate::transport::contract::Target;
use crate::transport::packet::tests::{INTERFACE, Lab};
use crate::transport::stream::address::TCP;
use crate::transport::stream::begun::piped::CallerPipes;
use crate::transport::stream::begun::{Outstanding, Progress, locked};
use crate::transport::stream::caller::StreamBinding;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use stoop_exchange::Instant;
use stoop_net::clock;
use stoop_wire::HEADER_LEN;

const LIMIT: Duration = Duration::from_secs(30);

/// Begun calls without a background thread, on a binding to a server of one procedure.
fn calls() -> (RunningServer, Arc<Outstanding>) {
    let server = Server::new().export(Lab).listen("tcp://127.0.0.1:0").unwrap().start().unwrap();
    let uri = &server.uris()[0];
    let address = uri.strip_prefix("tcp://").unwrap();
    let options = &BindOptions::new();
    let target = Target { interface: &INTERFACE, uri, scheme: &TCP, address, is_ours: |_| false, options };
    let binding = StreamBinding::bind(&target, Instant::NEVER).unwrap();
    (server, Outstanding::new(&Arc::new(binding)))
}

/// Queues a call. Returns its place.
fn queue(calls: &Outstanding) -> u32 {
    let batch = CallBatch::unclocked(vec![0; HEADER_LEN], HEADER_LEN, 0, LIMIT.as_nanos() as u64);
    calls.state().queue_call(&batch, 0, 0, None).unwrap()
}

fn has_result(calls: &Arc<Outstanding>, call: u32) -> bool {
    calls.wait_any(&[call], clock::now_ns() + LIMIT.as_nanos() as u64) == Some(0)
        && calls.state().calls.take(call).is_ok()
}

#[test]
fn a_thread_that_took_a_session_before_a_move_sends_its_call_on_the_next() {
    let (_server, calls) = calls();
    let first = queue(&calls);
    assert!(has_result(&calls, first));
    let former = calls.binding.present();
    let users = Arc::strong_count(&former);
    let call = queue(&calls);
    let sending = locked(&calls.sending);
    thread::scope(|scope| {
        scope.spawn(|| calls.submit());
        while Arc::strong_count(&former) == users {
            thread::yield_now();
        }
        calls.binding.leave(&former, Instant::NEVER).unwrap();
        let present = calls.binding.present();
        assert_ne!(present.generation, former.generation);
        calls.receive_on_former(&present);
        assert!(calls.session_of(former.generation).is_none(), "it has no calls");
        drop(sending);
    });
    assert!(has_result(&calls, call));
}

#[test]
fn a_session_newer_than_the_one_that_a_thread_takes_for_the_present_one_is_kept() {
    let (_server, calls) = calls();
    let former = calls.binding.present();
    calls.binding.leave(&former, Instant::NEVER).unwrap();
    let call = queue(&calls);
    assert!(has_result(&calls, call));
    let present = calls.binding.present();
    calls.receive_on_former(&former);
    assert!(calls.session_of(present.generation).is_some());
}

#[test]
fn the_locks_of_calls_and_of_sessions_are_taken_in_one_order() {
    let (_server, calls) = calls();
    let first = queue(&calls);
    assert!(has_result(&calls, first));
    let former = calls.binding.present();
    calls.binding.leave(&former, Instant::NEVER).unwrap();
    // A call that keeps the former session.
    let leaves = queue(&calls);
    calls.state().calls.get_mut(leaves).unwrap().progress = Progress::Leaving;
    let (done, ended) = channel();
    let (ends_calls, receives) = (Arc::clone(&calls), Arc::clone(&calls));
    let also_done = done.clone();
    thread::spawn(move || {
        for _ in 0..300 {
            let call = queue(&ends_calls);
            ends_calls.submit();
            ends_calls.expire(u64::MAX);
            ends_calls.receive_all();
            drop(ends_calls.state().calls.take(call));
        }
        done.send(()).unwrap();
    });
    thread::spawn(move || {
        let present = receives.binding.present();
        (0..20_000).for_each(|_| assert!(receives.receive_on_former(&present)));
        also_done.send(()).unwrap();
    });
    for _ in 0..2 {
        ended.recv_timeout(LIMIT).expect("neither thread waits for ever");
    }
}

/// A thread that begins the call of another one may be interrupted between the choice of a lane and the sending.
#[test]
fn nothing_of_a_pipe_leaves_before_its_call() {
    let (_server, calls) = calls();
    let pipes = Pipes { to_procedure: true, from_procedure: false };
    let terms = PipeTerms { pipes, window: Window::Usual, total_ns: u64::MAX };
    let pipes = CallerPipes::new(&terms, LIMIT.as_nanos() as u64);
    let batch = CallBatch::unclocked(vec![0; HEADER_LEN], HEADER_LEN, 0, LIMIT.as_nanos() as u64);
    let call = calls.state().queue_call(&batch, 0, 0, Some(&pipes)).unwrap();
    let Ends { sending, .. } = calls.ends_of(&pipes, call);
    let (session, mut bytes) = (calls.binding.present(), Vec::new());
    let mut state = calls.state();
    assert!(state.leave());
    let taken = state.take_lanes(&session, &mut bytes, clock::now_ns());
    drop(state);
    assert!(sending.unwrap().append(&Record::of(&[1])).unwrap());
    assert!(!session.pipes.has_ready() && pipes.has_unsent(), "its call has not left");
    calls.post(&session, &bytes).unwrap();
    taken.iter().for_each(|pipes| pipes.may_send());
    assert!(!pipes.has_unsent());
}
