//! A server's answers to a call, and their meaning for the caller.

use crate::calling::call_table::{Outcome, Payload};
use crate::calling::short_result::Short;
use crate::error::{CallError, Failure, FailureCode, Refusal, RefusalCode};
use stoop_exchange::stream::{Message, StreamEvent};
use stoop_wire::{HEADER_LEN, Header, Kind};

/// An answer without its packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// A message with this header.
    Message(Header),
    /// A result of so many bytes, longer than this caller takes.
    TooLong(usize),
    /// A result of so many bytes, for which this process has no memory.
    NoMemory(usize),
}

/// An answer that has arrived.
pub(crate) struct Arrived<'a> {
    pub(crate) header: Header,
    pub(crate) answer: Answer,
    /// Its packet, unless it was not taken.
    pub(crate) message: Option<Message<'a>>,
}

/// Bytes of the longest result that is copied out of its packet.
const COPIED_MAX: usize = 4096;

impl<'a> From<StreamEvent<'a>> for Arrived<'a> {
    #[inline]
    fn from(arrival: StreamEvent<'a>) -> Self {
        match arrival {
            StreamEvent::Message(message) => {
                let header = message.header;
                Self { header, answer: Answer::Message(header), message: Some(message) }
            }
            StreamEvent::Data(_) => unreachable!("data is no answer"),
            StreamEvent::NotTaken(header, why) => {
                Self { header, answer: Answer::not_taken(&header, why), message: None }
            }
        }
    }
}

impl Arrived<'_> {
    /// How it ends a begun call. A long result stays in its packet; a short one takes no more memory than it needs.
    pub(crate) fn into_outcome(self) -> Outcome {
        let Some(message) = self.message else { return Err(self.answer.error(&[])) };
        let len = message.payload().len();
        if self.header.kind != Kind::Result {
            return Err(self.answer.error(message.payload()));
        }
        if let Some(short) = Short::of(message.payload()) {
            return Ok(Payload::Short(short));
        }
        if len <= COPIED_MAX {
            return Ok(Payload::new(message.payload().to_vec(), 0, len));
        }
        let mut packet = Vec::new();
        message.take(&mut packet);
        Ok(Payload::new(packet, HEADER_LEN, len))
    }
}

impl Answer {
    #[cold]
    pub(crate) fn not_taken(header: &Header, why: RefusalCode) -> Self {
        let len = header.message_len as usize;
        match why {
            RefusalCode::Overloaded => Self::NoMemory(len),
            _ => Self::TooLong(len),
        }
    }

    /// The error of a call that gets this answer, which is no result; `detail` is its payload.
    #[cold]
    pub(crate) fn error(self, detail: &[u8]) -> CallError {
        let detail = || match detail {
            [] => String::new(),
            text => String::from_utf8_lossy(text).into_owned(),
        };
        let too_large = |detail| CallError::failed(Failure { code: FailureCode::ResultTooLarge, detail });
        match self {
            Self::Message(header) if header.kind == Kind::Refusal => {
                CallError::refused(Refusal::new(header.refused(), detail()))
            }
            Self::Message(header) => {
                CallError::failed(Failure { code: FailureCode::from_code(header.time), detail: detail() })
            }
            Self::TooLong(len) => {
                too_large(format!("it has {len} bytes, more than the binding's BindOptions::max_message"))
            }
            Self::NoMemory(len) => too_large(crate::message_buffer::no_memory_for_result(len)),
        }
    }
}
