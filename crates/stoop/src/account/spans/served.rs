//! Procedures that a server runs, as spans of OpenTelemetry.
//!
//! The span of a procedure is current while it runs, so that the calls and spans that it makes are its children. It is a child of the span
//! whose identity its call [carries](crate::Metadata); of a call that carries none, it is the root of a trace of its own.

use crate::account::options::AccountOptions;
use crate::account::spans::turns::Turns;
use crate::context::{Caller, serving_caller};
use crate::interface::Interface;
use crate::later::unserved::Unserved;
use crate::metadata::{TraceParent, served};
use opentelemetry::global::{self, BoxedTracer};
use opentelemetry::trace::{
    Span, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
};
use opentelemetry::{Context, ContextGuard, KeyValue};
use std::time::{Duration, Instant, SystemTime};

/// Makes spans of the procedures of one server.
pub(crate) struct ServedSpans {
    tracer: BoxedTracer,
    slow_after: Option<Duration>,
    turns: Turns,
}

/// A procedure that runs. Its span ends with it, also if it panics.
struct RunningSpan {
    context: Context,
    _is_current: ContextGuard,
}

impl ServedSpans {
    /// Those that the options ask for, by the tracer provider of the process.
    pub(crate) fn new(options: &AccountOptions) -> Option<Self> {
        let turns = Turns::new(options.spans_share?);
        Some(Self { tracer: global::tracer("stoop"), slow_after: options.slow_after, turns })
    }

    /// Runs a procedure in this thread: as a span if it is its turn, if its caller's trace is recorded, or if it takes longer than the options
    /// say.
    #[inline]
    pub(crate) fn run(
        &self,
        interface: &Interface,
        procedure: u16,
        run: impl FnOnce() -> Result<(), Unserved>,
    ) -> Result<(), Unserved> {
        let caller = served::trace_parent();
        if self.turns.is_due() || caller.is_some_and(TraceParent::is_sampled) {
            return self.begin(interface, procedure).run(run);
        }
        let begun = self.slow_after.map(|after| (after, Instant::now()));
        let returned = run();
        if let Some((after, begun)) = begun
            && begun.elapsed() > after
        {
            self.add_slow(interface, procedure, begun.elapsed());
        }
        returned
    }

    #[cold]
    fn begin(&self, interface: &Interface, procedure: u16) -> RunningSpan {
        let context = of_caller();
        let span = of_procedure(interface, procedure).start_with_context(&self.tracer, &context);
        let context = context.with_span(span);
        RunningSpan { _is_current: context.clone().attach(), context }
    }

    #[cold]
    fn add_slow(&self, interface: &Interface, procedure: u16, took: Duration) {
        let ended = SystemTime::now();
        let begun = ended.checked_sub(took).unwrap_or(ended);
        let span = of_procedure(interface, procedure).with_start_time(begun);
        span.start_with_context(&self.tracer, &of_caller()).end_with_timestamp(ended);
    }
}

/// The context with the span of the caller, if the call that this thread serves carries that. The thread serves one caller after the other:
/// no span of another call is its parent.
fn of_caller() -> Context {
    let Some(parent) = served::trace_parent() else { return Context::new() };
    let state =
        served::current().get("tracestate").and_then(|state| std::str::from_utf8(state).ok()?.parse().ok());
    let span = SpanContext::new(
        TraceId::from_bytes(parent.trace),
        SpanId::from_bytes(parent.span),
        TraceFlags::new(parent.flags),
        true,
        state.unwrap_or_default(),
    );
    Context::new().with_remote_span_context(span)
}

impl RunningSpan {
    fn run(self, run: impl FnOnce() -> Result<(), Unserved>) -> Result<(), Unserved> {
        let returned = run();
        match &returned {
            Ok(()) | Err(Unserved::Later(_)) => {}
            Err(why) => self.fail("unserved", format!("the procedure did not run: {why:?}")),
        }
        returned
    }

    fn fail(&self, kind: &'static str, why: String) {
        self.context.span().set_attribute(KeyValue::new("error.type", kind));
        self.context.span().set_status(Status::error(why));
    }
}

impl Drop for RunningSpan {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail("panic", "the procedure panicked".into());
        }
        self.context.span().end();
    }
}

/// A span of the call that this thread serves.
fn of_procedure(interface: &Interface, procedure: u16) -> SpanBuilder {
    let procedure = interface.procedures[usize::from(procedure)].name;
    let method = format!("{}/{procedure}", interface.name);
    let mut attributes =
        vec![KeyValue::new("rpc.system.name", "stoop"), KeyValue::new("rpc.method", method.clone())];
    match serving_caller() {
        Caller::Network(from) => {
            attributes.push(KeyValue::new("client.address", from.ip().to_canonical().to_string()));
            attributes.push(KeyValue::new("client.port", i64::from(from.port())));
        }
        Caller::Process(from) => {
            attributes.push(KeyValue::new("stoop.client_pid", i64::from(from.pid)));
            attributes.push(KeyValue::new("stoop.client_uid", i64::from(from.uid)));
        }
        Caller::Station(_) | Caller::Local => {}
    }
    SpanBuilder::from_name(method).with_kind(SpanKind::Server).with_attributes(attributes)
}
