//! Calls that a server refuses because it is overloaded, and those of them that come again.

use super::*;
use crate::harness::runtime::block_on;
use std::sync::Arc;
use std::time::Instant;
use stoop::{RefusalCode, Retry};

claims! { remote: [
    a_call_that_was_refused_comes_again_and_runs_once
    begun_calls_that_were_refused_come_again_and_run_once
    a_call_that_is_not_to_come_again_says_when_to_call_again
    calls_beyond_the_budget_do_not_come_again
    begun_calls_beyond_the_budget_do_not_come_again
    each_call_adds_to_the_budget_when_it_leaves
    calls_that_the_server_can_run_in_time_are_never_refused
    calls_that_were_dropped_leave_their_places_to_others
    slow_calls_of_one_binding_hold_up_no_other_of_its_user
] }

#[stoop::interface]
trait Till {
    /// Returns when the gate is opened.
    fn wait(&self);
    #[idempotent]
    fn look(&self, bytes: &[u8]) -> Vec<u8>;
    /// How often it was called before.
    fn pay(&self) -> u32;
    /// Returns after so many milliseconds, or when it is cancelled.
    fn nap(&self, millis: u64);
    /// As `pay`, with an answer that nobody reads.
    #[one_way]
    fn drop_in(&self);
}

#[derive(Clone, Default)]
struct Shop(Gate, Arc<AtomicU32>);

impl Till for Shop {
    fn wait(&self) {
        self.0.pass();
    }
    fn look(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.into()
    }
    fn pay(&self) -> u32 {
        self.1.fetch_add(1, Ordering::SeqCst)
    }
    fn nap(&self, millis: u64) {
        let end = Instant::now() + Duration::from_millis(millis);
        while Instant::now() < end && !stoop::current_call().unwrap().is_cancelled() {
            thread::sleep(Duration::from_millis(millis.min(10)));
        }
    }
    fn drop_in(&self) {
        self.pay();
    }
}

/// A server whose only worker is busy until the gate is opened, and that lets no call wait.
fn busy(transport: &str, retry: Retry, while_busy: impl FnOnce(&RunningServer, &Gate, &TillClient)) {
    let gate = Gate::default();
    let server =
        Server::new().workers(1).queue(0).export(TillServer::new(Shop(gate.clone(), Arc::default())));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let options = patient(transport).retry(retry);
    let client = TillClient::bind_with(&server.uris()[0], &options).unwrap();
    thread::scope(|scope| {
        let held = scope.spawn(|| client.wait().unwrap());
        gate.await_inside(1);
        let opens = gate.open_on_drop();
        while_busy(&server, &gate, &client);
        drop(opens);
        held.join().unwrap();
    });
}

/// As often as it takes.
fn often() -> Retry {
    Retry::new().percent(100_000).attempts(u32::MAX).waits(Duration::from_millis(1), Duration::from_millis(4))
}

fn a_call_that_was_refused_comes_again_and_runs_once(transport: &str) {
    busy(transport, often(), |server, gate, client| {
        let bytes: Vec<_> = (0..5000).map(|n| n as u8).collect();
        thread::scope(|scope| {
            let looking = scope.spawn(|| client.look(&bytes).unwrap());
            let paying = scope.spawn(|| client.pay().unwrap());
            eventually(|| server.counters().refusals.of(RefusalCode::Overloaded) >= 6);
            let text = server.prometheus();
            let refused = text
                .lines()
                .find(|line| line.starts_with("stoop_server_refusals_total{reason=\"overloaded\"} "));
            assert!(refused.is_some_and(|line| !line.ends_with(" 0")), "{text}");
            let counters = server.counters();
            assert!(counters.refused >= counters.refusals.of(RefusalCode::Overloaded));
            gate.open();
            assert_eq!((looking.join().unwrap(), paying.join().unwrap()), (bytes.clone(), 0));
        });
        assert_eq!(client.pay().unwrap(), 1);
    });
}

fn begun_calls_that_were_refused_come_again_and_run_once(transport: &str) {
    busy(transport, often(), |server, gate, client| {
        let bytes: Vec<_> = (0..5000).map(|n| n as u8).collect();
        let (short, long) = (client.begin().look(&bytes[..5]), client.begin().look(&bytes));
        let paid = [(); 5].map(|()| client.begin().pay());
        client.begin().pay().detach();
        client.drop_in().unwrap();
        eventually(|| server.counters().refused >= 30);
        gate.open();
        let mut paid = paid.map(|paid| block_on(paid).unwrap());
        assert_eq!((short.wait().unwrap(), long.wait().unwrap()), (bytes[..5].to_vec(), bytes));
        client.clone().close(Duration::from_secs(60)).unwrap();
        assert_eq!(client.pay().unwrap(), 7, "with the detached one and the one-way call");
        paid.sort_unstable();
        assert!(paid.windows(2).all(|two| two[0] < two[1]), "{paid:?}");
    });
}

