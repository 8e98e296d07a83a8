//! Calls of a program as spans of OpenTelemetry.

#[path = "harness/mod.rs"]
mod harness;

use crate::harness::eventually;
use crate::harness::transports;
use opentelemetry::global;
use opentelemetry::trace::{SpanId, SpanKind, Status, TraceContextExt, TraceId, Tracer};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use stoop::account::AccountOptions;
use stoop::{BindOptions, CallError, RunningServer, Server};

#[stoop::interface]
trait Work {
    fn echo(&self, number: u64) -> u64;
    fn last_for(&self, us: u64);
    fn fail(&self);
}

struct Worker;

impl Work for Worker {
    fn echo(&self, number: u64) -> u64 {
        number
    }

    fn last_for(&self, us: u64) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(us) {
            std::hint::spin_loop();
        }
    }

    fn fail(&self) {
        panic!("as the caller wishes");
    }
}

const TRANSPORTS: [&str; 4] = ["udp", "tcp", "unix", "shm"];

/// What collects the spans of this process: in memory, by the calling thread.
fn exporter() -> &'static InMemorySpanExporter {
    static EXPORTER: OnceLock<InMemorySpanExporter> = OnceLock::new();
    EXPORTER.get_or_init(|| {
        let exporter = InMemorySpanExporter::default();
        global::set_tracer_provider(
            SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build(),
        );
        exporter
    })
}

fn serve(transport: &str) -> (RunningServer, String) {
    let server = Server::new().panic_texts(true).export(WorkServer::new(Worker));
    let server = server.listen(&transports::address(transport)).unwrap().start().unwrap();
    let uri = server.uris()[0].clone();
    (server, uri)
}

fn bind(uri: &str, options: AccountOptions) -> WorkClient {
    exporter();
    WorkClient::bind_with(uri, &BindOptions::new().account(options)).unwrap()
}

/// Makes calls under a span of this thread. Returns the spans of these calls, in the order of their ends.
fn spans_of(calls: impl FnOnce()) -> Vec<SpanData> {
    let exporter = exporter();
    let mut trace = TraceId::INVALID;
    global::tracer("test").in_span("the caller's own", |context| {
        trace = context.span().span_context().trace_id();
        calls();
    });
    let spans = exporter.get_finished_spans().unwrap();
    spans
        .into_iter()
        .filter(|span| span.span_context.trace_id() == trace && span.name != "the caller's own")
        .collect()
}

fn number(span: &SpanData, key: &str) -> Option<i64> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key)?;
    Some(found.value.to_string().parse().unwrap())
}

fn text(span: &SpanData, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key)?;
    Some(found.value.to_string())
}

#[test]
fn a_call_is_a_span_of_its_caller_over_each_transport() {
    for transport in TRANSPORTS {
        let (_server, uri) = serve(transport);
        let client = bind(&uri, AccountOptions::new().shm_share(1).spans(1));
        let spans = spans_of(|| {
            (0..10).for_each(|value| assert_eq!(client.echo(value).unwrap(), value));
            client.last_for(3_000).unwrap();
        });
        assert_eq!(spans.len(), 11, "{transport}: {spans:?}");
        for span in &spans {
            assert_eq!(span.span_kind, SpanKind::Client);
            assert_eq!(text(span, "rpc.system.name").unwrap(), "stoop");
            assert_eq!(text(span, "rpc.method").unwrap(), span.name);
            assert_eq!(text(span, "stoop.uri").unwrap(), uri);
            assert!(text(span, "server.address").is_some_and(|address| uri.contains(&address)));
            let took = span.end_time.duration_since(span.start_time).unwrap().as_nanos() as i64;
            let (server, rest) =
                (number(span, "stoop.server_ns").unwrap(), number(span, "stoop.rest_ns").unwrap());
            assert_eq!(server + rest, took, "{transport}: {span:?}");
        }
        assert_eq!((&*spans[0].name, &*spans[10].name), ("Work/echo", "Work/last_for"));
        assert!(number(&spans[10], "stoop.server_ns").unwrap() >= 2_700_000, "{transport}: {spans:?}");
    }
}

