//! Callers whose own address goes and is replaced by another, as by DHCP, a VPN, or temporary addresses of IPv6.

use crate::harness::ethernet;
use crate::harness::gate::Gate;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stoop::{BindOptions, PacketOptions, RunningServer, Server};

#[stoop::interface]
trait Counter {
    /// How often it was called before.
    fn next(&self) -> u64;
    #[idempotent]
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// Returns when the gate is open.
    fn pass(&self) -> u64;
}

#[derive(Clone, Default)]
struct Counted {
    calls: Arc<AtomicU64>,
    gate: Gate,
}

impl Counter for Counted {
    fn next(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::SeqCst)
    }

    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    fn pass(&self) -> u64 {
        self.gate.pass();
        self.next()
    }
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);

/// Addresses of a version of IP: the server's, and two of the caller.
struct Addresses {
    server: &'static str,
    first: &'static str,
    second: &'static str,
}

const V4: Addresses = Addresses { server: "10.77.0.1/24", first: "10.77.0.2/24", second: "10.77.0.3/24" };
const V6: Addresses = Addresses { server: "fd77::1/64", first: "fd77::2/64", second: "fd77::3/64" };

fn add(address: &str) {
    // Duplicate address detection would take a second.
    ethernet::ip(&format!(
        "addr add {address} dev {{}}{}",
        if address.contains("::") { " nodad" } else { "" }
    ));
}

impl Addresses {
    /// Gives both ends their first address, and starts a server.
    fn start(&self, scheme: &str, counted: &Counted) -> RunningServer {
        add(self.first);
        ethernet::at_servers(|| {
            add(self.server);
            let (address, _) = self.server.split_once('/').unwrap();
            let host = if address.contains(':') { format!("[{address}]") } else { address.into() };
            let server =
                Server::new().security(stoop::Security::none()).export(CounterServer::new(counted.clone()));
            server.listen(&format!("{scheme}://{host}:0")).unwrap().start().unwrap()
        })
    }

    /// Takes the caller's address away and gives it the other.
    fn replace(&self) {
        ethernet::ip(&format!("addr del {} dev {{}}", self.first));
        add(self.second);
    }
}

fn bind(server: &RunningServer, options: &BindOptions) -> CounterClient {
    CounterClient::bind_with(&server.uris()[0], &options.clone().timeout(LONG)).unwrap()
}

/// Makes calls of each kind, replaces the caller's address, and makes them again.
fn calls_go_on(scheme: &str, addresses: &Addresses, options: &BindOptions) {
    if !ethernet::enter() {
        return;
    }
    let counted = Counted::default();
    let server = addresses.start(scheme, &counted);
    let client = bind(&server, options);
    let long = vec![7; 100_000];
    let make_calls = || {
        assert_eq!(client.echo(b"short").unwrap(), b"short");
        assert_eq!(client.echo(&long).unwrap(), long);
        let begun: Vec<_> = (0..10).map(|_| client.begin().echo(b"begun")).collect();
        begun.into_iter().for_each(|call| assert_eq!(call.wait().unwrap(), b"begun"));
        assert_eq!(client.begin().echo(&long).wait().unwrap(), long);
    };
    make_calls();
    addresses.replace();
    make_calls();
    // Calls that may run once only follow the others to the new address.
    assert_eq!((client.next().unwrap(), client.begin().next().wait().unwrap()), (0, 1));
    server.shut_down();
}

#[test]
fn calls_over_udp_go_on_from_another_address() {
    calls_go_on("udp", &V4, &BindOptions::new());
}

#[test]
fn calls_over_udp_with_ipv6_go_on_from_another_address() {
    calls_go_on("udp", &V6, &BindOptions::new());
}

#[test]
fn calls_over_shared_sockets_go_on_from_another_address() {
    calls_go_on("udp", &V4, &BindOptions::new().with(PacketOptions::new().share_endpoints()));
}

#[test]
fn calls_over_tcp_go_on_from_another_address() {
    calls_go_on("tcp", &V4, &BindOptions::new());
}

#[test]
fn calls_over_tcp_with_ipv6_go_on_from_another_address() {
    calls_go_on("tcp", &V6, &BindOptions::new());
}

/// The first call after the change is one that may run once only, and its result has to come back.
fn the_first_call_runs_once(addresses: &Addresses) {
    if !ethernet::enter() {
        return;
    }
    let counted = Counted::default();
    let server = addresses.start("udp", &counted);
    let client = bind(&server, &BindOptions::new());
    assert_eq!((client.next().unwrap(), client.begin().next().wait().unwrap()), (0, 1));
    addresses.replace();
    assert_eq!((client.next().unwrap(), client.begin().next().wait().unwrap()), (2, 3));
    server.shut_down();
}

#[test]
fn the_first_call_from_another_address_runs_once() {
    the_first_call_runs_once(&V4);
}

#[test]
fn the_first_call_from_another_ipv6_address_runs_once() {
    the_first_call_runs_once(&V6);
}

/// The address is replaced while the procedures of a blocking and a begun call run.
fn results_come_to_the_new_address(addresses: &Addresses) {
    if !ethernet::enter() {
        return;
    }
    let counted = Counted::default();
    let server = addresses.start("udp", &counted);
    let client = bind(&server, &BindOptions::new());
    let begun = client.begin().pass();
    std::thread::scope(|scope| {
        let blocking = scope.spawn(|| client.pass().unwrap());
        counted.gate.await_inside(2);
        addresses.replace();
        counted.gate.open();
        let mut results = [begun.wait().unwrap(), blocking.join().unwrap()];
        results.sort_unstable();
        assert_eq!(results, [0, 1]);
    });
    server.shut_down();
}

#[test]
fn results_of_running_calls_come_to_the_new_address() {
    results_come_to_the_new_address(&V4);
}

#[test]
fn results_of_running_calls_come_to_the_new_ipv6_address() {
    results_come_to_the_new_address(&V6);
}
