//! Calls of a binding as spans of OpenTelemetry.
//!
//! The attributes are those of the [conventions for RPC](https://opentelemetry.io/docs/specs/semconv/rpc/rpc-spans/); those that begin
//! with `stoop.` are the parts of the call.

mod begun;
mod served;
mod turns;

use crate::account::options::AccountOptions;
use crate::account::slow::{Facts, SlowCall};
pub(crate) use crate::account::spans::begun::{BegunSpan, BegunSpans};
pub(crate) use crate::account::spans::served::ServedSpans;
use crate::account::spans::turns::Turns;
use crate::error::CallError;
use crate::interface::Interface;
use crate::metadata::TraceParent;
use crate::metadata::trace::CurrentSpan;
use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::trace::{Span, SpanBuilder, SpanKind, Status, TraceContextExt};
use opentelemetry::{Context, KeyValue};
use std::time::{Duration, SystemTime};

/// Makes spans of calls of one binding.
pub(crate) struct Spans {
    tracer: BoxedTracer,
    interface: &'static Interface,
    /// Attributes of each span.
    common: Vec<KeyValue>,
    slow_after: Option<Duration>,
    /// Of the recorded calls that are not slow.
    turns: Turns,
}

impl Spans {
    /// Those that the options ask for, by the tracer provider of the process. `uri`: address of the server.
    pub(crate) fn new(interface: &'static Interface, uri: &str, options: &AccountOptions) -> Option<Self> {
        let turns = Turns::new(options.spans_share?);
        let (host, port) = server(uri);
        let mut common = vec![
            KeyValue::new("rpc.system.name", "stoop"),
            KeyValue::new("server.address", host.to_owned()),
            KeyValue::new("stoop.uri", uri.to_owned()),
        ];
        common.extend(port.map(|port| KeyValue::new("server.port", i64::from(port))));
        let tracer = global::tracer("stoop");
        Some(Self { tracer, interface, common, slow_after: options.slow_after, turns })
    }

    /// The span that is current in this thread, as calls carry it to the server, whose span of the call has it as its parent.
    pub(crate) fn current(&self) -> Option<CurrentSpan> {
        Context::map_current(|context| {
            let span = context.span().span_context().clone();
            span.is_valid().then(|| CurrentSpan {
                parent: TraceParent {
                    trace: span.trace_id().to_bytes(),
                    span: span.span_id().to_bytes(),
                    flags: span.trace_flags().to_u8(),
                },
                state: span.trace_state().header(),
            })
        })
    }

    /// A call of the calling thread has just ended with a result. It becomes a span if it was slow or if it is its turn.
    #[inline]
    pub(crate) fn add(&self, procedure: u16, facts: &Facts, slow: Option<&SlowCall>) {
        if slow.is_some() || self.turns.is_due() {
            self.add_call(procedure, facts, slow);
        }
    }

    #[cold]
    fn add_call(&self, procedure: u16, facts: &Facts, slow: Option<&SlowCall>) {
        let (parent, took) = (Context::current(), Duration::from_nanos(facts.whole_ns));
        self.add_span(&parent, procedure, took, parts(facts, slow), Status::Unset);
    }

    /// The program takes the outcome of a begun call, which has ended with a result unless there is an error. It becomes a span if it failed,
    /// if it took longer than the options say, or if it is its turn.
    #[cold]
    pub(crate) fn add_begun(
        &self,
        parent: &Context,
        procedure: u16,
        took: Duration,
        error: Option<&CallError>,
    ) {
        let begun = KeyValue::new("stoop.begun", true);
        match error {
            Some(error) => self.add_error(parent, procedure, took, error, vec![begun]),
            None if self.slow_after.is_some_and(|after| took > after) || self.turns.is_due() => {
                self.add_span(parent, procedure, took, vec![begun], Status::Unset);
            }
            None => {}
        }
    }

    /// A call of the calling thread has just ended without a result.
    #[cold]
    pub(crate) fn add_failed(&self, procedure: u16, took_ns: u64, error: &CallError) {
        self.add_error(&Context::current(), procedure, Duration::from_nanos(took_ns), error, Vec::new());
    }

    fn add_error(
        &self,
        parent: &Context,
        procedure: u16,
        took: Duration,
        error: &CallError,
        mut own: Vec<KeyValue>,
    ) {
        own.push(KeyValue::new("error.type", error.kind()));
        self.add_span(parent, procedure, took, own, Status::error(error.to_string()));
    }

    /// Adds the span of a call that has just ended.
    fn add_span(&self, parent: &Context, procedure: u16, took: Duration, own: Vec<KeyValue>, status: Status) {
        let ended = SystemTime::now();
        let begun = ended.checked_sub(took).unwrap_or(ended);
        let procedure = self.interface.procedures[usize::from(self.interface.base(procedure))].name;
        let method = format!("{}/{procedure}", self.interface.name);
        let attributes = self.common.iter().cloned().chain([KeyValue::new("rpc.method", method.clone())]);
        let span = SpanBuilder::from_name(method).with_kind(SpanKind::Client).with_start_time(begun);
        let mut span = span.with_attributes(attributes.chain(own)).start_with_context(&self.tracer, parent);
        span.set_status(status);
        span.end_with_timestamp(ended);
    }
}

/// Host or name in the address of a server, and its port if it has one.
fn server(uri: &str) -> (&str, Option<u16>) {
    let place = uri.split_once(':').map_or(uri, |(_, place)| place.strip_prefix("//").unwrap_or(place));
    match place.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => {
            (host.trim_matches(['[', ']']), port.parse().ok())
        }
        _ => (place, None),
    }
}

/// The parts of a call whose times are known.
fn parts(facts: &Facts, slow: Option<&SlowCall>) -> Vec<KeyValue> {
    let number = |name, value: u64| KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX));
    let mut parts = Vec::with_capacity(6);
    if let Some(server_ns) = facts.server_ns {
        parts.push(number("stoop.server_ns", server_ns));
        parts.push(number("stoop.rest_ns", facts.whole_ns.saturating_sub(server_ns)));
    }
    parts.push(number("stoop.repeated", facts.repeated));
    parts.push(KeyValue::new("stoop.slept", facts.slept));
    if let Some(slow) = slow {
        parts.push(KeyValue::new("stoop.slow_part", slow.slow.to_string()));
        let wake_up = slow.wake_up.map(|time| time.as_nanos() as u64);
        parts.extend(wake_up.map(|ns| number("stoop.wake_up_ns", ns)));
    }
    parts
}

#[cfg(test)]
mod tests {
    use crate::account::spans::server;

    #[test]
    fn address_and_port_of_a_server_are_told_apart() {
        for (uri, expected) in [
            ("udp://127.0.0.1:7400", ("127.0.0.1", Some(7400))),
            ("tcp://[::1]:80", ("::1", Some(80))),
            ("tcp://store.example:7400", ("store.example", Some(7400))),
            ("unix:/run/store", ("/run/store", None)),
            ("shm:store", ("store", None)),
            ("odd", ("odd", None)),
        ] {
            assert_eq!(server(uri), expected, "{uri}");
        }
    }
}
