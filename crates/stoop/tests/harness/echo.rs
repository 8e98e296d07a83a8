//! A server that returns its arguments, at one end of a [private Ethernet](super::ethernet), and callers at the other.

use super::ethernet;
use std::time::Duration;
use stoop::{BindOptions, CallError, RunningServer, Server};

#[stoop::interface]
pub(crate) trait Echo {
    /// Returns its argument.
    fn echo(&self, bytes: Vec<u8>) -> Vec<u8>;
}

pub(crate) struct Same;

impl Echo for Same {
    fn echo(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
}

/// Longer than a test takes.
pub(crate) const LONG: Duration = Duration::from_secs(120);
/// What stands behind an address for each backend.
pub(crate) const BACKENDS: [&str; 3] = ["", "?backend=xdp-generic", "?backend=xdp"];

/// A server at the servers' end.
pub(crate) fn serve(uri: &str) -> RunningServer {
    ethernet::at_servers(|| {
        Server::new()
            .security(stoop::Security::none())
            .export(EchoServer::new(Same))
            .listen(uri)
            .unwrap()
            .start()
            .unwrap()
    })
}

/// A caller whose calls have more time than a test takes.
pub(crate) fn bind(uri: &str) -> EchoClient {
    EchoClient::bind_with(uri, &BindOptions::new().timeout(LONG).bind_timeout(LONG)).unwrap()
}

/// Bytes of which no packet is like another one.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * at) >> 7) as u8).collect()
}

/// Calls until the call is sent: one that begins while the interface is down, or is not there yet, is not, and says so at once.
pub(crate) fn call(client: &EchoClient, bytes: &[u8]) -> Vec<u8> {
    until_sent(|| client.echo(bytes.to_vec()))
}

/// The same with a begun call.
pub(crate) fn begun(client: &EchoClient, bytes: &[u8]) -> Vec<u8> {
    until_sent(|| client.begin().echo(bytes.to_vec()).wait())
}

fn until_sent(call: impl Fn() -> Result<Vec<u8>, CallError>) -> Vec<u8> {
    ethernet::wait_for(|| match call() {
        Err(why @ CallError::NotSent(..)) => Err(why.to_string()),
        result => Ok(result.unwrap()),
    })
}
