//! What becomes of a call: the same event at the same stage has the same outcome over every transport, for blocking and begun calls,
//! idempotent or not.
//!
//! A row is an event, a column the stage at which a call is: it *waits for room* (a lane, credit), *leaves* part by part, is *away* and
//! waits at the server or runs, waits to *come again* after a refusal, waits for *another session*, or has *ended* and its result is not
//! taken. A name in parentheses is the file of a test elsewhere; the others are here. *n*: has not run, *?*: may have run.
//!
//! | event | waits for room | leaves | waits at the server | runs | to come again | another session | ended |
//! |---|---|---|---|---|---|---|---|
//! | deadline | `DeadlinePassed`, n | ? or n (`begun_over_connections`) | refused, n | ? | refused, n | refused or not bound, n | its result (`late`) |
//! | overloaded | – | comes again (`overload`) | comes again (`overload`) | – | three times at most (`overload`) | – | – |
//! | server ends | n, or it runs | not sent twice (`endings` of `streams`) | refused, n (`begun::limits`) | its result (`endings`) | refused or not bound, n; at the next server | the next but one (`two_servers`) | its result |
//! | session lost | – | as *runs* | as *runs* | ?, idempotent calls again (`death`) | n (`calling::recovery`) | 3 at most (`calling::recovery`) | its result |
//! | unknown binding | – | – | as *runs* | by the evidence (`forgetful_server`) | the same | – | – |
//! | bind failed | – | – | – | – | refused, n | not bound, n | – |
//! | cancel | never runs | never runs | never runs (`begun::dropped`) | is told (`begun::dropped`) | never runs | never runs | – |
//! | detach | runs once | runs once | runs once (`one_way`) | goes on (`begun::dropped`) | runs once | once at the next | – |
//!
//! Cells that do not exist everywhere: a blocking call cannot be cancelled or detached, and takes its result at once. Over packets and
//! shared memory a blocking call has a lane of its own, and waits at the server where one over a byte stream waits for a lane. Only
//! packets can meet a server that does not know their binding; the others notice that the session is lost. In one process no server
//! is lost without notice: tests of lost sessions start processes, and an Ethernet or memory has no closed port that would tell. A call
//! without room goes with a lost session as one that has none.

use super::*;
use std::sync::Arc;
use stoop::{Pending, Retry};

claims! { remote: [
    calls_without_room_until_their_deadline_say_that_it_passed
    calls_without_room_when_their_server_ends_run_or_say_that_they_have_not
    calls_without_room_that_are_cancelled_never_run
    calls_without_room_that_are_detached_run_once
    long_calls_that_are_cancelled_while_they_leave_never_run
    long_calls_that_are_detached_while_they_leave_run_once
    calls_that_wait_at_their_server_until_their_deadline_have_not_run
    calls_that_run_at_their_deadline_may_have_run
    refused_calls_whose_time_ends_before_they_come_again_are_refused
    refused_calls_that_wait_while_their_server_ends_have_not_run
    refused_calls_that_wait_while_their_server_is_replaced_run_once_at_the_next
    refused_calls_that_wait_and_are_cancelled_never_run
    refused_calls_that_wait_and_are_detached_run_once
    calls_that_wait_for_another_server_until_their_deadline_have_not_run
    calls_that_wait_for_another_server_run_once_at_the_next
    calls_that_wait_for_another_server_and_are_cancelled_never_run
    calls_that_wait_for_another_server_and_are_detached_run_once
    results_that_are_not_taken_outlive_their_server
] }

/// Of a call whose runs are counted.
type Outcome = Result<u32, CallError>;
/// A call that keeps a worker busy.
type Held = Pending<Result<(), CallError>>;

#[stoop::interface]
trait Shop {
    /// Returns when the gate is opened.
    fn wait(&self);
    /// How often it was called before.
    fn pay(&self) -> u32;
    /// The same.
    #[idempotent]
    fn look(&self) -> u32;
    /// The same.
    fn pay_for(&self, bytes: &[u8]) -> u32;
}

#[derive(Clone, Default)]
struct Keeper(Gate, Arc<AtomicU32>);

impl Keeper {
    /// How many of the calls have run that are to be counted.
    fn ran(&self) -> u32 {
        self.1.load(Ordering::SeqCst)
    }

