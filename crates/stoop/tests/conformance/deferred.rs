//! Answers that come later than their procedures return.

use super::*;
use crate::harness::runtime::{block_on, has_ended};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use stoop::{Deferred, Limits, Pending, Reply, ReplyError, deferred};

claims! { all and lossy: [
    any_thread_answers_a_call_whose_procedure_has_returned
    an_answer_that_is_there_when_the_procedure_returns_is_its_result
    a_reply_that_is_dropped_fails_its_call_which_ran
    a_panic_after_the_reply_was_made_is_a_panic
    the_answer_to_a_late_call_reaches_nobody_and_its_giver_learns_that
    errors_and_empty_and_long_answers_come_later_as_well
] }

mod over_all {
    use super::*;
    claims! { all: [
        calls_that_wait_hold_no_worker_and_end_in_any_order
        the_answer_to_a_cancelled_call_reaches_nobody_and_its_giver_learns_that
        a_caller_has_its_share_of_the_calls_that_wait_and_is_refused_more
        calls_that_are_cancelled_or_late_are_open_no_longer_though_their_replies_are_kept
        calls_that_wait_while_nothing_happens_end_with_their_answers_and_at_their_deadlines
        a_call_that_is_never_answered_does_not_end_before_its_deadline
    ] }
}

mod over_networks_and_memory {
    use super::*;
    claims! { remote: [
        a_server_that_shuts_down_waits_for_replies
        a_server_that_ends_waits_for_kept_replies_until_their_deadlines
        a_long_argument_is_given_back_before_its_answer_comes
    ] }
}

#[stoop::interface]
trait Desk {
    /// Answers as soon as it is told to.
    fn later(&self, number: u32) -> Deferred<u32>;
    /// Answers before it returns.
    fn at_once(&self, number: u32) -> Deferred<u32>;
    /// Answers never.
    fn never(&self) -> Deferred<u32>;
    /// Panics with a reply in its hands.
    fn panic(&self) -> Deferred<u32>;
    fn fallible(&self, number: u32) -> Deferred<Result<u32, String>>;
    fn nothing(&self) -> Deferred<()>;
    fn long(&self, count: u32) -> Deferred<Vec<u8>>;
    /// Answers as soon as it is told to, with its length.
    fn weigh(&self, bytes: &[u8]) -> Deferred<u32>;
    /// Answers as usual.
    fn next(&self, number: u32) -> u32;
}

#[derive(Clone, Default)]
struct Clerk {
    replies: Arc<Mutex<Vec<Unanswered>>>,
}

/// The number of a call that waits, and its reply.
type Unanswered = (u32, Reply<u32>);

/// Answers by another thread.
fn elsewhere<R: Send + 'static>(answer: R) -> Deferred<R> {
    let (reply, deferred) = deferred();
    thread::spawn(move || reply.send(answer));
    deferred
}

impl Desk for Clerk {
    fn later(&self, number: u32) -> Deferred<u32> {
        let (reply, deferred) = deferred();
        self.replies.lock().unwrap().push((number, reply));
        deferred
    }
    fn at_once(&self, number: u32) -> Deferred<u32> {
        let (reply, deferred) = deferred();
        reply.send(number + 1).unwrap();
        deferred
    }
    fn never(&self) -> Deferred<u32> {
        deferred().1
    }
    fn panic(&self) -> Deferred<u32> {
        let (_reply, _deferred) = deferred::<u32>();
        panic!("on purpose");
    }
    fn fallible(&self, number: u32) -> Deferred<Result<u32, String>> {
        elsewhere(if number > 0 { Ok(number) } else { Err("it is zero".to_owned()) })
    }
    fn nothing(&self) -> Deferred<()> {
        elsewhere(())
    }
    fn long(&self, count: u32) -> Deferred<Vec<u8>> {
        elsewhere(vec![7; count as usize])
    }
    fn weigh(&self, bytes: &[u8]) -> Deferred<u32> {
        self.later(bytes.len() as u32)
    }
    fn next(&self, number: u32) -> u32 {
        number + 1
    }
}