#[test]
fn a_call_that_fails_is_a_span_with_its_error_over_each_transport() {
    for transport in TRANSPORTS {
        let (server, uri) = serve(transport);
        let client = bind(&uri, AccountOptions::new().shm_share(1).spans(1_000_000));
        client.echo(0).unwrap();
        let spans = spans_of(|| assert!(matches!(client.fail(), Err(CallError::Failed(..)))));
        let [span] = &spans[..] else { panic!("{transport}: {spans:?}") };
        assert_eq!((&*span.name, text(span, "error.type").as_deref()), ("Work/fail", Some("failed")));
        assert!(
            matches!(&span.status, Status::Error { description } if description.contains("as the caller wishes"))
        );
        drop(server);
    }
}

#[test]
fn only_slow_calls_and_a_share_of_the_others_are_spans() {
    let (_server, uri) = serve("udp");
    let options = AccountOptions::new().slow_after(Duration::from_secs(3600)).spans(10);
    let client = bind(&uri, options);
    let spans = spans_of(|| (0..100).for_each(|value| assert_eq!(client.echo(value).unwrap(), value)));
    assert_eq!(spans.len(), 10, "{spans:?}");
    assert!(spans.iter().all(|span| text(span, "stoop.slow_part").is_none()));

    let client = bind(&uri, AccountOptions::new().slow_after(Duration::ZERO).spans(1_000_000));
    let spans = spans_of(|| (0..10).for_each(|value| assert_eq!(client.echo(value).unwrap(), value)));
    assert_eq!(spans.len(), 10, "each call is slow: {spans:?}");
    assert!(spans.iter().all(|span| text(span, "stoop.slow_part").is_some()));
}

#[test]
fn a_binding_that_was_not_asked_to_makes_no_spans() {
    let (_server, uri) = serve("udp");
    let client = bind(&uri, AccountOptions::new().slow_after(Duration::ZERO));
    assert_eq!(spans_of(|| assert_eq!(client.echo(3).unwrap(), 3)).len(), 0);
}

#[test]
fn a_begun_call_is_a_span_of_the_thread_that_began_it_over_each_transport() {
    for transport in TRANSPORTS {
        let (_server, uri) = serve(transport);
        let client = bind(&uri, AccountOptions::new().spans(1));
        let spans = spans_of(|| {
            let calls = client.begin();
            let pending: Vec<_> = (0..10).map(|value| calls.echo(value)).collect();
            let slow = calls.last_for(3_000);
            drop(calls);
            // The thread that takes the outcomes has no span of its own.
            let taking = thread::spawn(move || {
                slow.wait().unwrap();
                stoop::wait_all(pending)
            });
            let results = taking.join().unwrap();
            assert!((0..10).eq(results.into_iter().map(Result::unwrap)));
        });
        assert_eq!(spans.len(), 11, "{transport}: {spans:?}");
        assert!(spans.iter().all(|span| span.span_kind == SpanKind::Client));
        assert!(spans.iter().all(|span| text(span, "stoop.begun").as_deref() == Some("true")));
        assert_eq!((&*spans[0].name, &*spans[1].name), ("Work/last_for", "Work/echo"));
        let took = spans[0].end_time.duration_since(spans[0].start_time).unwrap();
        assert!(took >= Duration::from_micros(2_700), "{transport}: {took:?}");
    }
}

#[test]
fn a_begun_call_that_fails_is_a_span_and_one_whose_outcome_nobody_takes_is_none() {
    for transport in TRANSPORTS {
        let (_server, uri) = serve(transport);
        let client = bind(&uri, AccountOptions::new().spans(1_000_000));
        client.begin().echo(0).wait().unwrap();
        let spans = spans_of(|| {
            assert!(matches!(client.begin().fail().wait(), Err(CallError::Failed(..))));
            client.begin().fail().detach();
            drop(client.begin().last_for(1));
        });
        let [span] = &spans[..] else { panic!("{transport}: {spans:?}") };
        assert_eq!((&*span.name, text(span, "error.type").as_deref()), ("Work/fail", Some("failed")));
    }
}

