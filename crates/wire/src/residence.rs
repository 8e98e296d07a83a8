//! How long a call was at the server: the word *time* of its result.

use crate::{HEADER_LEN, Header, Kind};

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
    use crate::{BindingId, CallNumber, Header, Kind, LaneId};

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