fn a_call_that_is_not_to_come_again_says_when_to_call_again(transport: &str) {
    busy(transport, Retry::never(), |server, _, client| {
        for error in [client.pay().unwrap_err(), client.begin().pay().wait().unwrap_err()] {
            let CallError::Refused(refusal, ..) = &error else { panic!("{error}") };
            assert!(refusal.retry_after.is_some() && error.to_string().contains("call again in"), "{error}");
            assert_eq!(error.ran(), Ran::No);
        }
        assert_eq!(server.counters().refused, 2);
    });
}

fn calls_beyond_the_budget_do_not_come_again(transport: &str) {
    let twice = Retry::new().percent(0).waits(Duration::from_millis(1), Duration::from_millis(1));
    busy(transport, twice, |server, _, client| {
        for _ in 0..20 {
            let error = client.look(&[1]).unwrap_err();
            assert!(matches!(&error, CallError::Refused(..)) && error.ran() == Ran::No, "{error}");
        }
        // A new binding may send ten calls again.
        assert_eq!(server.counters().refused, 20 + 10);
    });
}

fn begun_calls_beyond_the_budget_do_not_come_again(transport: &str) {
    let twice = Retry::new().percent(0).waits(Duration::from_millis(1), Duration::from_millis(1));
    busy(transport, twice, |server, _, client| {
        let calls: Vec<_> = (0..20).map(|n| client.begin().look(&[n])).collect();
        for error in calls.into_iter().map(|call| call.wait().unwrap_err()) {
            assert!(matches!(&error, CallError::Refused(..)) && error.ran() == Ran::No, "{error}");
        }
        assert_eq!(server.counters().refused, 20 + 10);
    });
}

fn each_call_adds_to_the_budget_when_it_leaves(transport: &str) {
    let blocking = |client: &TillClient| client.look(&[1]);
    let begun = |client: &TillClient| client.begin().look(&[1]).wait();
    for call in [blocking, begun] {
        busy(transport, often().percent(100), |server, _, client| {
            for _ in 0..20 {
                let error = call(client).unwrap_err();
                assert!(matches!(error, CallError::Refused(..)), "{error}");
            }
            // A call comes again for each of them, and ten for a new binding.
            assert_eq!(server.counters().refused, 20 + 20 + 10);
        });
    }
}

fn open_till(transport: &str) -> (RunningServer, TillClient) {
    let server = Server::new().export(TillServer::new(Shop::default()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = TillClient::bind_with(&server.uris()[0], &patient(transport)).unwrap();
    (server, client)
}

/// One client has more calls outstanding than it may run at once, again and again: its calls of the first round teach the server how long
/// the procedure takes, and must not make it refuse those of the next.
fn calls_that_the_server_can_run_in_time_are_never_refused(transport: &str) {
    let (server, client) = open_till(transport);
    for (round, millis) in [100, 100, 500, 100, 100].into_iter().enumerate() {
        // Ten times as long as the calls take on an idle machine.
        let hurried = client.with_timeout(Duration::from_millis(30 * millis));
        let calls = hurried.begin();
        let naps: Vec<_> = (0..100).map(|_| calls.nap(millis)).collect();
        drop(calls);
        let failed: Vec<_> = stoop::wait_all(naps).into_iter().filter_map(Result::err).collect();
        assert!(failed.is_empty(), "round {round}: {} calls failed: {}", failed.len(), failed[0]);
        assert_eq!(server.counters().refused, 0, "round {round}");
    }
}

fn calls_that_were_dropped_leave_their_places_to_others(transport: &str) {
    const DROPPED: usize = 1000;
    let server = Server::new().queue(DROPPED).export(TillServer::new(Shop::default()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = TillClient::bind_with(&server.uris()[0], &patient(transport)).unwrap();
    let begun = client.begin();
    let naps: Vec<_> = (0..DROPPED).map(|_| begun.nap(60_000)).collect();
    drop(begun);
    // All workers are busy that one host may have, and the others wait.
    eventually(|| server.counters().queue.waited > 0);
    drop(naps);
    // It arrives behind the cancels. The background thread takes the calls out at its next look.
    client.begin().pay().wait().unwrap();
    eventually(|| server.counters().queue.waiting == 0);
    let other =
        TillClient::bind_with(&server.uris()[0], &patient(transport).timeout(Duration::from_secs(20)))
            .unwrap();
    let naps: Vec<_> = (0..DROPPED / 4).map(|_| other.begin().nap(1)).collect();
    stoop::wait_all(naps).into_iter().for_each(|nap| nap.unwrap());
    assert_eq!((server.counters().queue.full, server.counters().queue.overdue), (0, 0));
}

fn slow_calls_of_one_binding_hold_up_no_other_of_its_user(transport: &str) {
    let (server, gate, slow) = lab_with(transport, Server::new().workers(8).queue(5000), &patient(transport));
    let _opens = gate.open_on_drop();
    let calls = slow.begin();
    let held_up: Vec<_> = (0..2048).map(|_| calls.wait()).collect();
    drop(calls);
    gate.await_inside(5);
    let other = LabClient::bind_with(&server.uris()[0], &patient(transport)).unwrap();
    let other = other.with_timeout(Duration::from_secs(10));
    (0..20).for_each(|_| other.null().unwrap());
    drop(held_up);
}
