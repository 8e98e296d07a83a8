//! Spans of OpenTelemetry without the cargo feature `opentelemetry`: there are none.

use crate::account::options::AccountOptions;
use crate::account::slow::{Facts, SlowCall};
use crate::error::CallError;
use crate::interface::Interface;
use crate::later::unserved::Unserved;
use crate::metadata::trace::CurrentSpan;
use std::sync::Arc;

/// Makes spans of calls of one binding. No value exists, so that nothing is compiled of the code that has one.
pub(crate) enum Spans {}

impl Spans {
    pub(crate) fn new(_: &'static Interface, _: &str, _: &AccountOptions) -> Option<Self> {
        None
    }

    pub(crate) fn current(&self) -> Option<CurrentSpan> {
        match *self {}
    }

    #[inline(always)]
    pub(crate) fn add(&self, _: u16, _: &Facts, _: Option<&SlowCall>) {
        match *self {}
    }

    pub(crate) fn add_failed(&self, _: u16, _: u64, _: &CallError) {
        match *self {}
    }
}

/// Makes spans of the procedures of one server.
pub(crate) enum ServedSpans {}

impl ServedSpans {
    pub(crate) fn new(_: &AccountOptions) -> Option<Self> {
        None
    }

    #[inline(always)]
    pub(crate) fn run(
        &self,
        _: &Interface,
        _: u16,
        _: impl FnOnce() -> Result<(), Unserved>,
    ) -> Result<(), Unserved> {
        match *self {}
    }
}

/// Makes spans of the begun calls of a binding.
#[derive(Clone, Default)]
pub(crate) struct BegunSpans(());

impl BegunSpans {
    #[inline]
    pub(crate) fn current_span(&self) -> Option<CurrentSpan> {
        None
    }

    pub(crate) fn new(_: Option<Arc<Spans>>) -> Self {
        Self(())
    }

    #[inline(always)]
    pub(crate) fn begin(&self, _: u16) -> Option<BegunSpan> {
        None
    }
}

/// A begun call that may become a span.
pub(crate) enum BegunSpan {}

impl BegunSpan {
    pub(crate) fn end(&self, _: Option<&CallError>) {
        match *self {}
    }
}
