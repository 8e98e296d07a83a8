//! The interceptors of the examples, around the key-value store.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stoop::error::Refusal;
use stoop::intercept::{Before, CallInfo, Intercept};
use stoop::{BindOptions, CallError, Error, Ran, RefusalCode, RunningServer, Server};
use stoop_examples::intercept::log::LogCalls;
use stoop_examples::intercept::rate_limit::RateLimit;
use stoop_examples::intercept::retry::Retry;
use stoop_examples::kv::{Entry, KvError, Store, StoreClient, StoreServer};
use tracing_subscriber::fmt::MakeWriter;

struct Empty;

impl Store for Empty {
    fn get(&self, _: &str) -> Option<Entry> {
        None
    }
    fn set(&self, _: &str, value: &[u8], _: Option<u64>) -> Result<u64, KvError> {
        Err(KvError::TooLong { len: value.len() })
    }
    fn read(&self, _: &str, _: &mut [u8]) -> Result<usize, KvError> {
        panic!("on purpose");
    }
    fn await_change(&self, _: &str, _: u64) -> Option<Entry> {
        None
    }
}

fn store(server: Server, options: &BindOptions) -> (RunningServer, StoreClient) {
    let server = server.export(StoreServer::new(Empty)).listen("tcp://127.0.0.1:0").expect("a port is free");
    let server = server.start().expect("it starts");
    let client = StoreClient::bind_with(&server.uris()[0], options).expect("it is there");
    (server, client)
}

#[test]
fn a_tenant_that_calls_too_often_is_refused_and_others_are_not() {
    // No token comes back while the test runs.
    let by_procedure = |call: &CallInfo<'_>| call.procedure().to_owned();
    let server = Server::new().interceptor(RateLimit::new(1e-6, 3, by_procedure));
    let (_server, client) = store(server, &BindOptions::new());
    for _ in 0..3 {
        assert_eq!(client.get("key").expect("it is below the limit"), None);
    }
    let error = client.get("key").expect_err("it is above the limit");
    let CallError::Refused(refusal, ..) = &error else { panic!("{error}") };
    assert_eq!((refusal.code, error.ran()), (RefusalCode::Denied, Ran::No));
    assert_eq!(client.await_change("key", 1).expect("another tenant"), None);
}

/// The lines of a log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panics").write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[test]
fn the_log_has_a_line_for_each_call_that_says_how_it_ended() {
    let lines = Lines::default();
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(lines.clone()).finish();
    let (server, client) = store(Server::new(), &BindOptions::new().interceptor(LogCalls));
    tracing::subscriber::with_default(log, || {
        client.get("key").expect("it is served");
        assert!(matches!(client.set("key", b"1", None), Err(Error::Application(_))));
        client.read("key", &mut []).expect_err("it panics");
    });
    let text = String::from_utf8(lines.0.lock().expect("no writer panics").clone()).expect("a log is text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines[0].contains("INFO") && lines[0].contains(r#"done interface="Store" procedure="get""#),
        "{text}"
    );
    assert!(lines[0].contains(&format!("server=\"{}\"", server.uris()[0])), "{text}");
    assert!(lines[1].contains("INFO") && lines[1].contains(r#"procedure="set""#), "{text}");
    assert!(lines[2].contains("WARN") && lines[2].contains(r#"ran="yes""#), "{text}");
}

/// Refuses the first calls.
struct NotYet(AtomicU32);

impl Intercept for NotYet {
    fn before(&self, _: &mut CallInfo<'_>) -> Before {
        match self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Before::Refuse(Refusal::denied("not yet")),
            Err(_) => Before::Go,
        }
    }
}

#[test]
fn idempotent_calls_are_made_again_and_others_are_not() {
    let not_yet = Arc::new(NotYet(AtomicU32::new(2)));
    let server = Server::new().interceptor(Arc::clone(&not_yet));
    let (_server, client) =
        store(server, &BindOptions::new().interceptor(Retry::new(2, Duration::from_millis(1))));
    assert_eq!(client.get("key").expect("the third attempt is served"), None);
    not_yet.0.store(3, Ordering::SeqCst);
    client.get("key").expect_err("there is no fourth attempt");
    not_yet.0.store(1, Ordering::SeqCst);
    assert!(client.set("key", b"1", None).expect_err("it is refused").ran() == Ran::No);
    assert!(matches!(client.set("key", b"1", None), Err(Error::Application(_))), "it was not made again");
}
