//! Notices of a server that shuts down: they refuse its callers' next calls.

use super::{Peer, Server};
use alloc::vec::Vec;
use stoop_wire::{HEADER_LEN, Header, Kind, RefusalCode};

/// Lanes of one binding whose callers are told. A caller that uses more has most of their packets come to one socket.
const LANES_TOLD: usize = 256;

impl<P: Peer> Server<P> {
    /// Refuses new calls and bindings from now on. Running calls may finish, and their callers are answered.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
    }

    /// After [`shut_down`](Self::shut_down): the refusals of the calls that callers would make next, at most `most`, with the peers
    /// to which they go. There is one for each lane that has been used and on which no call runs.
    ///
    /// No such call begins any more, whether its packet comes here or not: a caller that has its refusal already makes it at another
    /// server, and knows that it has not run here, though this server may have ended by then.
    pub fn closing_notices(&self, most: usize) -> Vec<(P, [u8; HEADER_LEN])> {
        assert!(self.shutting_down, "a server that serves refuses no call before it comes");
        let lanes = self.bindings.iter().flat_map(|(id, binding)| {
            let idle =
                binding.lanes.numbered().filter_map(|(lane, state)| Some((lane, state, state.idle_peer()?)));
            idle.take(LANES_TOLD).map(move |(lane, state, peer)| {
                let next = Header::bare(Kind::Call, id, lane, state.number.next());
                (*peer, next.refuse(RefusalCode::ShuttingDown).to_bytes())
            })
        });
        lanes.take(most).collect()
    }
}
