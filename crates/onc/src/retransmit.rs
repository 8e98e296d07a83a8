//! When a call is sent again.

use core::time::Duration;
use stoop_exchange::RoundTrip;

/// When a call is sent again that has no reply yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retransmission {
    /// Never: the transport loses nothing, as TCP (RFC 5531 §5).
    Never,
    /// Always after the same time, as libtirpc does over UDP.
    Every(Duration),
    /// After a time from the measured round trips of the path, doubled with each transmission (RFC 6298). A round trip
    /// includes the time that the procedure takes, which a reply does not tell.
    Measured,
}

impl Retransmission {
    /// The intervals of libtirpc's `clnt_create` over UDP: 15 s, with 25 s for the whole call.
    pub const LIBTIRPC: Self = Self::Every(Duration::from_secs(15));

    /// The usual intervals of libtirpc's `rpc_call` and `clntudp_create`: 5 s, with 25 s for the whole call.
    pub const LIBTIRPC_RPC_CALL: Self = Self::Every(Duration::from_secs(5));

    /// How long to wait after the `transmissions`th sending, the first being 1; `None` for ever.
    pub fn wait(self, transmissions: u32, path: &RoundTrip) -> Option<Duration> {
        match self {
            Self::Never => None,
            // Without any wait, a call would be sent again without an end.
            Self::Every(interval) => Some(interval.max(Duration::from_millis(1))),
            Self::Measured => Some(path.timeout_after(transmissions)),
        }
    }
}
