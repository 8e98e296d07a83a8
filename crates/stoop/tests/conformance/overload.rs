//! Calls that a server refuses because it is overloaded, and those of them that come again.

use super::*;
use stoop::Retry;

claims! { remote: [
    an_idempotent_call_that_was_refused_comes_again
    a_refused_call_says_when_to_call_again_and_does_not_come_again_by_itself
    calls_beyond_the_budget_do_not_come_again
] }

#[stoop::interface]
trait Till {
    /// Returns when the gate is opened.
    fn wait(&self);
    #[idempotent]
    fn look(&self, bytes: &[u8]) -> Vec<u8>;
    fn pay(&self) -> u32;
}

#[derive(Clone, Default)]
struct Shop(Gate);

impl Till for Shop {
    fn wait(&self) {
        self.0.pass();
    }
    fn look(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.into()
    }
    fn pay(&self) -> u32 {
        1
    }
}

/// A server whose only worker is busy until the gate is opened, and that lets no call wait.
fn busy(transport: &str, retry: Retry, while_busy: impl FnOnce(&RunningServer, &Gate, &TillClient)) {
    let gate = Gate::default();
    let server = Server::new().workers(1).queue(0).export(TillServer::new(Shop(gate.clone())));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let mut options = patient().retry(retry);
    if transport == "udp_shared" {
        options = options.with(patience().share_endpoints());
    }
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

fn an_idempotent_call_that_was_refused_comes_again(transport: &str) {
    busy(transport, often(), |server, gate, client| {
        let bytes: Vec<_> = (0..5000).map(|n| n as u8).collect();
        thread::scope(|scope| {
            let looking = scope.spawn(|| client.look(&bytes).unwrap());
            eventually(|| server.counters().refused >= 3);
            gate.open();
            assert_eq!(looking.join().unwrap(), bytes);
        });
    });
}

fn a_refused_call_says_when_to_call_again_and_does_not_come_again_by_itself(transport: &str) {
    busy(transport, often(), |server, _, client| {
        let error = client.pay().unwrap_err();
        let CallError::Refused(refusal) = &error else { panic!("{error}") };
        assert!(refusal.retry_after.is_some() && error.to_string().contains("call again in"), "{error}");
        assert_eq!((error.ran(), server.counters().refused), (Ran::No, 1));
    });
}

fn calls_beyond_the_budget_do_not_come_again(transport: &str) {
    let twice = Retry::new().percent(0).waits(Duration::from_millis(1), Duration::from_millis(1));
    busy(transport, twice, |server, _, client| {
        for _ in 0..20 {
            let error = client.look(&[1]).unwrap_err();
            assert!(matches!(&error, CallError::Refused(_)) && error.ran() == Ran::No, "{error}");
        }
        // A new binding may send ten calls again.
        assert_eq!(server.counters().refused, 20 + 10);
    });
}
