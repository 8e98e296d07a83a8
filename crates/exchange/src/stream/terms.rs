//! The terms of a receiver of a byte stream: its bounds, its memory, and the violations that end the stream.

use core::fmt;
use stoop_wire::{HEADER_LEN, HeaderError, Kind, LaneId, Versions};

/// Bounds on what a peer may send.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The kind of message that may be longer than a packet: calls at a server, results at a caller.
    pub long: Kind,
    /// Bytes of the longest message.
    pub message_max: usize,
    /// Bytes that all incomplete messages together may announce.
    pub announced_max: usize,
    /// Lanes are numbered below this.
    pub lanes: u16,
    /// Whether calls may have pipes.
    pub pipes: bool,
}

/// Counts the memory of the messages that arrive on a stream in fragments, and says when there is no more.
///
/// A message that is [given out](crate::stream::Message::take) and does not fit in a [buffer](crate::stream::Reassembler::BUFFER_LEN) stays counted: its receiver
/// gives back as many bytes as the packet has, which is the message with its header and perhaps space behind it.
pub trait Account: fmt::Debug + Send {
    /// Takes so many bytes. `false`: there are not so many, and the message is not accepted.
    fn take(&mut self, bytes: usize) -> bool;

    /// Gives so many bytes back.
    fn give_back(&mut self, bytes: usize);

    /// Whether memory of so many bytes may be kept for the next message. If so, it is counted until
    /// [`uncount_spare`](Self::uncount_spare).
    fn keep_spare(&mut self, bytes: usize) -> bool;

    /// Memory that was kept is used or freed.
    fn uncount_spare(&mut self, bytes: usize);
}

/// Memory without a bound besides [`Bounds`].
#[derive(Debug)]
pub(super) struct Unbounded;

impl Account for Unbounded {
    fn take(&mut self, _: usize) -> bool {
        true
    }

    fn give_back(&mut self, _: usize) {}

    fn keep_spare(&mut self, _: usize) -> bool {
        true
    }

    fn uncount_spare(&mut self, _: usize) {}
}

/// Why a stream cannot continue: the peer broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The peer speaks another version of the protocol. `answer` tells it the versions spoken here.
    Version {
        /// To be sent before the stream is closed.
        answer: [u8; HEADER_LEN],
    },
    /// The peer says that it speaks only these other versions of the protocol.
    OtherVersion(Versions),
    /// The bytes at the place of a header are none.
    Header(HeaderError),
    /// The lane's number is too high.
    Lane(LaneId),
    /// A message of a kind that cannot be so long.
    Length(Kind),
    /// A fragment that does not continue its message: it leaves a gap, overlaps, or announces something else.
    Fragment(LaneId),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { answer } => {
                write!(f, "the peer speaks another version of the protocol than {}", answer[1])
            }
            Self::OtherVersion(theirs) => write!(f, "the peer speaks version {theirs} of the protocol"),
            Self::Header(why) => why.fmt(f),
            Self::Lane(LaneId(lane)) => write!(f, "lane {lane} is above the highest lane allowed"),
            Self::Length(kind) => write!(f, "a message of kind {kind:?} cannot be so long"),
            Self::Fragment(LaneId(lane)) => {
                write!(f, "a fragment on lane {lane} does not continue its message")
            }
        }
    }
}

impl core::error::Error for Violation {}
