//! A refusal: why a procedure did not run, and when its caller may call again.

use crate::{BindingId, CallNumber, Header, Kind, LaneId, RefusalCode};
use core::time::Duration;

/// Why a server does not run a call, and when its caller may call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason.
    pub code: RefusalCode,
    /// When the caller may call again.
    pub retry_after: RetryAfter,
}

/// Time after which a refused call may be sent again: whole milliseconds, at most 65,535. The refusal of an unknown
/// binding does not carry it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryAfter(u16);

impl RetryAfter {
    /// The server does not say when.
    pub const NOT_SAID: Self = Self(0);

    /// In the refusals of a server that is overloaded and has no estimate of its own.
    pub const OVERLOADED: Self = Self(20);

    /// The time, rounded up to whole milliseconds, at least one, at most 65,535.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(u16::try_from(nanos.div_ceil(1_000_000).max(1)).unwrap_or(u16::MAX))
    }

    /// The number on the wire.
    pub fn from_millis(millis: u16) -> Self {
        Self(millis)
    }

    /// As [`from_millis`](Self::from_millis).
    pub fn millis(self) -> u16 {
        self.0
    }

    /// `None` if the server does not say.
    pub fn duration(self) -> Option<Duration> {
        (self != Self::NOT_SAID).then(|| Duration::from_millis(self.0.into()))
    }
}

impl From<RefusalCode> for Refused {
    /// A refusal whose time is the usual one for its reason.
    fn from(code: RefusalCode) -> Self {
        let retry_after = match code {
            RefusalCode::Overloaded => RetryAfter::OVERLOADED,
            _ => RetryAfter::NOT_SAID,
        };
        Self { code, retry_after }
    }
}

impl Header {
    /// The refusal, without a text, of the call with this header.
    #[must_use]
    pub fn refuse(&self, refused: impl Into<Refused>) -> Self {
        let Refused { code, retry_after } = refused.into();
        let refusal = Self::bare(Kind::Refusal, self.binding, self.lane, self.number);
        Self { time: code.code(), procedure: retry_after.millis(), ..refusal }
    }

    /// The notice of a server on a byte stream or over shared memory before it refuses calls because it shuts down: the refusal of call 0
    /// of lane 0, which no caller makes.
    #[must_use]
    pub fn closing_notice(binding: BindingId) -> Self {
        Self::bare(Kind::Call, binding, LaneId(0), CallNumber::ZERO).refuse(RefusalCode::ShuttingDown)
    }

    /// Whether it is such a notice, on whichever binding.
    pub fn is_closing_notice(&self) -> bool {
        *self == Self::closing_notice(self.binding)
    }

    /// Whether a packet refuses a call of the binding, or the next one of a lane, because the server shuts down.
    pub fn tells_shutdown(packet: &[u8], binding: BindingId) -> bool {
        let is_it = |header: &Self| header.kind == Kind::Refusal && header.binding == binding;
        let header = Self::parse(packet).ok().map(|(header, _)| header).filter(is_it);
        header.is_some_and(|header| header.refused().code == RefusalCode::ShuttingDown)
    }

    /// The contents of a refusal that has this header.
    pub fn refused(&self) -> Refused {
        let code = RefusalCode::from_code(self.time);
        // There the two bytes are the time for which the server has been up.
        let retry_after = match code {
            RefusalCode::UnknownBinding => RetryAfter::NOT_SAID,
            _ => RetryAfter(self.procedure),
        };
        Refused { code, retry_after }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BindingId, CallNumber, LaneId};

    fn call() -> Header {
        let bare = Header::bare(Kind::Call, BindingId(7), LaneId(5), CallNumber(3));
        Header { procedure: 9, message_len: 8, time: 100, ..bare }
    }

    #[test]
    fn a_refusal_carries_its_reason_and_a_time() {
        let refused = Refused { code: RefusalCode::Overloaded, retry_after: RetryAfter(300) };
        let bytes = call().refuse(refused).to_bytes();
        let (parsed, payload) = Header::parse(&bytes).unwrap();
        assert_eq!((parsed.kind, parsed.refused(), payload.len()), (Kind::Refusal, refused, 0));
        assert_eq!((parsed.lane, parsed.number), (LaneId(5), CallNumber(3)));
        assert_eq!(refused.retry_after.duration(), Some(Duration::from_millis(300)));
    }

    #[test]
    fn the_up_time_in_the_refusal_of_an_unknown_binding_is_no_time_to_call_again() {
        let refused = call().unknown_binding(1, 77).refused();
        assert_eq!(refused, Refused { code: RefusalCode::UnknownBinding, retry_after: RetryAfter::NOT_SAID });
        assert_eq!(refused.retry_after.duration(), None);
    }

    #[test]
    fn times_are_rounded_up_and_bounded() {
        for (nanos, millis) in [(0, 1), (1, 1), (1_000_000, 1), (1_000_001, 2), (u64::MAX, 65_535)] {
            assert_eq!(RetryAfter::from_nanos(nanos).millis(), millis);
        }
    }
}