    fn serve(&self, uri: &str, server: Server) -> RunningServer {
        loopback::await_free(uri);
        server.export(ShopServer::new(self.clone())).listen_there(uri).unwrap().start().unwrap()
    }
}

impl Shop for Keeper {
    fn wait(&self) {
        self.0.pass();
    }
    fn pay(&self) -> u32 {
        self.1.fetch_add(1, Ordering::SeqCst)
    }
    fn look(&self) -> u32 {
        self.pay()
    }
    fn pay_for(&self, _: &[u8]) -> u32 {
        self.pay()
    }
}

const LONG: Duration = Duration::from_secs(60);

fn open_shop(transport: &str, server: Server, options: &BindOptions) -> (RunningServer, Keeper, ShopClient) {
    let keeper = Keeper::default();
    let server = keeper.serve(&address(transport), server);
    let client = ShopClient::bind_with(&server.uris()[0], options).unwrap();
    (server, keeper, client)
}

fn options(transport: &str, retry: Retry) -> BindOptions {
    patient(transport).retry(retry).bind_timeout(Duration::from_secs(2))
}

/// The ways to make a call whose runs are counted.
const BLOCKING: [fn(&ShopClient) -> Outcome; 2] = [ShopClient::pay, ShopClient::look];

/// Begins a call of each kind whose runs are counted.
fn begin_each(client: &ShopClient) -> Vec<Pending<Outcome>> {
    let calls = client.begin();
    vec![calls.pay(), calls.look()]
}

/// As [`begin_each`], for a server that is perhaps not there. Of calls that leave together over UDP, a closed port sends back the first
/// alone, so that the outcome of the others is unknown. An Ethernet sends back none: there they use the lanes of calls before.
fn begin_for_the_next(transport: &str, client: &ShopClient) -> Vec<Pending<Outcome>> {
    match transport.starts_with("udp") {
        true => vec![client.begin().pay(), client.begin().look()],
        false => begin_each(client),
    }
}

/// Makes calls of each kind at once, blocking and begun, idempotent and not; then `meanwhile`. Returns their outcomes.
fn each_way(client: &ShopClient, meanwhile: impl FnOnce()) -> Vec<Outcome> {
    thread::scope(|scope| {
        let blocking = BLOCKING.map(|call| scope.spawn(move || call(client)));
        let begun = begin_each(client).into_iter().map(|call| scope.spawn(|| call.wait()));
        let calls: Vec<_> = begun.chain(blocking).collect();
        meanwhile();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    })
}

fn errors(outcomes: Vec<Outcome>) -> impl Iterator<Item = CallError> {
    outcomes.into_iter().map(Result::unwrap_err)
}

/// A server with one worker, which is busy, and more begun calls than have room there at once: those that are begun next are held back, over
/// packets until the server has acknowledged some of the others.
fn full_shop(transport: &str) -> (RunningServer, Keeper, ShopClient, Vec<Held>) {
    let server = Server::new().workers(1).queue(100_000);
    let (server, keeper, client) = open_shop(transport, server, &options(transport, Retry::never()));
    let calls = client.begin();
    // More than byte streams and shared memory have lanes for, and packets give credit for.
    let waiting = (0..3000).map(|_| calls.wait()).collect();
    drop(calls);
    keeper.0.await_inside(1);
    (server, keeper, client, waiting)
}

fn calls_without_room_until_their_deadline_say_that_it_passed(transport: &str) {
    let (_server, keeper, client, waiting) = full_shop(transport);
    let opens = keeper.0.open_on_drop();
    let hurried = client.with_timeout(Duration::from_millis(50));
    let are_packets = ["udp", "ether", "memory"].iter().any(|link| transport.starts_with(link));
    let begun = begin_each(&hurried).into_iter().map(|call| (call.wait().unwrap_err(), are_packets));
    // These have lanes of their own.
    let blocking = BLOCKING.map(|call| (call(&hurried).unwrap_err(), true));
    for (error, may_leave) in begun.chain(blocking) {
        match &error {
            CallError::NotSent(SendError::DeadlinePassed, ..) => {}
            _ if !may_leave => panic!("{error}"),
            // It waits at the server.
            CallError::Refused(why, ..) => assert_eq!(why.code, RefusalCode::DeadlinePassed, "{error}"),
            CallError::Unknown { cause, .. } => assert_eq!(*cause, UnknownCause::DeadlinePassed, "{error}"),
            _ => panic!("{error}"),
        }
        assert!(error.is_timeout(), "{error}");
    }
    drop((waiting, opens));
    assert_eq!(keeper.ran(), 0);
}

