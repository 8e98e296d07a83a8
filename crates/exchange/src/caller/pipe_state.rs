//! State of the pipes of a call, at its caller.

use crate::Instant;
use crate::bulk::Path;
use crate::pipe::{News, Receiving, Sending};
use alloc::boxed::Box;
use stoop_wire::{Header, Kind, PipeReceipt, flags};

/// The pipes with which a call begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenPipes {
    /// There is a pipe to the server, which takes so many bytes before its first receipt.
    pub to_server: Option<u32>,
    /// There is a pipe from the server: bytes for which there is memory, and the most that this may become.
    pub from_server: Option<(u32, u32)>,
}

/// State of a call's pipes.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) to: Option<Box<Sending>>,
    pub(super) from: Option<Box<Receiving>>,
    /// The call's flags.
    pub(super) flags: u8,
    /// When the pipes' own timers are due, and when that of the call.
    pub(super) next: Instant,
    pub(super) of_call: Instant,
    /// The result is here, and bytes that were sent before it are not.
    pub(super) has_result: bool,
    pub(super) news: News,
}

impl Pipes {
    pub(super) fn new(pipes: OpenPipes) -> Self {
        let flag = |is_there: bool, flag| if is_there { flag } else { 0 };
        Self {
            to: pipes.to_server.map(|limit| Box::new(Sending::new(0, limit.into(), true))),
            from: pipes.from_server.map(|(window, most)| Box::new(Receiving::new(0, window, most))),
            flags: flag(pipes.to_server.is_some(), flags::PIPE_IN)
                | flag(pipes.from_server.is_some(), flags::PIPE_OUT),
            next: Instant::NEVER,
            of_call: Instant::NEVER,
            has_result: false,
            news: News::default(),
        }
    }

    /// Sets the time at which the call's timer and the pipes' are due; `next` is that of the call.
    pub(super) fn hold(&mut self, next: &mut Instant) {
        self.of_call = *next;
        *next = self.next.min(self.of_call);
    }

    /// Notes when the pipes' timers are due.
    pub(super) fn rearm(&mut self, next: Option<&mut Instant>, path: &Path) {
        let of_to = self.to.as_deref().map_or(Instant::NEVER, |to| to.next_timeout(path));
        let of_from = self.from.as_deref().map_or(Instant::NEVER, Receiving::next_timeout);
        self.next = of_to.min(of_from);
        if let Some(next) = next {
            *next = self.next.min(self.of_call);
        }
    }

    pub(super) fn owes_receipt(&self, drained: bool) -> bool {
        self.from.as_deref().is_some_and(|from| from.owes_receipt(drained))
    }

    /// The pipe's bytes in flight no longer count towards the path's window.
    pub(super) fn settle(&mut self, path: &mut Path) {
        if let Some(to) = &mut self.to {
            to.forget(path);
        }
        self.settle_unsent();
    }

    /// As [`settle`](Self::settle), if nothing was sent by it.
    pub(super) fn settle_unsent(&mut self) {
        (self.to, self.next) = (None, Instant::NEVER);
    }

    pub(super) fn is_sending(&self) -> bool {
        self.to.as_deref().is_some_and(|to| !to.is_done())
    }

    /// Whether everything that the server has sent before its result is here, or is not wanted.
    pub(super) fn is_whole(&self) -> bool {
        self.from.as_deref().is_none_or(Receiving::is_settled)
    }
}

/// Whether a packet belongs to a pipe.
pub(super) fn is_of_pipe(header: &Header) -> bool {
    header.kind == Kind::Data || PipeReceipt::of(header).is_some()
}
