//! The identity of a span, as W3C Trace Context defines it.

use std::fmt;
use std::str::FromStr;
use stoop_wire::metadata::{BlockError, BlockWriter, Key, Pair, TRACEPARENT_LEN};

/// The identity of a span of a trace: the `traceparent` of W3C Trace Context, whose text it reads and shows.
///
/// ```
/// use stoop::TraceParent;
///
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: TraceParent = text.parse().unwrap();
/// assert!(parent.is_sampled());
/// assert_eq!(parent.to_string(), text);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// The trace.
    pub trace: [u8; 16],
    /// The span.
    pub span: [u8; 8],
    /// The lowest bit: the trace is recorded.
    pub flags: u8,
}

/// The span in which the program makes a call.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "opentelemetry"),
    allow(dead_code, reason = "only spans of OpenTelemetry are known")
)]
pub(crate) struct CurrentSpan {
    pub(crate) parent: TraceParent,
    /// The `tracestate`; empty if there is none.
    pub(crate) state: String,
}

impl CurrentSpan {
    /// Adds its pairs to a block. A state that cannot travel stays behind.
    ///
    /// # Errors
    /// There is no room for them.
    pub(crate) fn add_to(&self, block: &mut BlockWriter<'_>) -> Result<(), BlockError> {
        block.add(&Pair { key: Key::Traceparent, goes_on: true, value: &self.parent.to_bytes() })?;
        if !self.state.is_empty() {
            let _ = block.add(&Pair { key: Key::Tracestate, goes_on: true, value: self.state.as_bytes() });
        }
        Ok(())
    }
}

/// A text is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTraceParent;

impl fmt::Display for NoTraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text has not the form of a `traceparent`, as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 has")
    }
}

impl std::error::Error for NoTraceParent {}

impl TraceParent {
    /// Whether the trace is recorded.
    pub fn is_sampled(self) -> bool {
        self.flags & 1 != 0
    }

    pub(crate) fn to_bytes(self) -> [u8; TRACEPARENT_LEN] {
        let mut bytes = [0; TRACEPARENT_LEN];
        bytes[1..17].copy_from_slice(&self.trace);
        bytes[17..25].copy_from_slice(&self.span);
        bytes[25] = self.flags;
        bytes
    }

    /// `None`: it names no trace or no span.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; TRACEPARENT_LEN] = bytes.try_into().ok()?;
        let trace = bytes[1..17].try_into().expect("sixteen bytes");
        let span = bytes[17..25].try_into().expect("eight bytes");
        (trace != [0; 16] && span != [0; 8]).then_some(Self { trace, span, flags: bytes[25] })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-{:02x}", self.flags)
    }
}

impl FromStr for TraceParent {
    type Err = NoTraceParent;

    fn from_str(text: &str) -> Result<Self, NoTraceParent> {
        let bytes: &[u8; 55] =
            text.as_bytes().get(..55).and_then(|bytes| bytes.try_into().ok()).ok_or(NoTraceParent)?;
        let is_lower_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_well_formed = bytes.iter().enumerate().all(|(at, byte)| match at {
            2 | 35 | 52 => *byte == b'-',
            _ => is_lower_hex(byte),
        });
        // A later version may have more behind these fields.
        let is_whole = text.len() == 55 || &bytes[..2] != b"00" && text.as_bytes()[55] == b'-';
        if !is_well_formed || !is_whole || &bytes[..2] == b"ff" {
            return Err(NoTraceParent);
        }
        let number =
            |from: usize, to: usize| u128::from_str_radix(&text[from..to], 16).map_err(|_| NoTraceParent);
        let (trace, span, flags) = (number(3, 35)?, number(36, 52)? as u64, number(53, 55)? as u8);
        if trace == 0 || span == 0 {
            return Err(NoTraceParent);
        }
        Ok(Self { trace: trace.to_be_bytes(), span: span.to_be_bytes(), flags })
    }
}
