//! Calls of a program as spans of OpenTelemetry.

mod loopback;
mod transports;

use opentelemetry::global;
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, TraceId, Tracer};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use std::sync::OnceLock;
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
    let server = Server::new().export(WorkServer::new(Worker));
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
        let spans = spans_of(|| assert!(matches!(client.fail(), Err(CallError::Failed(_)))));
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
