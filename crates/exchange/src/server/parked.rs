//! Calls that wait for the one before them on their lane to return.

use super::replies::{acknowledgement, refusal};
use super::{Arrival, Next, Peer, Server};
use crate::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;
use stoop_wire::{CallNumber, Header, RefusalCode};

/// A call that came before the one before it had returned.
#[derive(Debug)]
pub(super) struct Parked<P> {
    pub(super) number: CallNumber,
    pub(super) peer: P,
    pub(super) arrived: Instant,
    /// Its packet; of a call of many packets, a header alone.
    pub(super) packet: Box<[u8]>,
    /// A call of many packets, as [`Work::message`](super::Work).
    pub(super) message: Option<Vec<u8>>,
    /// Bytes of its arguments.
    pub(super) message_len: u32,
    /// It will not run, for this reason.
    pub(super) refused: Option<RefusalCode>,
}

impl<P: Peer> Server<P> {
    /// Keeps a call until the one that runs has returned, unless a newer one is kept already.
    pub(super) fn park(&mut self, header: &Header, parked: Parked<P>, reply: &mut Vec<u8>) -> Arrival<P> {
        let binding = self.bindings.get_mut(header.binding).expect("the caller has looked it up");
        let lane = binding.lanes.get_mut(header.lane).expect("the caller has looked it up");
        let (newer, refused) = match &lane.parked {
            Some(waits) => (parked.number.is_after(waits.number), waits.refused),
            None => (true, None),
        };
        if lane.parked.is_none() && self.packets >= self.limits.packets {
            self.counters.dropped += 1;
            self.memory.give_back(parked.message);
            return Arrival::Nothing;
        }
        if !newer {
            self.memory.give_back(parked.message);
            return match refused {
                Some(code) => refusal(header, code, reply),
                None => acknowledgement(header, reply),
            };
        }
        let refused = parked.refused;
        match lane.parked.replace(Box::new(parked)) {
            Some(superseded) => self.memory.give_back(superseded.message),
            None => self.packets += 1,
        }
        match refused {
            Some(code) => refusal(header, code, reply),
            None => acknowledgement(header, reply),
        }
    }

    #[cold]
    pub(super) fn start_parked(&mut self, now: Instant, parked: Parked<P>) -> Next<P> {
        self.packets -= 1;
        let (header, _) = Header::parse(&parked.packet).expect("parsed when it was parked");
        let header = Header { message_len: parked.message_len, ..header };
        if let Some(code) = parked.refused {
            self.forbid(&header, code);
            return Next::Nothing;
        }
        let mut reply = Vec::new();
        let arrival = match parked.message {
            None => {
                self.leave_large(&header);
                self.start(now, parked.arrived, parked.peer, &header, &mut reply)
            }
            Some(message) => {
                self.start_message(now, (parked.arrived, parked.peer, message), &header, &mut reply)
            }
        };
        match arrival {
            Arrival::Run(assignment) => Next::Run(assignment, parked.packet),
            Arrival::Reply => Next::Reply(parked.peer, reply),
            Arrival::Nothing | Arrival::Transmit | Arrival::Cancelled(..) => Next::Nothing,
        }
    }
}
