//! Runs the examples as a user would: a server process and a client process.

use crate::programs::{Server, run, said};

/// One address for each transport between processes, at which nothing listens yet. `name` is the test's.
fn addresses(name: &str) -> [String; 5] {
    let unique = format!("stoop-examples-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(&unique);
    [
        "udp://127.0.0.1:0".into(),
        "tcp://127.0.0.1:0".into(),
        format!("unix:@{unique}"),
        format!("unix:{}", path.display()),
        format!("shm:{unique}"),
    ]
}

#[test]
fn the_greeter_greets() {
    for address in addresses("greeter") {
        let server = Server::start("greeter-server", &[&address]);
        assert_eq!(said("greeter-client", &server.uris[0]), "Hello, world!\n", "{address}");
        let greetings = "Hello, world!\nHello, falcon!\nHello, firefly!\n";
        assert_eq!(said("greeter-async-client", &server.uris[0]), greetings, "{address}");
    }
}

#[test]
fn the_store_answers_and_refuses_as_its_interface_says() {
    for address in addresses("kv") {
        let server = Server::start("kv-server", &[&address]);
        let said = said("kv-client", &server.uris[0]);
        let (first, last) = said.trim_end().rsplit_once('\n').expect("several lines");
        assert_eq!(
            first,
            "colour is blue\n\
             its 4 bytes begin with 'b'\n\
             colour has changed: true\n\
             not set: another client was faster",
            "{address}"
        );
        assert!(last.contains("at most 1024 bytes, not 100000"), "{address}: {last}");
    }
}

#[test]
fn a_client_without_a_server_says_so_and_fails() {
    let output = run("greeter-client", "udp://127.0.0.1:1");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("is the server running"), "{errors}");
}

#[test]
fn two_servers_cannot_listen_at_one_address() {
    let first = Server::start("greeter-server", &["udp://127.0.0.1:0"]);
    let output = run("greeter-server", &first.uris[0]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors.contains("another server runs there"), "{errors}");
}
