//! The interpreter of a lane's steps for one call: it sends the packets that they ask for, and returns the rest to the call's driver.

use super::{Due, Heard, Lane, Lost, Part};
use crate::bulk::Path;
use crate::outcome::Unbound;
use crate::{Instant, RoundTrip};
use core::ops::DerefMut;
use stoop_wire::{FailureCode, Receipt, Refused};

/// The way from a caller to its server.
pub trait Way {
    /// Sends one packet. Returns whether it has left; one that has not is treated like a lost one.
    fn send(&mut self, packet: &[u8]) -> bool;

    /// Hint: nothing was heard for longer than usual, and something is sent again or asked.
    fn follow_route(&mut self) {}

    /// The state that all large calls of the binding share. `round_trip`: what is known if there is none yet.
    fn path(&mut self, round_trip: RoundTrip) -> impl DerefMut<Target = Path>;

    /// The same, if a large call has been made.
    fn known_path(&mut self) -> Option<impl DerefMut<Target = Path>>;
}

/// The answer of a server with which a call ends without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoResult {
    /// [`Heard::Refused`].
    Refused(Refused),
    /// [`Heard::Unbound`].
    Unbound(Unbound),
    /// [`Heard::Failed`].
    Failed(FailureCode),
}

/// One call, for a step of it.
#[derive(Debug)]
pub struct Steps<'a, W> {
    /// Its lane.
    pub lane: &'a mut Lane,
    /// The way to its server.
    pub way: W,
    /// The call packet; of a large call at least the room of a header.
    pub packet: &'a mut [u8],
    /// The call has many packets.
    pub is_large: bool,
    /// Bytes of a result that may be on their way to the caller.
    pub window: u32,
}

impl<W: Way> Steps<'_, W> {
    /// Carries out `heard`, the lane's judgement of `packet`, unless that is the whole result. Returns the part of the result that the
    /// packet brought, if any.
    ///
    /// # Errors
    /// The call has ended without a result.
    #[cold]
    pub fn hear(&mut self, now: Instant, heard: Heard, packet: &[u8]) -> Result<Option<Part>, NoResult> {
        match heard {
            Heard::Part(part) => return Ok(Some(part)),
            Heard::Receipt => {
                let mut path = self.way.path(self.lane.path());
                self.lane.take_receipt(now, packet, &mut path);
            }
            Heard::Pipe => {
                let mut path = self.way.path(self.lane.path());
                self.lane.take_pipe_packet(now, packet, &mut path);
            }
            // If this is lost or cannot be sent, the server asks again when the call is sent again.
            Heard::Prove(proof) => {
                if self.way.send(&proof) && !self.is_large {
                    self.lane.stamp_again(now, self.packet);
                    self.way.send(self.packet);
                }
            }
            // The server has all of the call.
            Heard::Progress if self.is_large && self.lane.last_was_acknowledged() => self.settle(),
            Heard::Result { .. } | Heard::Progress | Heard::Ignored => {}
            Heard::Unbound(refusal) => return Err(NoResult::Unbound(refusal)),
            Heard::Refused(refused) => return Err(NoResult::Refused(refused)),
            Heard::Failed(code) => return Err(NoResult::Failed(code)),
        }
        Ok(None)
    }

    /// Handles the timeouts that are due. Returns why the call is lost, if it is.
    #[cold]
    pub fn on_timeout(&mut self, now: Instant) -> Option<Lost> {
        let due = self.lane.handle_timeout(now, self.packet);
        self.carry_out(now, due)
    }

    /// Handles the system's report that the server's port is closed. Returns why the call is lost, if it is.
    #[cold]
    pub fn on_unreachable(&mut self, now: Instant) -> Option<Lost> {
        let due = self.lane.handle_unreachable(now);
        self.carry_out(now, due)
    }

    /// Carries out `due`. Of a large call the packets of [`Lane::next_run`] are the driver's. Returns why the call is lost, if it is.
    #[cold]
    pub fn carry_out(&mut self, now: Instant, due: Due) -> Option<Lost> {
        if !matches!(due, Due::Nothing | Due::Abandon(_)) {
            self.way.follow_route();
        }
        match due {
            Due::Nothing => {}
            Due::Retransmit => drop(self.way.send(self.packet)),
            Due::Probe(packet) | Due::Cancel(packet) => drop(self.way.send(&packet)),
            Due::Resume => {
                let mut path = self.way.path(self.lane.path());
                self.lane.resume(now, &mut path);
            }
            Due::Pipes => {
                let mut path = self.way.path(self.lane.path());
                self.lane.on_pipe_timeout(now, &mut path);
            }
            Due::Receipt => self.send_receipt(now),
            Due::Abandon(lost) => return Some(lost),
        }
        None
    }

    /// Tells the server which parts of the result, and which data, have arrived. The lane repeats a receipt that is lost.
    pub fn send_receipt(&mut self, now: Instant) {
        let mut packet = [0; Receipt::MAX_PACKET];
        let len = self.lane.pipe_receipt(now, &mut packet);
        if len > 0 {
            self.way.send(&packet[..len]);
        }
        let len = self.lane.receipt(now, self.window, &mut packet);
        if len > 0 {
            self.way.send(&packet[..len]);
        }
    }

    /// Returns to the window the bytes of a large call that were on their way.
    pub fn settle(&mut self) {
        match self.way.known_path() {
            Some(mut path) => self.lane.settle(&mut path),
            None => self.lane.settle_unsent(),
        }
    }
}