fn calls_without_room_when_their_server_ends_run_or_say_that_they_have_not(transport: &str) {
    let (server, keeper, client, waiting) = full_shop(transport);
    let opens = keeper.0.open_on_drop();
    let begun = begin_each(&client);
    let uri = server.uris()[0].clone();
    let ending = thread::spawn(move || server.shut_down());
    let binds = || ShopClient::bind_with(&uri, &BindOptions::new().bind_timeout(Duration::from_millis(50)));
    eventually(|| binds().is_err());
    // Now there is room, while a call keeps the server from its end.
    drop(waiting);
    let outcomes: Vec<_> = begun.into_iter().map(Pending::wait).collect();
    drop(opens);
    ending.join().unwrap();
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        assert_eq!(error.ran(), Ran::No, "{error}");
    }
    assert_eq!(outcomes.iter().flatten().count() as u32, keeper.ran());
}

fn calls_without_room_that_are_cancelled_never_run(transport: &str) {
    let (_server, keeper, client, waiting) = full_shop(transport);
    let opens = keeper.0.open_on_drop();
    drop(begin_each(&client));
    drop((waiting, opens));
    client.begin().wait().wait().unwrap();
    assert_eq!(keeper.ran(), 0);
}

fn calls_without_room_that_are_detached_run_once(transport: &str) {
    let (_server, keeper, client, waiting) = full_shop(transport);
    begin_each(&client).into_iter().for_each(Pending::detach);
    keeper.0.open();
    drop(waiting);
    client.close(LONG).unwrap();
    assert_eq!(keeper.ran(), 2);
}

/// A server whose only worker is busy, and a call of the arguments that are given, which waits there or is on its way.
fn long_call(transport: &str, then: impl FnOnce(Pending<Outcome>)) -> u32 {
    let server = Server::new().workers(1);
    let (_server, keeper, client) = open_shop(transport, server, &options(transport, Retry::never()));
    let held = client.begin().wait();
    keeper.0.await_inside(1);
    then(client.begin().pay_for(&vec![1; 4 << 20]));
    keeper.0.open();
    held.wait().unwrap();
    client.wait().unwrap();
    client.close(LONG).unwrap();
    keeper.ran()
}

fn long_calls_that_are_cancelled_while_they_leave_never_run(transport: &str) {
    assert_eq!(long_call(transport, drop), 0);
}

fn long_calls_that_are_detached_while_they_leave_run_once(transport: &str) {
    assert_eq!(long_call(transport, Pending::detach), 1);
}

fn calls_that_wait_at_their_server_until_their_deadline_have_not_run(transport: &str) {
    let server = Server::new().workers(1);
    let (server, keeper, client) = open_shop(transport, server, &options(transport, Retry::never()));
    let held = client.begin().wait();
    keeper.0.await_inside(1);
    let opens = keeper.0.open_on_drop();
    for error in errors(each_way(&client.with_timeout(Duration::from_millis(200)), || ())) {
        let is_late = match &error {
            CallError::Refused(why, ..) => why.code == RefusalCode::DeadlinePassed,
            // The refusal was late, or the call did not leave in time.
            CallError::Unknown { .. } | CallError::NotSent(..) => true,
            _ => false,
        };
        assert!(is_late && error.is_timeout(), "{error}");
    }
    // A call that took long to arrive has its time from then on.
    eventually(|| server.counters().queue.waiting == 0);
    drop(opens);
    held.wait().unwrap();
    assert_eq!(keeper.ran(), 0);
}

fn calls_that_run_at_their_deadline_may_have_run(transport: &str) {
    let (_server, keeper, client) = open_shop(transport, Server::new(), &options(transport, Retry::never()));
    let opens = keeper.0.open_on_drop();
    let mut timeout = Duration::from_millis(100);
    // On a busy machine the time of a call may be over before it runs.
    while keeper.0.inside() < 2 {
        let hurried = client.with_timeout(timeout);
        let begun = hurried.begin().wait();
        let outcomes = [hurried.wait(), begun.wait()];
        if keeper.0.inside() >= 2 {
            for error in outcomes.map(Result::unwrap_err) {
                let is_late = matches!(error, CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. });
                assert!(is_late && error.is_timeout(), "{error}");
            }
        }
        timeout *= 2;
    }
    drop(opens);
}

