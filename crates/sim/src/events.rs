//! The planned events, earliest first; events of one moment in the order in which they were planned.

use crate::clock::SERVERS;
use crate::{Address, CallId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use stoop_exchange::Instant;
use stoop_wire::Header;

/// Counts the starts of a process: what was planned for an earlier life does not happen in a later one.
pub(crate) type Life = u32;

/// An address of a server, where there are two: 0 or 1.
pub(crate) type Place = usize;

/// Names a calling thread: which caller, which of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadId {
    pub(crate) caller: usize,
    pub(crate) thread: usize,
}

#[derive(Debug)]
pub(crate) enum Event {
    /// A packet reaches the server's machine.
    ToServer {
        from: Address,
        to: Place,
        packet: Vec<u8>,
    },
    /// A packet reaches a caller's machine.
    ToCaller {
        to: Address,
        packet: Vec<u8>,
    },
    /// The server's process takes a packet from its socket, to which it came at that time.
    ServerTakes {
        life: Life,
        came: Instant,
        from: Address,
        packet: Vec<u8>,
    },
    /// A thread takes a packet from its socket.
    ThreadTakes {
        at: ThreadId,
        life: Life,
        packet: Vec<u8>,
    },
    /// An ICMP message that the server's port is closed reaches a caller's machine.
    PortClosed {
        to: Address,
        from: Place,
    },
    /// A thread goes on: begins its next call.
    ThreadWakes(ThreadId, Life),
    /// A call's deadline passes while its thread waits for a binding, or until the call may leave.
    WaitEnds(ThreadId, Life),
    /// A call that was refused for overload is sent again.
    ComesAgain(ThreadId, Life, CallId),
    LaneTimer(ThreadId, Life),
    /// A thread has taken all that had arrived.
    ThreadDrained(ThreadId, Life),
    /// A program no longer waits for its call.
    CallCancelled(ThreadId, Life, CallId),
    BinderTimer {
        caller: usize,
        life: Life,
    },
    ServerTimer(Life),
    /// The server has taken all that had arrived.
    ServerDrained(Life),
    /// The procedure of this job returns.
    JobReturns {
        life: Life,
        job: u64,
    },
    /// The answer of an open call is given, or lost.
    ReplyGiven {
        life: Life,
        job: u64,
        is_lost: bool,
    },
    /// The deadline of an open call has come.
    OpenExpires {
        life: Life,
        job: u64,
    },
    ServerCrashes(Life),
    ServerShutsDown(Life),
    /// A server that has shut down has waited long enough for late packets.
    ServerLingered(Life),
    ServerStarts(Place),
    CallerCrashes {
        caller: usize,
        life: Life,
    },
    CallerStarts {
        caller: usize,
    },
    CallerMoves {
        caller: usize,
    },
    /// A machine is saved, or falls asleep, for a while.
    MachineStops {
        machine: usize,
    },
    /// The server's address leads to another server from now on, and the first one lives on.
    AddressWanders,
}

impl Event {
    /// The machine of the process to which it happens; none for what the network does. All callers are on the server's
    /// machine, or each has its own.
    pub(crate) fn machine(&self, one_machine: bool) -> Option<usize> {
        let callers = |caller: usize| if one_machine { SERVERS } else { 1 + caller };
        match self {
            Self::ServerTakes { .. }
            | Self::ServerTimer(_)
            | Self::ServerDrained(_)
            | Self::JobReturns { .. }
            | Self::ReplyGiven { .. }
            | Self::OpenExpires { .. }
            | Self::ServerCrashes(_)
            | Self::ServerShutsDown(_)
            | Self::ServerLingered(_)
            | Self::ServerStarts(_) => Some(SERVERS),
            Self::ThreadTakes { at, .. }
            | Self::ThreadWakes(at, _)
            | Self::WaitEnds(at, _)
            | Self::ComesAgain(at, ..)
            | Self::LaneTimer(at, _)
            | Self::ThreadDrained(at, _)
            | Self::CallCancelled(at, ..) => Some(callers(at.caller)),
            Self::BinderTimer { caller, .. }
            | Self::CallerCrashes { caller, .. }
            | Self::CallerStarts { caller } => Some(callers(*caller)),
            Self::ToServer { .. }
            | Self::ToCaller { .. }
            | Self::PortClosed { .. }
            | Self::CallerMoves { .. }
            | Self::MachineStops { .. }
            | Self::AddressWanders => None,
        }
    }

    /// The start of a server to which it happens, if it happens to one.
    pub(crate) fn server_life(&self) -> Option<Life> {
        match self {
            Self::ServerTakes { life, .. }
            | Self::JobReturns { life, .. }
            | Self::ReplyGiven { life, .. }
            | Self::OpenExpires { life, .. } => Some(*life),
            Self::ServerTimer(life)
            | Self::ServerDrained(life)
            | Self::ServerCrashes(life)
            | Self::ServerShutsDown(life)
            | Self::ServerLingered(life) => Some(*life),
            _ => None,
        }
    }

    /// The place of the server to which it happens, if it happens to one that may be down.
    pub(crate) fn place(&self) -> Option<Place> {
        match self {
            Self::ToServer { to, .. } | Self::ServerStarts(to) => Some(*to),
            _ => None,
        }
    }

    /// It follows at once what arrives: nothing happens in between that could not as well happen after it.
    pub(crate) fn is_drained(&self) -> bool {
        matches!(self, Self::ThreadDrained(..) | Self::ServerDrained(_))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packet = match self {
            Self::ToServer { from, packet, .. } => {
                write!(f, "to server from {}:{}: ", from.host, from.port)?;
                packet
            }
            Self::ToCaller { to, packet } => {
                write!(f, "to caller at {}:{}: ", to.host, to.port)?;
                packet
            }
            Self::ServerTakes { from, packet, .. } => {
                write!(f, "server takes from {}:{}: ", from.host, from.port)?;
                packet
            }
            Self::ThreadTakes { at, packet, .. } => {
                write!(f, "thread {} of caller {} takes: ", at.thread, at.caller)?;
                packet
            }
            other => return write!(f, "{other:?}"),
        };
        match Header::parse(packet) {
            Ok((header, _)) => write!(
                f,
                "{:?} {:?} lane {} number {} bytes {}.. of {} time {}",
                header.kind,
                header.binding,
                header.lane.0,
                header.number.0,
                header.offset,
                header.message_len,
                header.time
            ),
            Err(error) => write!(f, "{error}"),
        }
    }
}

#[derive(Debug)]
struct Planned {
    at: Instant,
    order: u64,
    event: Event,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Planned {}
impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Planned {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<Planned>>,
    planned: u64,
}

impl Events {
    /// Plans `event`; never is not planned.
    pub(crate) fn plan(&mut self, at: Instant, event: Event) {
        if at != Instant::NEVER {
            self.planned += 1;
            self.heap.push(Reverse(Planned { at, order: self.planned, event }));
        }
    }

    pub(crate) fn next(&mut self) -> Option<(Instant, Event)> {
        self.heap.pop().map(|Reverse(planned)| (planned.at, planned.event))
    }

    /// Gives what is planned another time.
    pub(crate) fn postpone(&mut self, later: impl Fn(&Event, Instant) -> Instant) {
        let mut planned = std::mem::take(&mut self.heap).into_vec();
        for Reverse(planned) in &mut planned {
            planned.at = later(&planned.event, planned.at);
        }
        self.heap = planned.into();
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(planned)| planned.at)
    }
}
