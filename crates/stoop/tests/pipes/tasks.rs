//! Pipes in tasks, and in procedures that hold no thread.

use super::*;
use crate::harness::runtime::block_on;

claims! { [
    a_task_receives_and_sends
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