/// A server whose only worker is busy, and that lets no call wait; the refused calls of its clients wait for long before they come again.
fn busy_shop(
    transport: &str,
    wait: Duration,
    options: &BindOptions,
) -> (RunningServer, Keeper, ShopClient, Held) {
    let options = options.clone().retry(Retry::new().waits(wait, wait));
    let (server, keeper, client) = open_shop(transport, Server::new().workers(1).queue(0), &options);
    let held = client.begin().wait();
    keeper.0.await_inside(1);
    (server, keeper, client, held)
}

/// Longer than the tests take that do not wait for it.
const LATER: Duration = Duration::from_millis(500);

fn refused_calls_whose_time_ends_before_they_come_again_are_refused(transport: &str) {
    let (_server, keeper, client, held) = busy_shop(transport, LATER, &patient(transport));
    let opens = keeper.0.open_on_drop();
    for error in errors(each_way(&client.with_timeout(Duration::from_millis(200)), || ())) {
        match &error {
            CallError::Refused(why, ..) => {
                assert_eq!((why.code, error.ran()), (RefusalCode::Overloaded, Ran::No))
            }
            // The refusal was late.
            CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. } => {}
            _ => panic!("{error}"),
        }
    }
    drop(opens);
    held.wait().unwrap();
    assert_eq!(keeper.ran(), 0);
}

fn refused_calls_that_wait_while_their_server_ends_have_not_run(transport: &str) {
    let options = patient(transport).bind_timeout(Duration::from_secs(2));
    let (server, keeper, client, held) = busy_shop(transport, LATER, &options);
    let opens = keeper.0.open_on_drop();
    let outcomes = each_way(&client, || {
        eventually(|| server.counters().refused >= 4);
        drop(opens);
        held.wait().unwrap();
        server.shut_down();
    });
    for error in errors(outcomes) {
        assert_eq!(error.ran(), Ran::No, "{error}");
        let is_so = matches!(error, CallError::Refused(..) | CallError::NotSent(SendError::Bind(_), ..));
        assert!(is_so, "{error}");
    }
    assert_eq!(keeper.ran(), 0);
}

fn refused_calls_that_wait_while_their_server_is_replaced_run_once_at_the_next(transport: &str) {
    let options = patient(transport).wait_for_restart(LONG);
    let (server, keeper, client, held) = busy_shop(transport, LATER, &options);
    let uri = server.uris()[0].clone();
    let mut next = None;
    let opens = keeper.0.open_on_drop();
    let outcomes = each_way(&client, || {
        eventually(|| server.counters().refused >= 4);
        drop(opens);
        held.wait().unwrap();
        server.shut_down();
        assert_eq!(keeper.ran(), 0);
        next = Some(keeper.serve(&uri, Server::new()));
    });
    outcomes.into_iter().for_each(|outcome| assert!(outcome.is_ok(), "{outcome:?}"));
    assert_eq!(keeper.ran(), 4);
}

fn refused_calls_that_wait_and_are_cancelled_never_run(transport: &str) {
    let wait = Duration::from_millis(100);
    let (server, keeper, client, held) = busy_shop(transport, wait, &patient(transport));
    let begun = begin_each(&client);
    eventually(|| server.counters().refused >= 2);
    drop(begun);
    keeper.0.open();
    held.wait().unwrap();
    thread::sleep(2 * wait);
    client.wait().unwrap();
    assert_eq!(keeper.ran(), 0);
}

fn refused_calls_that_wait_and_are_detached_run_once(transport: &str) {
    let wait = Duration::from_millis(50);
    let (server, keeper, client, held) = busy_shop(transport, wait, &patient(transport));
    let begun = begin_each(&client);
    eventually(|| server.counters().refused >= 2);
    begun.into_iter().for_each(Pending::detach);
    keeper.0.open();
    held.wait().unwrap();
    client.close(LONG).unwrap();
    assert_eq!(keeper.ran(), 2);
}