impl Clerk {
    /// Waits until so many calls wait, and takes their replies.
    fn take(&self, count: usize) -> Vec<Unanswered> {
        eventually(|| self.replies.lock().unwrap().len() >= count);
        std::mem::take(&mut *self.replies.lock().unwrap())
    }
}

fn desk_with(transport: &str, server: Server) -> (RunningServer, Clerk, DeskClient) {
    let clerk = Clerk::default();
    let server = server.export(DeskServer::new(clerk.clone()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = DeskClient::bind_with(&server.uris()[0], &patient(transport)).unwrap();
    (server, clerk, client)
}

fn desk(transport: &str) -> (RunningServer, Clerk, DeskClient) {
    desk_with(transport, Server::new())
}

fn any_thread_answers_a_call_whose_procedure_has_returned(transport: &str) {
    let (_server, clerk, client) = desk(transport);
    thread::scope(|scope| {
        let call = scope.spawn(|| client.later(1).unwrap());
        let (number, reply) = clerk.take(1).remove(0);
        reply.send(number + 10).unwrap();
        assert_eq!(call.join().unwrap(), 11);
    });
    assert_eq!(client.next(1).unwrap(), 2);
}

fn an_answer_that_is_there_when_the_procedure_returns_is_its_result(transport: &str) {
    let (_server, _clerk, client) = desk(transport);
    assert_eq!(client.at_once(1).unwrap(), 2);
    assert_eq!(client.begin().at_once(2).wait().unwrap(), 3);
}

fn a_reply_that_is_dropped_fails_its_call_which_ran(transport: &str) {
    let (_server, clerk, client) = desk(transport);
    let check = |error: CallError| {
        assert!(
            matches!(&error, CallError::Failed(failure, ..) if failure.code == FailureCode::Abandoned),
            "{error}"
        );
        assert_eq!(error.ran(), Ran::Yes);
    };
    check(client.never().unwrap_err());
    check(client.begin().never().wait().unwrap_err());
    thread::scope(|scope| {
        let call = scope.spawn(|| client.later(1).unwrap_err());
        drop(clerk.take(1));
        check(call.join().unwrap());
    });
}

fn a_panic_after_the_reply_was_made_is_a_panic(transport: &str) {
    let (_server, _clerk, client) = desk(transport);
    for error in [client.panic().unwrap_err(), client.begin().panic().wait().unwrap_err()] {
        assert!(
            matches!(&error, CallError::Failed(failure, ..) if failure.code == FailureCode::Panicked),
            "{error}"
        );
    }
    assert_eq!(client.next(1).unwrap(), 2);
}

fn the_answer_to_a_late_call_reaches_nobody_and_its_giver_learns_that(transport: &str) {
    let (_server, clerk, client) = desk(transport);
    let (error, reply) = late_call(&clerk, &client);
    assert_ne!(error.ran(), Ran::No, "{error}");
    eventually(|| reply.is_cancelled());
    let learnt = reply.send(1).unwrap_err();
    // A call through the trait is over when its caller returns.
    assert!(matches!(learnt, ReplyError::DeadlinePassed | ReplyError::CallerGone), "{learnt}");
    assert_eq!(client.next(1).unwrap(), 2);
}

/// Lets a call wait until its time is over. On a busy machine that may be so before it has begun; then another gets more.
fn late_call(clerk: &Clerk, client: &DeskClient) -> (CallError, Reply<u32>) {
    let mut timeout = Duration::from_millis(20);
    loop {
        let error = client.with_timeout(timeout).later(1).unwrap_err();
        if let Some((_, reply)) = clerk.replies.lock().unwrap().pop() {
            return (error, reply);
        }
        timeout *= 2;
    }
}

fn errors_and_empty_and_long_answers_come_later_as_well(transport: &str) {
    let (_server, _clerk, client) = desk(transport);
    assert_eq!(client.fallible(3).unwrap(), 3);
    let error = client.fallible(0).unwrap_err();
    assert!(matches!(&error, stoop::Error::Application(why) if why == "it is zero"), "{error:?}");
    client.nothing().unwrap();
    for count in [0, 1, 1440, 1441, 20_000, 1 << 20] {
        assert_eq!(client.long(count).unwrap(), vec![7; count as usize], "{count}");
        assert_eq!(client.begin().long(count).wait().unwrap().len(), count as usize);
    }
}

fn calls_that_wait_hold_no_worker_and_end_in_any_order(transport: &str) {
    let (_server, clerk, client) = desk_with(transport, Server::new().workers(1));
    let calls: Vec<Pending<_>> = (0..200).map(|number| client.begin().later(number)).collect();
    let replies = clerk.take(200);
    assert_eq!(client.next(1).unwrap(), 2, "the worker is free");
    replies.into_iter().rev().for_each(|(number, reply)| reply.send(number * 2).unwrap());
    for (number, call) in (0..).zip(calls) {
        assert_eq!(call.wait().unwrap(), number * 2);
    }
}

fn the_answer_to_a_cancelled_call_reaches_nobody_and_its_giver_learns_that(transport: &str) {
    let (_server, clerk, client) = desk(transport);
    let call = client.begin().later(1);
    let (_, reply) = clerk.take(1).remove(0);
    assert!(!reply.is_cancelled());
    drop(call);
    eventually(|| reply.is_cancelled());
    assert_eq!(reply.send(1), Err(ReplyError::Cancelled));
    assert_eq!(client.next(1).unwrap(), 2);
}

fn a_caller_has_its_share_of_the_calls_that_wait_and_is_refused_more(transport: &str) {
    let limits = Limits::new().open_calls(8);
    let (server, clerk, client) = desk_with(transport, Server::new().limits(limits));
    let calls: Vec<Pending<_>> = (0..6).map(|number| client.begin().later(number)).collect();
    let replies = clerk.take(6);
    // A reply may be there before its procedure has returned.
    eventually(|| server.counters().open == 6);
    let error = client.begin().later(7).wait().unwrap_err();
    assert!(
        matches!(&error, CallError::Refused(refusal, ..) if refusal.code == RefusalCode::Overloaded),
        "{error}"
    );
    assert!(error.to_string().contains("Limits::open_calls"), "{error}");
    assert_eq!(client.next(1).unwrap(), 2, "other procedures go on");
    replies.into_iter().for_each(|(number, reply)| reply.send(number).unwrap());
    calls.into_iter().for_each(|call| assert!(call.wait().is_ok()));
    assert_eq!(client.begin().at_once(1).wait().unwrap(), 2);
}

fn a_server_that_shuts_down_waits_for_replies(transport: &str) {
    let (server, clerk, client) = desk(transport);
    let call = client.begin().later(1);
    let (_, reply) = clerk.take(1).remove(0);
    thread::scope(|scope| {
        scope.spawn(|| server.shut_down());
        eventually(|| client.next(1).is_err());
        reply.send(5).unwrap();
        assert_eq!(call.wait().unwrap(), 5);
    });
}

fn calls_that_are_cancelled_or_late_are_open_no_longer_though_their_replies_are_kept(transport: &str) {
    // As many as a caller may have.
    let limits = Limits::new().open_calls(8);
    let (server, clerk, client) = desk_with(transport, Server::new().limits(limits));
    let calls: Vec<Pending<_>> = (0..6).map(|number| client.begin().later(number)).collect();
    let cancelled = clerk.take(6);
    // A reply may be there before its procedure has returned.
    eventually(|| server.counters().open == 6);
    drop(calls);
    eventually(|| server.counters().open == 0);
    assert!(cancelled.iter().all(|(_, reply)| reply.is_cancelled()));

    let soon = client.with_timeout(Duration::from_millis(50));
    let mut late = Vec::new();
    while late.len() < 6 {
        // On a busy machine the time of some is over before they begin.
        drop(soon.begin().later(0).wait().unwrap_err());
        late.append(&mut *clerk.replies.lock().unwrap());
    }
    eventually(|| server.counters().open == 0);
    let calls: Vec<Pending<_>> = (0..6).map(|number| client.begin().later(number)).collect();
    let replies = clerk.take(6);
    assert!(late.into_iter().all(|(_, reply)| reply.send(1) == Err(ReplyError::DeadlinePassed)));
    assert!(cancelled.into_iter().all(|(_, reply)| reply.send(1) == Err(ReplyError::Cancelled)));
    replies.into_iter().for_each(|(number, reply)| reply.send(number).unwrap());
    for (number, call) in (0..).zip(calls) {
        assert_eq!(call.wait().unwrap(), number);
    }
    assert_eq!(server.counters().open, 0);
}

fn a_server_that_ends_waits_for_kept_replies_until_their_deadlines(transport: &str) {
    let (server, clerk, client) = desk(transport);
    let (_, reply) = late_or_open(&clerk, &client);
    drop(server);
    assert!(reply.time_left().is_zero(), "it has not waited");
    assert_eq!(reply.send(1), Err(ReplyError::DeadlinePassed));
}

/// The reply of a call with little time.
fn late_or_open(clerk: &Clerk, client: &DeskClient) -> Unanswered {
    let mut timeout = Duration::from_millis(100);
    loop {
        let call = client.with_timeout(timeout).begin().later(1);
        eventually(|| call.is_ready() || !clerk.replies.lock().unwrap().is_empty());
        if let Some(unanswered) = clerk.replies.lock().unwrap().pop() {
            call.detach();
            return unanswered;
        }
        timeout *= 2;
    }
}

fn a_long_argument_is_given_back_before_its_answer_comes(transport: &str) {
    // Each takes half of what a caller may have: it is refused, or waits, if the others have kept theirs.
    let limits = Limits::new().argument_bytes(4 << 20);
    let server = Server::new().max_message(2 << 20).limits(limits);
    let (_server, clerk, client) = desk_with(transport, server);
    let bytes = vec![3; 3 << 19];
    let mut calls: Vec<Pending<_>> = Vec::new();
    for count in 1..=8 {
        calls.push(client.begin().weigh(&bytes));
        eventually(|| clerk.replies.lock().unwrap().len() == count);
    }
    clerk.take(8).into_iter().for_each(|(len, reply)| reply.send(len).unwrap());
    calls.into_iter().for_each(|call| assert_eq!(call.wait().unwrap() as usize, bytes.len()));
}

fn calls_that_wait_while_nothing_happens_end_with_their_answers_and_at_their_deadlines(transport: &str) {
    let (_server, clerk, client) = desk(transport);
    let hurried = client.with_timeout(Duration::from_millis(100)).to_async();
    let mut kept = client.to_async().later(1);
    assert!(!has_ended(&mut kept));
    // Nothing happens on the client before this call's deadline, and none of its threads waits;
    assert!(block_on(hurried.never()).is_err());
    client.begin().later(2).detach();
    // as before that of a call that is begun when nothing has happened for a while.
    assert!(block_on(hurried.never()).is_err());
    for (number, reply) in clerk.take(2) {
        reply.send(number + 10).unwrap();
    }
    assert_eq!(block_on(kept).unwrap(), 11);
    client.binding().flush(harness::LIMIT).unwrap();
}

fn a_call_that_is_never_answered_does_not_end_before_its_deadline(transport: &str) {
    let (_server, clerk, client) = desk(transport);
    // As long as one whose begin may have been taken from a coarse clock.
    let timeout = Duration::from_millis(600);
    loop {
        let begun = Instant::now();
        let ended = client.with_timeout(timeout).later(1);
        // On a busy machine it may wait for a worker until shortly before its deadline.
        if !matches!(ended, Err(CallError::Refused(..))) {
            assert!(begun.elapsed() >= timeout, "{ended:?} after {:?}", begun.elapsed());
            break clerk.replies.lock().unwrap().clear();
        }
    }
}
