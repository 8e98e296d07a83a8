//! How long a call was at the server: the word *time* of its result.

use crate::{HEADER_LEN, Header, Kind};

/// The lowest bit of the time: the call has waited for a worker for more than half of it.
const QUEUED: u32 = 1;

/// How a result tells that its call was at the server for `at_server_ns` nanoseconds, and waited there for `queued_ns` of them before its
/// procedure began.
#[inline]
pub fn time_of_result(at_server_ns: u64, queued_ns: u64) -> u32 {
    match u32::try_from(at_server_ns) {
        Ok(ns) if ns | QUEUED != u32::MAX => ns & !QUEUED | u32::from(queued_ns > at_server_ns / 2),
        _ => u32::MAX,
    }
}

/// Whether a call whose result [tells](time_of_result) this time has waited for a worker for more than half of it.
#[inline]
pub fn is_mostly_queued(server_ns: u64) -> bool {
    server_ns & u64::from(QUEUED) != 0
}

impl Header {
    /// How long a call was at the server, in nanoseconds, as this header of the first packet of its result tells it. `None`: it is no such
    /// header, or the time was longer than the field can tell.
    #[inline]
    pub fn server_ns(&self) -> Option<u64> {
        let tells = self.kind == Kind::Result && self.offset == 0 && self.time != u32::MAX;
        tells.then_some(u64::from(self.time))
    }

    /// As [`server_ns`](Self::server_ns), of a packet that was accepted as an answer.
    #[inline]
    pub fn server_ns_of(packet: &[u8]) -> Option<u64> {
        let header = packet.first_chunk::<HEADER_LEN>()?;
        let is_result = header[2] == Kind::Result as u8;
        if is_result { Self::of_kind(Kind::Result, header).server_ns() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use crate::residence::{is_mostly_queued, time_of_result};
    use crate::{BindingId, CallNumber, Header, Kind, LaneId};

    #[test]
    fn a_result_tells_its_time_and_whether_its_call_was_queued() {
        for (at_server_ns, queued_ns, told) in
            [(1_000, 0, 1_000), (1_001, 500, 1_000), (1_000, 501, 1_001), (0, 0, 0)]
        {
            let time = time_of_result(at_server_ns, queued_ns);
            assert_eq!((time, is_mostly_queued(time.into())), (told, queued_ns > at_server_ns / 2));
        }
        for too_long in [u64::from(u32::MAX) - 1, u64::MAX] {
            assert_eq!(time_of_result(too_long, 7), u32::MAX);
        }
    }

    #[test]
    fn only_the_first_packet_of_a_result_tells_the_time_at_the_server() {
        let told = |kind, offset, time| {
            let header =
                Header { offset, time, ..Header::bare(kind, BindingId(1), LaneId(2), CallNumber::ZERO) };
            assert_eq!(header.server_ns(), Header::server_ns_of(&header.to_bytes()));
            header.server_ns()
        };
        assert_eq!(told(Kind::Result, 0, 7), Some(7));
        assert_eq!(told(Kind::Result, 0, u32::MAX), None);
        assert_eq!(told(Kind::Result, 1440, 7), None);
        assert_eq!(told(Kind::Refusal, 0, 7), None);
        assert_eq!(Header::server_ns_of(&[0; 31]), None);
    }
}