/// A client whose server has ended, which all of its lanes know, and that waits for the next one; the address.
fn deserted_shop(transport: &str) -> (String, Keeper, ShopClient) {
    let options = patient(transport).wait_for_restart(LONG);
    let (server, keeper, client) = open_shop(transport, Server::new(), &options);
    let uri = server.uris()[0].clone();
    client.pay().unwrap();
    stoop::wait_all(begin_each(&client)).into_iter().for_each(|outcome| assert!(outcome.is_ok()));
    server.shut_down();
    keeper.1.store(0, Ordering::SeqCst);
    (uri, keeper, client)
}

/// Makes a blocking call and begun ones after the end of their server, on lanes that it knew. `next`: another one follows it. Returns
/// their outcomes, and how many calls have run.
fn after_the_end(
    transport: &str,
    blocking: fn(&ShopClient) -> Outcome,
    timeout: Duration,
    next: bool,
) -> (Vec<Outcome>, u32) {
    let options = patient(transport).wait_for_restart(LONG).timeout(timeout);
    let (server, keeper, client) = open_shop(transport, Server::new(), &options);
    let patient = client.with_timeout(LONG);
    let has_ended = Gate::default();
    let outcomes = thread::scope(|scope| {
        let opens = has_ended.open_on_drop();
        let outcome = scope.spawn(|| {
            patient.pay().unwrap();
            has_ended.pass();
            blocking(&client)
        });
        has_ended.await_inside(1);
        stoop::wait_all(begin_each(&patient)).into_iter().for_each(|outcome| assert!(outcome.is_ok()));
        server.shut_down();
        keeper.1.store(0, Ordering::SeqCst);
        let begun = begin_for_the_next(transport, &client);
        drop(opens);
        let _next = next.then(|| keeper.serve(&server.uris()[0], Server::new()));
        begun.into_iter().map(Pending::wait).chain([outcome.join().unwrap()]).collect()
    });
    (outcomes, keeper.ran())
}

fn calls_that_wait_for_another_server_until_their_deadline_have_not_run(transport: &str) {
    for blocking in BLOCKING {
        let (outcomes, ran) = after_the_end(transport, blocking, Duration::from_millis(100), false);
        for error in errors(outcomes) {
            match &error {
                CallError::Refused(why, ..) => assert_eq!(why.code, RefusalCode::ShuttingDown, "{error}"),
                CallError::NotSent(SendError::Bind(_) | SendError::DeadlinePassed, ..) => {}
                _ => panic!("{error}"),
            }
        }
        assert_eq!(ran, 0);
    }
}

fn calls_that_wait_for_another_server_run_once_at_the_next(transport: &str) {
    for blocking in BLOCKING {
        let (outcomes, ran) = after_the_end(transport, blocking, LONG, true);
        outcomes.into_iter().for_each(|outcome| assert!(outcome.is_ok(), "{outcome:?}"));
        assert_eq!(ran, 3);
    }
}

fn calls_that_wait_for_another_server_and_are_cancelled_never_run(transport: &str) {
    let (uri, keeper, client) = deserted_shop(transport);
    drop(begin_for_the_next(transport, &client));
    let _next = keeper.serve(&uri, Server::new());
    keeper.0.open();
    client.begin().wait().wait().unwrap();
    client.wait().unwrap();
    assert_eq!(keeper.ran(), 0);
}

fn calls_that_wait_for_another_server_and_are_detached_run_once(transport: &str) {
    let (uri, keeper, client) = deserted_shop(transport);
    begin_for_the_next(transport, &client).into_iter().for_each(Pending::detach);
    let _next = keeper.serve(&uri, Server::new());
    client.close(LONG).unwrap();
    assert_eq!(keeper.ran(), 2);
}

fn results_that_are_not_taken_outlive_their_server(transport: &str) {
    let (server, keeper, client) = open_shop(transport, Server::new(), &patient(transport));
    let begun = begin_each(&client);
    eventually(|| begun.iter().all(Pending::is_ready));
    server.shut_down();
    let outcomes: Vec<_> = begun.into_iter().map(|call| call.wait().unwrap()).collect();
    assert_eq!((outcomes.iter().sum::<u32>(), keeper.ran()), (1, 2));
}
