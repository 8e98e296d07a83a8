//! Begun calls as spans of OpenTelemetry.
//!
//! The span of a begun call begins with the call, as a child of the span that is current then, and ends when the program takes the
//! outcome by the call's handle: no other thread runs the program's exporter.

use crate::account::spans::Spans;
use crate::error::CallError;
use crate::metadata::trace::CurrentSpan;
use opentelemetry::Context;
use std::sync::Arc;
use std::time::Instant;

/// Makes spans of the begun calls of a binding, if its options ask for them.
#[derive(Clone, Default)]
pub(crate) struct BegunSpans(Option<Arc<Spans>>);

impl BegunSpans {
    pub(crate) fn new(spans: Option<Arc<Spans>>) -> Self {
        Self(spans)
    }

    /// As [`Spans::current`].
    #[inline]
    pub(crate) fn current_span(&self) -> Option<CurrentSpan> {
        self.0.as_ref().and_then(|spans| spans.current())
    }

    /// A call that begins now.
    #[inline]
    pub(crate) fn begin(&self, procedure: u16) -> Option<BegunSpan> {
        self.0.as_ref().map(|spans| BegunSpan::new(spans, procedure))
    }
}

/// A begun call that may become a span.
pub(crate) struct BegunSpan {
    spans: Arc<Spans>,
    procedure: u16,
    parent: Context,
    begun: Instant,
}

impl BegunSpan {
    fn new(spans: &Arc<Spans>, procedure: u16) -> Self {
        Self { spans: Arc::clone(spans), procedure, parent: Context::current(), begun: Instant::now() }
    }

    /// The program takes the outcome: a result, or this error.
    pub(crate) fn end(&self, error: Option<&CallError>) {
        self.spans.add_begun(&self.parent, self.procedure, self.begun.elapsed(), error);
    }
}
