//! How threads and tasks wait for begun calls.

use super::*;
use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;

claims! { all: [
    many_procedures_of_one_thread_run_at_once
    a_call_that_is_waited_for_leaves_before_its_siblings_are_dropped
    the_first_that_is_ready_is_found
    a_handle_is_given_back_when_waiting_took_too_long
    handles_are_futures_on_any_runtime
    the_waker_given_last_is_woken
    a_handle_is_waited_for_by_another_thread
    a_thread_that_waits_does_not_depend_on_one_that_waits_longer
    threads_begin_and_wait_at_once
] }

fn many_procedures_of_one_thread_run_at_once(transport: &str) {
    let (_server, works, client) = works(transport);
    let calls = client.begin();
    let pending: Vec<_> = (0..40).map(|number| calls.wait(number)).collect();
    drop(calls);
    works.gate.await_inside(40);
    assert!(pending.iter().all(|each| !each.is_ready()));
    works.gate.open();
    check(stoop::wait_all(pending));
}

fn a_call_that_is_waited_for_leaves_before_its_siblings_are_dropped(transport: &str) {
    let (_server, works, client) = works(transport);
    let calls = client.begin();
    let (first, second) = (calls.next(1), calls.next(2));
    assert_eq!(second.wait().unwrap(), 3);
    let third = calls.next(3);
    assert_eq!((first.wait().unwrap(), block_on(third).unwrap()), (2, 4));
    let asked = calls.next(4);
    eventually(|| asked.is_ready());
    assert_eq!(asked.wait().unwrap(), 5);
    let last = calls.wait(5);
    assert!(!last.is_ready());
    works.gate.await_inside(1);
    works.gate.open();
    assert_eq!(last.wait().unwrap(), 6);
}

fn the_first_that_is_ready_is_found(transport: &str) {
    let ((_server, works, client), (_other_server, _, other)) = (works(transport), works(transport));
    let calls = client.begin();
    let mut pending = vec![calls.wait(10), calls.wait(20), calls.next(30)];
    drop(calls);
    assert_eq!(stoop::wait_any(&mut pending), Some(2));
    assert_eq!(pending.swap_remove(2).wait().unwrap(), 31);
    // Also among those of several bindings.
    pending.push(other.begin().next(40));
    assert_eq!(stoop::wait_any(&mut pending), Some(2));
    assert_eq!(pending.swap_remove(2).wait().unwrap(), 41);
    works.gate.open();
    let mut left = HashSet::from([11, 21]);
    while let Some(place) = stoop::wait_any(&mut pending) {
        assert!(left.remove(&pending.swap_remove(place).wait().unwrap()));
    }
    assert!(left.is_empty());
}

fn a_handle_is_given_back_when_waiting_took_too_long(transport: &str) {
    let (_server, works, client) = works(transport);
    let pending = client.begin().wait(1);
    let pending = pending.wait_timeout(Duration::from_millis(5)).unwrap_err();
    assert!(!pending.is_ready());
    works.gate.open();
    assert_eq!(pending.wait_timeout(Duration::MAX).unwrap().unwrap(), 2);
}

fn handles_are_futures_on_any_runtime(transport: &str) {
    let (_server, works, client) = works(transport);
    let begun = begin_many(&client, 200);
    let sum: u32 = block_on(async {
        let mut sum = 0;
        for pending in begun {
            sum += pending.await.unwrap();
        }
        sum
    });
    assert_eq!(sum, (1..=200).sum());
    let late = client.begin().wait(1);
    thread::scope(|scope| {
        scope.spawn(|| {
            works.gate.await_inside(1);
            works.gate.open();
        });
        assert_eq!(block_on(late).unwrap(), 2);
    });
}

fn the_waker_given_last_is_woken(transport: &str) {
    struct Count(AtomicUsize, Thread);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            self.1.unpark();
        }
    }
    let (_server, works, client) = works(transport);
    let mut pending = pin!(client.begin().wait(1));
    let wakers = [0, 0].map(|count| Arc::new(Count(AtomicUsize::new(count), thread::current())));
    for waker in wakers.iter().map(|count| Waker::from(Arc::clone(count))) {
        assert!(pending.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    works.gate.open();
    while wakers[1].0.load(Ordering::SeqCst) == 0 {
        thread::park();
    }
    assert_eq!(wakers[0].0.load(Ordering::SeqCst), 0);
    let waker = Waker::from(Arc::clone(&wakers[1]));
    assert!(pending.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
}

fn a_handle_is_waited_for_by_another_thread(transport: &str) {
    let (_server, _, client) = works(transport);
    let pending = begin_many(&client, 100);
    thread::scope(|scope| {
        let waits = |pending: Next| scope.spawn(move || pending.wait());
        let threads: Vec<_> = pending.into_iter().map(waits).collect();
        check(threads.into_iter().map(|thread| thread.join().unwrap()).collect());
    });
}

fn a_thread_that_waits_does_not_depend_on_one_that_waits_longer(transport: &str) {
    let (_server, works, client) = works(transport);
    let calls = client.begin();
    let slow: Vec<_> = (0..8).map(|number| calls.wait(number)).collect();
    drop(calls);
    thread::scope(|scope| {
        let waiting: Vec<_> = slow.into_iter().map(|each| scope.spawn(|| each.wait())).collect();
        works.gate.await_inside(8);
        for number in 0..100 {
            assert_eq!(client.next(number).unwrap(), number + 1);
            assert_eq!(client.begin().next(number).wait().unwrap(), number + 1);
        }
        works.gate.open();
        check(waiting.into_iter().map(|thread| thread.join().unwrap()).collect());
    });
}

fn threads_begin_and_wait_at_once(transport: &str) {
    let (_server, _, client) =
        works_with(transport, Server::new().workers(4).queue(2000), &patient(transport));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for round in 0..50 {
                    check(stoop::wait_all(begin_many(&client, round * 3)));
                }
            });
        }
    });
    if transport != "local" {
        let calls = (0..50).map(|round| round * 3).sum::<u64>();
        assert_eq!(client.binding().counters().calls, 8 * calls);
    }
}
