//! Pipes in tasks, and in procedures that hold no thread.

use super::*;
use crate::harness::runtime::block_on;
use std::time::Duration;

claims! { [
    a_task_receives_and_sends
    a_task_waits_for_room_no_longer_than_a_thread
    a_procedure_waits_for_room_as_long_as_its_server_allows
    a_procedure_learns_that_its_server_shuts_down
    a_deferred_procedure_sends_from_another_thread
    many_quiet_calls_hold_no_thread
    more_procedures_than_workers_run_with_pipes_and_calls_go_on
] }

fn a_task_receives_and_sends(transport: &str) {
    let (_server, _, client) = works(transport);
    let client = client.to_async();
    block_on(async {
        let (call, numbers, mut doubled) = client.double();
        for number in 0..1000 {
            numbers.send_async(&number).await.unwrap();
            assert_eq!(doubled.next().await.unwrap(), Some(2 * number));
        }
        numbers.finish();
        assert_eq!(doubled.next().await.unwrap(), None);
        assert_eq!(call.await.unwrap(), 1000);
    });
}

fn a_task_waits_for_room_no_longer_than_a_thread(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (_call, numbers) = client.with_timeout(Duration::from_millis(200)).to_async().sum_later();
    let sent = block_on(async {
        loop {
            if let Err(why) = numbers.send_async(&1).await {
                break why;
            }
        }
    });
    assert!(matches!(sent, PipeError::NoRoom { .. }), "{sent:?}");
    bench.gate.open();
}

fn a_procedure_waits_for_room_as_long_as_its_server_allows(transport: &str) {
    let bench = Bench::default();
    let limits = stoop::Limits::new().pipe_step(Duration::from_millis(200));
    let server = Server::new().export(WorksServer::new(bench.clone())).limits(limits);
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = WorksClient::bind(&server.uris()[0]).unwrap();
    let (_call, _numbers) = client.watch(0);
    let (sender, _reply) = bench.watcher();
    let sent = (0..).map(|number| sender.send(&number)).find_map(Result::err);
    assert!(matches!(sent, Some(PipeError::NoRoom { .. })), "{sent:?}");
}

fn a_procedure_learns_that_its_server_shuts_down(transport: &str) {
    let (server, bench, client) = works(transport);
    let (_call, _numbers) = client.watch(0);
    let (sender, reply) = bench.watcher();
    assert!(!sender.is_closing());
    let answering = std::thread::spawn(move || {
        eventually(|| sender.is_closing());
        // Its caller may have gone.
        let _ = reply.send(Ok(1));
    });
    server.shut_down();
    answering.join().unwrap();
}

fn a_deferred_procedure_sends_from_another_thread(transport: &str) {
    let (_server, bench, client) = works(transport);
    let (call, mut numbers) = client.watch(1);
    assert_eq!(numbers.recv().unwrap(), Some(1));
    let (sender, reply) = bench.watcher();
    let publisher = std::thread::spawn(move || {
        (2..10_000).for_each(|number| sender.send(&number).unwrap());
        reply.send(Err(PutError::Full(9))).unwrap();
    });
    for number in 2..10_000 {
        assert_eq!(numbers.recv().unwrap(), Some(number));
    }
    assert_eq!(numbers.recv().unwrap(), None);
    assert!(matches!(call.wait(), Err(stoop::Error::Application(PutError::Full(9)))));
    publisher.join().unwrap();
}

fn many_quiet_calls_hold_no_thread(transport: &str) {
    let (_server, bench, client) = works(transport);
    let mut calls: Vec<_> = (0..300).map(|number| client.watch(number)).collect();
    for (number, (_, numbers)) in calls.iter_mut().enumerate() {
        assert_eq!(numbers.recv().unwrap(), Some(number as u64));
    }
    for _ in 0..calls.len() {
        let (sender, reply) = bench.watcher();
        sender.send(&7).unwrap();
        reply.send(Ok(0)).unwrap();
    }
    for (call, mut numbers) in calls {
        assert_eq!((numbers.recv().unwrap(), numbers.recv().unwrap()), (Some(7), None));
        assert_eq!(call.wait().unwrap(), 0);
    }
}

fn more_procedures_than_workers_run_with_pipes_and_calls_go_on(transport: &str) {
    let (_server, bench, client) = works(transport);
    let calls: Vec<_> = (0..100).map(|_| client.sum_later()).collect();
    calls.iter().for_each(|(_, numbers)| numbers.send(&1).unwrap());
    assert_eq!(client.next(1).unwrap(), 2);
    bench.gate.open();
    for (call, numbers) in calls {
        numbers.finish();
        assert_eq!(call.wait().unwrap(), 1);
    }
}

#[cfg(feature = "futures")]
mod futures {
    use super::*;
    use futures_core::Stream;
    use futures_sink::Sink;
    use std::future::poll_fn;
    use std::pin::Pin;

    claims! { [the_ends_of_pipes_are_streams_and_sinks] }

    fn the_ends_of_pipes_are_streams_and_sinks(transport: &str) {
        let (_server, _, client) = works(transport);
        let (call, mut numbers, mut doubled) = client.double();
        block_on(async {
            for number in 0..100_u64 {
                poll_fn(|context| Sink::<u64>::poll_ready(Pin::new(&mut numbers), context)).await.unwrap();
                Pin::new(&mut numbers).start_send(number).unwrap();
                let next = poll_fn(|context| Pin::new(&mut doubled).poll_next(context)).await;
                assert_eq!(next.unwrap().unwrap(), 2 * number);
            }
            poll_fn(|context| Sink::<u64>::poll_close(Pin::new(&mut numbers), context)).await.unwrap();
            assert!(poll_fn(|context| Pin::new(&mut doubled).poll_next(context)).await.is_none());
        });
        // Of no effect: it is closed.
        drop(numbers);
        assert_eq!(call.wait().unwrap(), 100);
    }
}

#[test]
fn a_task_that_receives_the_rest_behind_an_answer_is_not_left_waiting_when_the_client_goes_to_another_server()
{
    for transport in ["tcp", "unix", "shm"] {
        let (server, bench, client) = works(transport);
        let uri = server.uris()[0].clone();
        let opens = bench.gate.open_on_drop();
        let (held, _numbers) = WorksClient::bind(&uri).unwrap().sum_later();
        let (call, texts, mut back) = client.echo();
        texts.send(&"a".repeat(4 << 20)).unwrap();
        texts.finish();
        // The answer needs no room.
        eventually(|| call.is_ready());
        // It waits for the call that is held.
        let ending = std::thread::spawn(move || drop(server));
        let next = std::cell::RefCell::new(None);
        eventually(|| {
            let server = Server::new().export(WorksServer::new(bench.clone()));
            next.replace(server.listen_there(&uri).and_then(Server::start).ok()).is_some()
                || next.borrow().is_some()
        });
        eventually(|| client.next(1).is_ok());
        let receiving = std::thread::spawn(move || block_on(back.next()).map(drop));
        eventually(|| receiving.is_finished());
        drop((opens, held));
        ending.join().unwrap();
    }
}
