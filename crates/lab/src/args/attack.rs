//! The attacks of `bench --greedy`.

use crate::args::Transport;
use clap::ValueEnum;

/// What the attacker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Attack {
    /// Connections on which nothing is ever asked.
    Connections,
    /// Short calls, as many at a time as go.
    Calls,
    /// Workers: calls of half a second.
    Workers,
    /// Memory for arguments: long calls of half a second.
    Arguments,
    /// Long calls of which a part has arrived, and the rest never comes.
    HalfCalls,
    /// Long results that the caller never reads.
    Results,
    /// The memory that it shares with the server, filled and in use all the time.
    SharedMemory,
    /// Binds of which none is confirmed.
    HalfBinds,
    /// Long calls that are announced, and of which nothing more comes.
    Announced,
    /// Cancels of calls that were never made, on every fourth lane.
    Cancels,
    /// Short calls on all lanes, one each, so that the server retains the results.
    Retained,
    /// As many bindings as it gets, and it asks for more all the time. Last: over UDP and Ethernet a server learns only by silence
    /// that the attacker's process has been killed.
    Bindings,
}

impl Attack {
    /// What it is called in the table.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Bindings => "all bindings",
            Self::Connections => "silent connections",
            Self::Calls => "short calls",
            Self::Workers => "calls of 0.5 s",
            Self::Arguments => "8 MiB calls of 0.5 s",
            Self::HalfCalls => "calls that stop half-way",
            Self::Results => "results that are not read",
            Self::SharedMemory => "shared memory, filled",
            Self::HalfBinds => "unconfirmed binds",
            Self::Announced => "announced calls",
            Self::Cancels => "cancels on many lanes",
            Self::Retained => "retained short results",
        }
    }

    /// Whether a transport has what it takes.
    pub(crate) fn is_possible(self, transport: Transport) -> bool {
        let has_connections = matches!(transport, Transport::Tcp | Transport::Unix | Transport::Shm);
        match self {
            Self::Connections => has_connections,
            Self::SharedMemory => matches!(transport, Transport::Shm),
            Self::HalfBinds | Self::Announced | Self::Cancels | Self::Retained => !has_connections,
            _ => true,
        }
    }

    /// Whether the attacker's process is stopped in the midst of it: it says nothing more.
    pub(crate) fn stops(self) -> bool {
        matches!(self, Self::HalfCalls | Self::Results)
    }
}
