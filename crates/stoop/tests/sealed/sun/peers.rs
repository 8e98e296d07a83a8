//! Another implementation: Python's `ssl`, which is OpenSSL, with messages of RPC made by hand.

use super::{LedgerClient, PROGRAM, caller, certified, options};
use crate::certificates::{Organisation, dns, uri, with};
use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use stoop::{BindError, RunningServer};

fn has_python() -> bool {
    let version = Command::new("python3").args(["-c", "import ssl; assert ssl.HAS_TLSv1_3"]).status();
    let is_there = version.is_ok_and(|status| status.success());
    if !is_there {
        println!("SKIPPED: there is no python3 with TLS 1.3");
    }
    is_there
}

fn python(role: &[&str], organisation: &Organisation, files: (PathBuf, PathBuf), words: &[&str]) -> Command {
    let mut command = Command::new("python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sealed/sun/rpc_with_tls.py");
    command.arg(script).args(role).arg(organisation.roots()).arg(files.0).arg(files.1).args(words);
    command
}

/// What the peer prints as a client of that server.
fn client_of(server: &RunningServer, organisation: &Organisation, words: &[&str]) -> Vec<String> {
    let files = organisation.issue("peer", &with(&[uri("urn:peer")]));
    let port = server.uris()[0].rsplit_once(':').unwrap().1.to_owned();
    let role = ["client", &port, &PROGRAM.to_string()];
    let printed = python(&role, organisation, files, words).output().unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    String::from_utf8(printed.stdout).unwrap().lines().map(Into::into).collect()
}

const PROBE: &str = "probe: accepted 0 0 STARTTLS";

#[test]
fn openssl_calls_our_server() {
    if !has_python() {
        return;
    }
    let organisation = Organisation::new();
    let server = certified(&organisation);
    let usual = [
        "add: accepted 0 0 - 5",
        "add: accepted 0 0 - 12",
        "echo: accepted 0 0 - True",
        "caller: accepted 0 0 - urn:peer",
    ];
    let told = client_of(&server, &organisation, &[]);
    assert_eq!(told[..2], [PROBE, "session: TLSv1.3 sunrpc"]);
    assert_eq!(told[2..], usual);
    // Within the session, the question is no valid credential (RFC 9289 §4.1), and the session goes on.
    let told = client_of(&server, &organisation, &["probe-inside"]);
    assert_eq!(told[2..4], ["second probe: denied 1 1", "add: accepted 0 0 - 17"]);
    // The helper of the Linux kernel names no protocol.
    let told = client_of(&server, &organisation, &["no-alpn"]);
    assert_eq!(told[1..3], ["session: TLSv1.3 None", "add: accepted 0 0 - 29"]);
    // Calls that come together with the end of the handshake.
    assert_eq!(client_of(&server, &organisation, &["early"]), [PROBE, "answers: 40"]);
}

#[test]
fn openssl_is_refused_by_our_server_with_another_protocol_or_no_certificate() {
    if !has_python() {
        return;
    }
    let organisation = Organisation::new();
    let server = certified(&organisation);
    let told = client_of(&server, &organisation, &["alpn=h2"]);
    assert!(told.len() == 2 && told[1].starts_with("failed: "), "{told:?}");
    let told = client_of(&server, &organisation, &["no-certificate"]);
    assert!(told.last().is_some_and(|last| last.contains("CERTIFICATE_REQUIRED")), "{told:?}");
    assert_eq!(server.counters().calls, 0);
}

/// A server of the other implementation.
struct Served {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    uri: String,
}

impl Served {
    fn start(organisation: &Organisation, words: &[&str]) -> Self {
        let files = organisation.issue("vault", &with(&[dns("vault.example")]));
        let role = ["server", &PROGRAM.to_string()];
        let mut command = python(&role, organisation, files, words);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap();
        Self { process, lines, uri: format!("onc+tcp://127.0.0.1:{port}") }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn our_client_calls_openssl() {
    if !has_python() {
        return;
    }
    let organisation = Organisation::new();
    let options = options(caller(&organisation));
    let mut served = Served::start(&organisation, &[]);
    let client = LedgerClient::bind_with(&served.uri, &options).unwrap();
    assert_eq!(served.lines.next().unwrap().unwrap(), "caller: spiffe://example.org/shop sunrpc");
    assert_eq!((client.add(5).unwrap(), client.add(7).unwrap()), (5, 12));
    let bytes = vec![7; 2 << 20];
    assert_eq!(client.echo(&bytes).unwrap(), bytes);

    let mut without = Served::start(&organisation, &["no-alpn"]);
    let client = LedgerClient::bind_with(&without.uri, &options).unwrap();
    assert_eq!(client.add(5).unwrap(), 5);
    assert_eq!(without.lines.next().unwrap().unwrap(), "caller: spiffe://example.org/shop None");
}

#[test]
fn our_client_does_not_call_openssl_with_another_protocol_or_certificate() {
    if !has_python() {
        return;
    }
    let (organisation, other) = (Organisation::new(), Organisation::named("Another"));
    let refused = |served: &Served, security| match LedgerClient::bind_with(&served.uri, &options(security)) {
        Err(why @ BindError::Security { .. }) => why.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is bound"),
    };
    let served = Served::start(&organisation, &["alpn=h2"]);
    // OpenSSL goes on without a protocol, and says none.
    assert!(LedgerClient::bind_with(&served.uri, &options(caller(&organisation))).is_ok());
    let mut served = Served::start(&organisation, &[]);
    assert!(refused(&served, caller(&other)).contains("none of the roots"));
    assert!(served.lines.next().unwrap().unwrap().contains("UNKNOWN_CA"));
    let (chain, key) = other.issue("stranger", &with(&[uri("urn:stranger")]));
    let stranger = stoop::Security::certificates(chain, key, organisation.roots()).unwrap();
    assert!(refused(&served, stranger).contains("none of the server's roots has issued it"));
}

#[test]
fn a_connection_on_which_tickets_have_come_is_used_on() {
    if !has_python() {
        return;
    }
    let organisation = Organisation::new();
    let mut served = Served::start(&organisation, &[]);
    let client = LedgerClient::bind_with(&served.uri, &options(caller(&organisation))).unwrap();
    assert!(served.lines.next().unwrap().unwrap().starts_with("caller:"));
    // The time itself is what the client goes by: it looks at a connection that was idle for a second.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    // This server serves one connection at a time.
    assert_eq!(client.add(5).unwrap(), 5);
}
