//! End, abort, stop, cancel and loss are told apart at both ends.

use super::*;
use crate::harness::loopback;
use crate::harness::proxy::Proxy;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;
use stoop::Limits;

claims! { [
    a_sender_that_is_dropped_aborts_and_one_that_finishes_ends
    an_early_error_reaches_a_client_that_is_sending
    a_receiver_that_is_dropped_stops_the_procedure_and_its_result_comes
    a_procedure_that_drops_its_receiver_stops_the_client
    a_cancelled_call_ends_both_ends_of_its_pipes
    a_cancel_wakes_a_procedure_that_waits
    a_client_that_ends_is_told_to_the_procedure
    a_server_that_ends_is_an_error_and_no_end
    a_restarted_server_is_called_again_after_one_error
    nothing_can_be_sent_after_the_answer
    an_answer_wakes_a_thread_and_a_task_that_wait_for_room
    a_server_that_shuts_down_sends_the_rest_behind_an_answer
] }

mod with_a_grace {
    use super::*;

    claims! { @ tcp [a_server_that_shuts_down_ends_a_quiet_call_after_its_grace] }
    claims! { @ unix [a_server_that_shuts_down_ends_a_quiet_call_after_its_grace] }
    claims! { @ shm [a_server_that_shuts_down_ends_a_quiet_call_after_its_grace] }
    claims! { @ udp [a_server_that_shuts_down_ends_a_quiet_call_after_its_grace] }

    fn a_server_that_shuts_down_ends_a_quiet_call_after_its_grace(transport: &str) {
        let (server, bench, client) = works(transport);
        let (call, mut numbers) = client.watch(3);
        assert_eq!(numbers.recv().unwrap(), Some(3));
        let (sender, _reply) = bench.watcher();
        server.shut_down();
        let why = numbers.recv().unwrap_err();
        assert!(is_lost(&why) || matches!(why, PipeError::Aborted), "{why}");
        assert!(sender.is_stopped() && call.wait().is_err());
    }
}

fn a_sender_that_is_dropped_aborts_and_one_that_finishes_ends(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, numbers) = client.receive_until_stopped();
    numbers.send(&1).unwrap();
    drop(numbers);
    call.wait().unwrap();
    let (call, numbers) = client.receive_until_stopped();
    numbers.send(&1).unwrap();
    numbers.finish();
    call.wait().unwrap();
    assert_eq!(bench.noted(), ["Aborted", "\"end\""]);
}

fn an_early_error_reaches_a_client_that_is_sending(transport: &str) {
    let (_server, _, client) = works(transport);
    let (call, parts) = client.put(1000);
    let why = loop {
        if let Err(why) = parts.send(&[0; 100]) {
            break why;
        }
    };
    assert!(matches!(why, PipeError::Ended | PipeError::Stopped), "{why}");
    assert!(matches!(call.wait(), Err(stoop::Error::Application(PutError::Full(1000)))));
}

fn a_receiver_that_is_dropped_stops_the_procedure_and_its_result_comes(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, mut numbers) = client.send_until_stopped();
    assert_eq!(numbers.recv().unwrap(), Some(0));
    drop(numbers);
    call.wait().unwrap();
    assert_eq!(bench.noted(), ["Stopped"]);
}

fn a_procedure_that_drops_its_receiver_stops_the_client(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, numbers) = client.ignore();
    let why = loop {
        if let Err(why) = numbers.send(&1) {
            break why;
        }
    };
    assert!(matches!(why, PipeError::Stopped), "{why}");
    assert!(numbers.is_stopped() && !call.is_ready());
    bench.gate.open();
    assert_eq!(call.wait().unwrap(), 7);
}

fn a_cancelled_call_ends_both_ends_of_its_pipes(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, mut numbers) = client.send_until_stopped();
    assert_eq!(numbers.recv().unwrap(), Some(0));
    drop(call);
    let why = loop {
        match numbers.recv() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it has not ended"),
            Err(why) => break why,
        }
    };
    assert!(matches!(why, PipeError::Cancelled), "{why}");
    eventually(|| !bench.noted().is_empty());
    assert_eq!(bench.noted(), ["Cancelled"]);
}

fn a_cancel_wakes_a_procedure_that_waits(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, numbers) = client.receive_until_stopped();
    numbers.send(&1).unwrap();
    eventually(|| bench.received.load(Ordering::SeqCst) == 1);
    drop(call);
    eventually(|| !bench.noted().is_empty());
    assert_eq!(bench.noted(), ["Cancelled"]);
    assert!(matches!(numbers.send(&2), Err(PipeError::Cancelled)));
}

fn a_client_that_ends_is_told_to_the_procedure(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, numbers) = client.receive_until_stopped();
    numbers.send(&1).unwrap();
    eventually(|| bench.received.load(Ordering::SeqCst) == 1);
    drop((client, numbers, call));
    eventually(|| !bench.noted().is_empty());
    assert!(["Cancelled", "Aborted"].contains(&&*bench.noted()[0]), "{:?}", bench.noted());
}

