//! What becomes of a call that gives no result: the same event at the same stage gives the same error over every transport.

use super::*;
use std::sync::Arc;
use stoop::Retry;

claims! { remote: [
    calls_without_room_until_their_deadline_say_that_it_passed
    refused_calls_whose_time_ends_before_they_come_again_are_refused
    refused_calls_that_wait_while_their_server_ends_have_not_run
] }

#[stoop::interface]
trait Shop {
    /// Returns when the gate is opened.
    fn wait(&self);
    /// How often it was called before.
    fn pay(&self) -> u32;
}

#[derive(Clone, Default)]
struct Keeper(Gate, Arc<AtomicU32>);

impl Shop for Keeper {
    fn wait(&self) {
        self.0.pass();
    }
    fn pay(&self) -> u32 {
        self.1.fetch_add(1, Ordering::SeqCst)
    }
}

fn open_shop(transport: &str, server: Server, retry: Retry) -> (RunningServer, Keeper, ShopClient) {
    let keeper = Keeper::default();
    let server = server.export(ShopServer::new(keeper.clone()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = ShopClient::bind_with(
        &server.uris()[0],
        &patient(transport).retry(retry).bind_timeout(Duration::from_secs(2)),
    )
    .unwrap();
    (server, keeper, client)
}

/// Calls, blocking and begun.
fn each_way(client: &ShopClient) -> [Result<u32, CallError>; 2] {
    [client.pay(), client.begin().pay().wait()]
}

fn calls_without_room_until_their_deadline_say_that_it_passed(transport: &str) {
    let server = Server::new().workers(1).queue(100_000);
    let (_server, keeper, client) = open_shop(transport, server, Retry::never());
    let opens = keeper.0.open_on_drop();
    let calls = client.begin();
    // More than any transport has lanes, or gives credit, for.
    let waiting: Vec<_> = (0..3000).map(|_| calls.wait()).collect();
    drop(calls);
    keeper.0.await_inside(1);
    for error in each_way(&client.with_timeout(Duration::from_millis(50))).map(Result::unwrap_err) {
        match &error {
            CallError::NotSent(SendError::DeadlinePassed | SendError::TooManyCalls { .. }) => {}
            // It had room after all.
            CallError::Refused(why) => assert_ne!(why.code, RefusalCode::ShuttingDown, "{error}"),
            CallError::Unknown { cause, .. } => assert_eq!(*cause, UnknownCause::DeadlinePassed, "{error}"),
            _ => panic!("{error}"),
        }
        assert!(error.is_timeout() || matches!(error, CallError::Refused(_)), "{error}");
    }
    drop((waiting, opens));
}

/// A server whose only worker is busy, and that lets no call wait; the refused calls of its clients wait for long before they come again.
fn busy_shop(transport: &str) -> (RunningServer, Keeper, ShopClient, stoop::Pending<Result<(), CallError>>) {
    let long = Duration::from_millis(500);
    let (server, keeper, client) =
        open_shop(transport, Server::new().workers(1).queue(0), Retry::new().waits(long, long));
    let held = client.begin().wait();
    keeper.0.await_inside(1);
    (server, keeper, client, held)
}

fn refused_calls_whose_time_ends_before_they_come_again_are_refused(transport: &str) {
    let (_server, keeper, client, held) = busy_shop(transport);
    let opens = keeper.0.open_on_drop();
    for error in each_way(&client.with_timeout(Duration::from_millis(200))).map(Result::unwrap_err) {
        match &error {
            CallError::Refused(why) => {
                assert_eq!((why.code, error.ran()), (RefusalCode::Overloaded, Ran::No))
            }
            // The refusal was late.
            CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. } => {}
            _ => panic!("{error}"),
        }
    }
    drop(opens);
    held.wait().unwrap();
    assert_eq!(keeper.1.load(Ordering::SeqCst), 0);
}

fn refused_calls_that_wait_while_their_server_ends_have_not_run(transport: &str) {
    let (server, keeper, client, held) = busy_shop(transport);
    let refused_before = server.counters().refused;
    thread::scope(|scope| {
        let opens = keeper.0.open_on_drop();
        let calls = [scope.spawn(|| client.pay()), scope.spawn(|| client.begin().pay().wait())];
        eventually(|| server.counters().refused >= refused_before + 2);
        drop(opens);
        held.wait().unwrap();
        drop(server);
        for call in calls {
            let error = call.join().unwrap().unwrap_err();
            assert_eq!(error.ran(), Ran::No, "{error}");
            let is_so = matches!(error, CallError::Refused(_) | CallError::NotSent(SendError::Bind(_)));
            assert!(is_so, "{error}");
        }
    });
    assert_eq!(keeper.1.load(Ordering::SeqCst), 0);
}
