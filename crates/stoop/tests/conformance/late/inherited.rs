//! A procedure that gives up because a call of its own has ended at the deadline that both have in common.

use super::*;
use std::sync::OnceLock;

claims! { all: [
    a_call_that_a_procedure_begins_after_its_deadline_is_not_sent
    a_procedure_whose_inner_call_ends_at_the_common_deadline_never_gives_its_value
] }

#[stoop::interface]
trait Relay {
    /// What the inner server has; 41 if that gives nothing. Without an inner server, 7 at once.
    fn relayed(&self) -> u32;
}

/// Calls a server of another address, once it is known.
#[derive(Clone, Default)]
struct Relaying(Arc<OnceLock<TimedClient>>);

impl Relay for Relaying {
    fn relayed(&self) -> u32 {
        self.0.get().map_or(7, |inner| inner.partial().unwrap_or(41))
    }
}

fn a_procedure_whose_inner_call_ends_at_the_common_deadline_never_gives_its_value(transport: &str) {
    for inner_transport in ["udp", "tcp", "shm"] {
        let (_inner_server, _, inner) = clockwork(inner_transport, &patient(inner_transport));
        let relaying = Relaying::default();
        let server = Server::new().export(RelayServer::new(relaying.clone()));
        let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
        let client = RelayClient::bind_with(&server.uris()[0], &patient(transport)).unwrap();
        // The server learns that the procedure takes no time.
        (0..100).for_each(|_| assert_eq!(client.relayed().unwrap(), 7));
        assert!(relaying.0.set(inner).is_ok());
        let timeout = Duration::from_millis(50);
        let over = Instant::now() + 2 * timeout;
        let call = client.with_timeout(timeout).begin().relayed();
        eventually(|| Instant::now() > over);
        assert_too_late(call.wait().map_err(Error::Call));
    }
}

fn a_call_that_a_procedure_begins_after_its_deadline_is_not_sent(transport: &str) {
    let (server, _, _client) = clockwork(transport, &patient(transport));
    let (_outer, clockwork, client) = clockwork("local", &BindOptions::new());
    let mut timeout = Duration::from_millis(50);
    let noted = loop {
        let _ = client.with_timeout(timeout).begin_late(&server.uris()[0]);
        if let Some(noted) = clockwork.noted.lock().unwrap().take() {
            break noted;
        }
        timeout *= 2;
    };
    let error = noted.unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::DeadlinePassed, ..)), "{error}");
}