#[test]
fn a_begun_call_that_is_awaited_is_a_span() {
    let (_server, uri) = serve("udp");
    let client = bind(&uri, AccountOptions::new().spans(1));
    let spans = spans_of(|| {
        let mut pending = std::pin::pin!(client.begin().echo(7));
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(result) = pending.as_mut().poll(&mut context) {
                break assert_eq!(result.unwrap(), 7);
            }
            thread::yield_now();
        }
    });
    assert_eq!(spans.len(), 1, "{spans:?}");
}

/// The spans that a server has made of calls of this procedure.
fn served(procedure: &str) -> Vec<SpanData> {
    let spans = exporter().get_finished_spans().unwrap();
    let is_served = |span: &SpanData| span.span_kind == SpanKind::Server && span.name == procedure;
    spans.into_iter().filter(is_served).collect()
}

/// Waits until a server has made so many spans of calls of this procedure: a result may be there before the span has ended.
fn await_served(procedure: &str, number: usize) -> Vec<SpanData> {
    eventually(|| served(procedure).len() >= number);
    served(procedure)
}

/// Procedures whose servers make spans. Apart from [`Work`], because all tests of the process have one exporter.
#[stoop::interface]
trait Traced {
    fn outer(&self, uri: String) -> u64;
    fn panics(&self);
    fn is_slow(&self, us: u64);
}

struct Tracing;

impl Traced for Tracing {
    fn outer(&self, uri: String) -> u64 {
        bind(&uri, AccountOptions::new().shm_share(1).spans(1)).echo(5).unwrap()
    }

    fn panics(&self) {
        panic!("as the caller wishes");
    }

    fn is_slow(&self, us: u64) {
        Worker.last_for(us);
    }
}

fn serve_traced(transport: &str, options: AccountOptions) -> (RunningServer, TracedClient) {
    exporter();
    let server = Server::new().account(options).export(TracedServer::new(Tracing));
    let server = server.listen(&transports::address(transport)).unwrap().start().unwrap();
    let client = TracedClient::bind(&server.uris()[0]).unwrap();
    (server, client)
}

#[test]
fn a_procedure_is_a_span_of_its_server_and_the_parent_of_the_calls_that_it_makes() {
    for (count, transport) in (1..).zip(TRANSPORTS) {
        let (_inner, inner_uri) = serve(transport);
        let (_outer, client) = serve_traced(transport, AccountOptions::new().spans(1));
        assert_eq!(client.outer(inner_uri.clone()).unwrap(), 5);
        let spans = await_served("Traced/outer", count);
        let all = exporter().get_finished_spans().unwrap();
        let is_inner = |span: &&SpanData| text(span, "stoop.uri").as_ref() == Some(&inner_uri);
        let inner = all.iter().find(is_inner).unwrap();
        let outer = spans.iter().find(|span| span.span_context.span_id() == inner.parent_span_id).unwrap();
        assert_eq!(outer.span_context.trace_id(), inner.span_context.trace_id());
        assert_eq!(outer.parent_span_id, SpanId::INVALID, "a call carries no identity of a trace");
        assert_eq!(text(outer, "rpc.method").as_deref(), Some("Traced/outer"));
        match transport {
            "udp" | "tcp" => assert_eq!(text(outer, "client.address").as_deref(), Some("127.0.0.1")),
            _ => {
                assert_eq!(number(outer, "stoop.client_pid"), Some(i64::from(std::process::id())));
            }
        }
    }
}

