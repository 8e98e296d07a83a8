//! Begun calls as spans of OpenTelemetry; nothing without the cargo feature `opentelemetry`.
//!
//! The span of a begun call begins with the call, as a child of the span that is current then, and ends when the program takes the
//! outcome by the call's handle: no other thread runs the program's exporter.

#[cfg(feature = "opentelemetry")]
use crate::account::spans::Spans;
use crate::error::CallError;
#[cfg(feature = "opentelemetry")]
use opentelemetry::Context;
#[cfg(feature = "opentelemetry")]
use std::sync::Arc;
#[cfg(feature = "opentelemetry")]
use std::time::Instant;

/// Makes spans of the begun calls of a binding, if its options ask for them.
#[derive(Clone, Default)]
pub(crate) struct BegunSpans(#[cfg(feature = "opentelemetry")] Option<Arc<Spans>>);

impl BegunSpans {
    #[cfg(feature = "opentelemetry")]
    pub(crate) fn new(spans: Option<Arc<Spans>>) -> Self {
        Self(spans)
    }

    /// A call that begins now.
    #[inline]
    pub(crate) fn begin(&self, procedure: u16) -> Option<BegunSpan> {
        #[cfg(feature = "opentelemetry")]
        return self.0.as_ref().map(|spans| BegunSpan::new(spans, procedure));
        #[cfg(not(feature = "opentelemetry"))]
        {
            let _ = procedure;
            None
        }
    }
}

/// A begun call that may become a span.
#[cfg(feature = "opentelemetry")]
pub(crate) struct BegunSpan {
    spans: Arc<Spans>,
    procedure: u16,
    parent: Context,
    begun: Instant,
}

#[cfg(feature = "opentelemetry")]
impl BegunSpan {
    fn new(spans: &Arc<Spans>, procedure: u16) -> Self {
        Self { spans: Arc::clone(spans), procedure, parent: Context::current(), begun: Instant::now() }
    }

    /// The program takes the outcome: a result, or this error.
    pub(crate) fn end(&self, error: Option<&CallError>) {
        self.spans.add_begun(&self.parent, self.procedure, self.begun.elapsed(), error);
    }
}

/// There is none without the feature.
#[cfg(not(feature = "opentelemetry"))]
pub(crate) enum BegunSpan {}

#[cfg(not(feature = "opentelemetry"))]
impl BegunSpan {
    pub(crate) fn end(&self, _: Option<&CallError>) {
        match *self {}
    }
}