#[test]
fn a_cut_connection_cancels_the_call_at_the_server_and_loses_it_at_the_client() {
    let (server, bench, _) = works("tcp");
    let proxy = Proxy::to(server.uris()[0].strip_prefix("tcp://").unwrap().parse().unwrap());
    let client = WorksClient::bind(&proxy.uri).unwrap();
    let (_call, mut numbers) = client.watch(3);
    assert_eq!(numbers.recv().unwrap(), Some(3));
    let (sender, _reply) = bench.watcher();
    proxy.cut();
    let sent = (0..).find_map(|number| sender.send(&number).err());
    assert!(matches!(sent, Some(PipeError::Cancelled)), "{sent:?}");
    let why = (0..).find_map(|_| numbers.recv().err()).unwrap();
    assert!(is_lost(&why) && !why.to_string().contains("0.0ns"), "{why}");
}

fn a_server_that_ends_is_an_error_and_no_end(transport: &str) {
    let (server, bench, client) = works(transport);
    let (call, mut numbers) = client.watch(3);
    assert_eq!(numbers.recv().unwrap(), Some(3));
    drop(bench.watcher());
    server.shut_down();
    let why = numbers.recv().unwrap_err();
    assert!(is_lost(&why) || matches!(why, PipeError::Aborted), "{why}");
    assert!(call.wait().is_err());
}

fn a_restarted_server_is_called_again_after_one_error(transport: &str) {
    let (server, _, client) = works(transport);
    let count = || {
        let (call, numbers) = client.count(0, 3);
        (numbers.filter(Result::is_ok).count(), call.wait())
    };
    assert!(matches!(count(), (3, Ok(3))));
    let uri = server.uris()[0].clone();
    server.shut_down();
    drop(server);
    loopback::await_free(&uri);
    let again = Server::new().export(WorksServer::new(Bench::default())).listen_there(&uri).unwrap();
    let _again = again.start().unwrap();
    let first = count();
    let second = count();
    assert!(matches!(second, (3, Ok(3))), "{first:?}, and then {second:?}");
}

fn nothing_can_be_sent_after_the_answer(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, mut numbers) = client.watch(3);
    assert_eq!(numbers.recv().unwrap(), Some(3));
    let (sender, reply) = bench.watcher();
    sender.send(&4).unwrap();
    reply.send(Ok(7)).unwrap();
    // The procedure may return its answer later than it is given.
    eventually(|| call.is_ready());
    assert!(matches!(sender.send(&5), Err(PipeError::Ended)));
    assert_eq!((numbers.recv().unwrap(), numbers.recv().unwrap()), (Some(4), None));
    assert_eq!(call.wait().unwrap(), 7);
}

/// Notes that a task is woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn an_answer_wakes_a_thread_and_a_task_that_wait_for_room(transport: &str) {
    let bench = Bench::default();
    // Longer than the test waits.
    let limits = Limits::new().pipe_step(Duration::from_secs(3600));
    let server = Server::new().export(WorksServer::new(bench.clone())).limits(limits);
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = WorksClient::bind(&server.uris()[0]).unwrap();

    let (_call, _numbers) = client.watch(3);
    let (sender, reply) = bench.watcher();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    while sender.poll_ready(&mut Context::from_waker(&waker)).is_ready() {
        while sender.try_send(&4).unwrap() {}
    }
    reply.send(Ok(7)).unwrap();
    eventually(|| woken.0.load(Ordering::SeqCst));
    assert!(matches!(sender.send(&5), Err(PipeError::Ended)));

    let (_call, _numbers) = client.watch(3);
    let (sender, reply) = bench.watcher();
    while sender.try_send(&4).unwrap() {}
    let sending = thread::spawn(move || (0..).map(|number| sender.send(&number)).find_map(Result::err));
    (0..1000).for_each(|_| thread::yield_now());
    reply.send(Ok(7)).unwrap();
    eventually(|| sending.is_finished());
    let why = sending.join().unwrap();
    assert!(matches!(why, Some(PipeError::Ended)), "{why:?}");
}

mod connections {
    use super::*;

    claims! { @ tcp [ends_of_an_ended_call_hold_no_connection] }
    claims! { @ unix [ends_of_an_ended_call_hold_no_connection] }
    claims! { @ shm [ends_of_an_ended_call_hold_no_connection] }

    fn ends_of_an_ended_call_hold_no_connection(transport: &str) {
        let (server, bench, client) = works(transport);
        let (call, mut texts, to_echo) = {
            let (call, to_echo, texts) = client.echo();
            (call, texts, to_echo)
        };
        bench.gate.open();
        drop(call);
        assert!(texts.recv().is_err() && to_echo.is_stopped());
        eventually(|| server.counters().bindings == 1);
        drop(client);
        eventually(|| server.counters().bindings == 0);
        drop((texts, to_echo));
    }
}

fn a_server_that_shuts_down_sends_the_rest_behind_an_answer(transport: &str) {
    let (server, _, client) = works(transport);
    let (call, texts, mut out) = client.echo();
    // More than a pipe holds: the rest of it cannot leave before it is read.
    let long = "long".repeat(100_000);
    texts.send(&long).unwrap();
    texts.finish();
    call.wait().unwrap();
    thread::scope(|scope| {
        let ending = scope.spawn(|| server.shut_down());
        eventually(|| client.next(1).is_err());
        (0..20).for_each(|_| thread::yield_now());
        assert!(transport == "local" || !ending.is_finished(), "it does not wait for the reader");
        assert!(out.recv().unwrap() == Some(long));
        assert_eq!(out.recv().unwrap(), None);
    });
}