#[test]
fn a_procedure_that_panics_is_a_span_with_an_error_and_leaves_no_current_span() {
    let (_server, client) = serve_traced("udp", AccountOptions::new().spans(1));
    assert!(matches!(client.panics(), Err(CallError::Failed(..))));
    client.is_slow(0).unwrap();
    let span = await_served("Traced/panics", 1).remove(0);
    assert_eq!(text(&span, "error.type").as_deref(), Some("panic"));
    assert!(matches!(&span.status, Status::Error { .. }));
    let next = await_served("Traced/is_slow", 1);
    assert!(next.iter().all(|span| span.parent_span_id == SpanId::INVALID));
}

#[test]
fn a_server_makes_spans_of_slow_procedures_and_of_a_share_of_the_others() {
    let options = AccountOptions::new().slow_after(Duration::from_millis(5)).spans(1_000_000);
    let (_server, client) = serve_traced("udp", options);
    // The first is the one in so many.
    client.is_slow(0).unwrap();
    client.is_slow(0).unwrap();
    client.is_slow(6_001).unwrap();
    let is_long =
        |span: &SpanData| span.end_time.duration_since(span.start_time).unwrap() >= Duration::from_millis(6);
    eventually(|| served("Traced/is_slow").iter().any(is_long));
}

/// A server that makes few spans of its own accord, and one in front of it that calls it.
fn serve_two(transport: &str) -> (RunningServer, RunningServer, String) {
    exporter();
    let last_options = AccountOptions::new().spans(1_000_000);
    let last = Server::new().account(last_options.clone()).export(WorkServer::new(Worker));
    let last = last.listen(&transports::address(transport)).unwrap().start().unwrap();
    let options = BindOptions::new().account(AccountOptions::new().shm_share(1).spans(1));
    let relay = Relay(WorkClient::bind_with(&last.uris()[0], &options).unwrap());
    let first = Server::new().account(last_options).export(WorkServer::new(relay));
    let first = first.listen(&transports::address(transport)).unwrap().start().unwrap();
    let uri = first.uris()[0].clone();
    (last, first, uri)
}

struct Relay(WorkClient);

impl Work for Relay {
    fn echo(&self, number: u64) -> u64 {
        self.0.echo(number).unwrap()
    }

    fn last_for(&self, us: u64) {
        self.0.begin().last_for(us).wait().unwrap();
    }

    fn fail(&self) {}
}

#[test]
fn the_spans_of_caller_and_servers_are_one_trace_over_each_transport() {
    for transport in TRANSPORTS {
        let (_last, _first, uri) = serve_two(transport);
        // The first calls of the servers are spans anyway.
        WorkClient::bind(&uri).unwrap().echo(0).unwrap();
        let client = bind(&uri, AccountOptions::new().shm_share(1).spans(1));
        for call in 0..2 {
            let spans = spans_of(|| match call {
                0 => assert_eq!(client.echo(7).unwrap(), 7),
                _ => client.begin().last_for(1).wait().unwrap(),
            });
            let of_kind = |kind| spans.iter().filter(|span| span.span_kind == kind).collect::<Vec<_>>();
            let (servers, clients) = (of_kind(SpanKind::Server), of_kind(SpanKind::Client));
            assert_eq!((servers.len(), clients.len()), (2, 2), "{transport}: {spans:?}");
            // They end from the inside to the outside.
            let [last, first] = servers[..] else { unreachable!() };
            let [inner, outer] = clients[..] else { unreachable!() };
            assert_eq!(first.parent_span_id, outer.parent_span_id, "{transport}: that of the program");
            assert!(first.parent_span_is_remote && last.parent_span_is_remote);
            let of_first = first.span_context.span_id();
            assert_eq!((last.parent_span_id, inner.parent_span_id), (of_first, of_first), "{transport}");
        }
        let spans = spans_of(|| {
            let plain = WorkClient::bind(&uri).unwrap();
            assert_eq!(plain.echo(3).unwrap(), 3);
        });
        assert!(spans.is_empty(), "{transport}: the calls of a client without spans carry none: {spans:?}");
    }
}
