//! Bounds on what the callers of a server can take.

use crate::options::{Sealed, Setting, TransportOptions};
use std::time::Duration;
pub use stoop_onc::reply_cache::ReplyCacheLimits;

/// Bounds on the connections of each `onc+tcp:` and `onc+unix:` address of a server, for [`Server::with`](crate::Server::with).
///
/// Smaller values of [`Server::max_message`](crate::Server::max_message) and [`Limits::bindings`](crate::Limits::bindings) hold, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at the same time. For one more, the one that has been unused for longest is closed.
    pub connections_max: usize,
    /// Connections of one IP address; under TLS, of one caller with a name, wherever it is. Others are closed at once.
    pub per_peer_max: usize,
    /// Bytes of the longest call. Memory is taken for bytes that have arrived only.
    pub record_max: usize,
    /// Longest time from the first byte of a call to its last, and without progress of a caller that does not read its replies.
    pub record_time: Duration,
    /// A connection without a call for so long is closed. Clients connect again.
    pub idle_time: Duration,
}

impl Default for ConnectionLimits {
    /// 4096 connections, 2048 of one address; calls of 16 MiB within 60 seconds; ten minutes without a call.
    fn default() -> Self {
        Self {
            connections_max: 4096,
            per_peer_max: 2048,
            record_max: 16 << 20,
            record_time: Duration::from_secs(60),
            idle_time: Duration::from_secs(600),
        }
    }
}

impl Sealed for ReplyCacheLimits {
    fn settings(&self) -> Vec<Setting> {
        vec![Setting { name: "ReplyCacheLimits", at_servers: &["onc+udp"], at_clients: &[] }]
    }
}
impl TransportOptions for ReplyCacheLimits {}
impl Sealed for ConnectionLimits {
    fn settings(&self) -> Vec<Setting> {
        vec![Setting { name: "ConnectionLimits", at_servers: &["onc+tcp", "onc+unix"], at_clients: &[] }]
    }
}
impl TransportOptions for ConnectionLimits {}
