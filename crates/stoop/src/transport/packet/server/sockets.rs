//! Where a worker looks for datagrams: at the address's own socket or a dedicated one, for one at a time or for many.
//!
//! That datagrams which came together are received together must be asked for, and makes the receipt of a single one
//! slower. It is asked for when calls of one peer have come one after the other on different lanes, or when something
//! has come that is longer than a packet; and no longer when datagrams have come by themselves for a while.

use crate::transport::packet::server::call::DatagramCall;
use crate::transport::packet::server::dedicated::{LOOKS, Reason};
use crate::transport::packet::server::worker::WorkerState;
use crate::transport::packet::server::{DatagramEndpoint, From};
use std::sync::atomic::Ordering;
use stoop_net::udp::{CallerArrival, MAX_SEGMENTS, Patience, Peer, Segments, ServerArrival};

/// Calls of one peer, each on another lane than the one before it, that show that it has many in flight.
const CALLS_ON_OTHER_LANES: u32 = 8;

/// What a look at the sockets brought.
pub(super) enum Seen {
    /// So many bytes, in the worker's packet; by the dedicated socket of so many changes, or 0: by the address's own. The
    /// worker knows both peers.
    Packet(usize, u64),
    /// The same, in the worker's room for many, and of that peer.
    Many(Segments, Peer, u64),
    /// Nothing, or nothing that counts.
    Nothing,
}

impl DatagramEndpoint {
    /// Looks at the socket where something is likely, and now and then at the other.
    #[inline]
    pub(super) fn look(&self, worker: &mut WorkerState, patience: Patience) -> Seen {
        if worker.changes != self.dedication.changes()
            && let Some(last) = self.change_sockets(worker)
        {
            return last;
        }
        if worker.dedicated.is_none() {
            return self.look_at_own(worker, patience);
        }
        worker.looks += 1;
        if worker.looks >= LOOKS {
            worker.looks = 0;
            match self.look_at_own(worker, Patience::DontWait) {
                Seen::Nothing => {}
                seen => {
                    self.note_others(worker, &seen);
                    return seen;
                }
            }
        }
        let Some(dedicated) = &worker.dedicated else { return Seen::Nothing };
        if dedicated.together.load(Ordering::Relaxed) {
            return self.look_at_dedicated_for_many(worker, patience);
        }
        let arrival = match patience {
            Patience::DontWait => dedicated.socket.recv(&mut worker.packet[..]),
            Patience::Block => dedicated.socket.recv_blocking(&mut worker.packet[..]),
        };
        match arrival {
            Ok(CallerArrival::Datagram(0) | CallerArrival::Nothing) => Seen::Nothing,
            Ok(CallerArrival::TooLarge(_)) => self.too_large(),
            Ok(CallerArrival::Datagram(len)) => Seen::Packet(len, worker.changes),
            // The caller has gone.
            Ok(CallerArrival::Refused) | Err(_) => {
                self.dedication.give_up(Reason::Quiet);
                Seen::Nothing
            }
        }
    }

    #[inline]
    fn look_at_own(&self, worker: &mut WorkerState, patience: Patience) -> Seen {
        if self.together.load(Ordering::Relaxed) {
            return self.look_at_own_for_many(worker, patience);
        }
        match self.socket.recv(&mut worker.packet[..], patience) {
            Ok(ServerArrival::Datagram { len, peer }) => {
                worker.own_peer = From(peer);
                Seen::Packet(len, 0)
            }
            Ok(ServerArrival::TooLarge { .. }) => self.too_large(),
            Ok(ServerArrival::Nothing | ServerArrival::WokenUp) | Err(_) => Seen::Nothing,
        }
    }

    fn look_at_own_for_many(&self, worker: &mut WorkerState, mut patience: Patience) -> Seen {
        let ends = worker.bunching.is_over();
        if ends {
            patience = Patience::DontWait;
        }
        match self.socket.recv_segments(worker.batch.room(), patience) {
            Ok(ServerArrival::Datagram { len, peer }) => Seen::Many(len, peer, 0),
            Ok(ServerArrival::TooLarge { .. }) => self.too_large(),
            Ok(ServerArrival::Nothing) if ends => {
                // What comes together in this moment is lost, and sent again.
                self.together.store(self.socket.set_gro(false).is_err(), Ordering::Relaxed);
                worker.bunching.end();
                Seen::Nothing
            }
            Ok(ServerArrival::Nothing | ServerArrival::WokenUp) | Err(_) => Seen::Nothing,
        }
    }

    fn look_at_dedicated_for_many(&self, worker: &mut WorkerState, mut patience: Patience) -> Seen {
        let Some(dedicated) = &worker.dedicated else { return Seen::Nothing };
        let ends = worker.bunching.is_over();
        if ends {
            patience = Patience::DontWait;
        }
        let room = worker.batch.room();
        let arrival = match patience {
            Patience::DontWait => dedicated.socket.recv_segments(room),
            Patience::Block => dedicated.socket.recv_segments_blocking(room),
        };
        match arrival {
            Ok(CallerArrival::Nothing) if ends => {
                let off = dedicated.socket.set_gro(false);
                dedicated.together.store(off.is_err(), Ordering::Relaxed);
                worker.bunching.end();
                Seen::Nothing
            }
            Ok(CallerArrival::Datagram(Segments { len: 0, .. }) | CallerArrival::Nothing) => Seen::Nothing,
            Ok(CallerArrival::TooLarge(_)) => self.too_large(),
            Ok(CallerArrival::Datagram(segments)) => Seen::Many(segments, dedicated.peer, worker.changes),
            Ok(CallerArrival::Refused) | Err(_) => {
                self.dedication.give_up(Reason::Quiet);
                Seen::Nothing
            }
        }
    }

    /// Something has come in by the address's own socket. It may be what the lone caller sent before it had one of its
    /// own.
    #[cold]
    fn note_others(&self, worker: &WorkerState, seen: &Seen) {
        let peer = match seen {
            Seen::Packet(..) => worker.own_peer.0,
            Seen::Many(_, peer, _) => *peer,
            Seen::Nothing => return,
        };
        if worker.dedicated.as_ref().is_none_or(|own| own.peer != peer) {
            self.dedication.give_up(Reason::Others);
        }
    }

    /// Longer than any packet that comes by itself.
    #[cold]
    fn too_large(&self) -> Seen {
        self.too_large.fetch_add(1, Ordering::Relaxed);
        Seen::Nothing
    }

    /// The dedicated socket is another, or gone. What had arrived in the one that is gone is not lost.
    #[cold]
    fn change_sockets(&self, worker: &mut WorkerState) -> Option<Seen> {
        if let Some((datagrams, segments, peer)) = self.dedication.next_left() {
            worker.batch.room()[..segments.len].copy_from_slice(&datagrams);
            return Some(Seen::Many(segments, peer, 0));
        }
        worker.changes = self.dedication.changes();
        worker.dedicated = self.dedication.present();
        worker.dedicated_peer = worker.dedicated.as_ref().map_or(From::NOBODY, |own| From(own.peer));
        (worker.looks, worker.calls_in_a_row) = (0, 0);
        None
    }

    /// A call has come by itself.
    #[inline]
    pub(super) fn note_call(&self, worker: &mut WorkerState, dedicated: bool, call: &DatagramCall) {
        if !dedicated {
            self.count_in_a_row(worker, 1);
        }
        let (_, lane, _) = call.assignment.identity();
        if lane == worker.bunching.lane {
            worker.bunching.others = 0;
            return;
        }
        worker.bunching.lane = lane;
        // On its own socket, or again by the address's.
        if dedicated || worker.calls_in_a_row > 1 {
            worker.bunching.others += 1;
            if worker.bunching.others >= CALLS_ON_OTHER_LANES {
                self.receive_together(worker, dedicated);
            }
        }
    }

    /// From now on datagrams that come together are received together.
    #[cold]
    pub(super) fn receive_together(&self, worker: &mut WorkerState, dedicated: bool) {
        (worker.bunching.others, worker.bunching.singles) = (0, 0);
        match &worker.dedicated {
            Some(own) if dedicated => own.together.store(own.socket.set_gro(true).is_ok(), Ordering::Relaxed),
            _ => self.together.store(self.socket.set_gro(true).is_ok(), Ordering::Relaxed),
        }
    }

    /// So many calls of one peer have come in by the address's own socket.
    #[inline]
    pub(super) fn count_in_a_row(&self, worker: &mut WorkerState, calls: u32) {
        let From(peer) = worker.own_peer;
        if worker.latest != Some(peer.addr()) {
            (worker.latest, worker.calls_in_a_row) = (Some(peer.addr()), 0);
        }
        worker.calls_in_a_row += calls;
        if self.dedication.is_earned(worker.calls_in_a_row) {
            worker.calls_in_a_row = 0;
            self.dedication.dedicate(&self.socket, peer, self.together.load(Ordering::Relaxed));
            self.rouse_housekeeper();
        }
    }

    /// Sends what goes to `peer` together, by the dedicated socket if that is the peer's.
    pub(super) fn send_together(&self, worker: &WorkerState, datagrams: &[u8], segment: usize, peer: &Peer) {
        use stoop_net::udp::SegmentsSending::{Refused, Sent};
        if datagrams.len() > segment * MAX_SEGMENTS {
            for datagrams in datagrams.chunks(segment * MAX_SEGMENTS) {
                self.send_together(worker, datagrams, segment, peer);
            }
            return;
        }
        let sent = match &worker.dedicated {
            Some(own) if own.peer == *peer && worker.changes == self.dedication.changes() => {
                own.socket.send_segments(datagrams, segment)
            }
            _ => return self.send_segments(datagrams, segment, peer),
        };
        // A socket that was given up meanwhile has sent to itself.
        if !matches!(sent, Ok(Sent | Refused)) || worker.changes != self.dedication.changes() {
            self.send_segments(datagrams, segment, peer);
        }
    }

    fn send_segments(&self, datagrams: &[u8], segment: usize, peer: &Peer) {
        use stoop_net::udp::SegmentsSending::{Refused, Sent, TooLong, Unsupported};
        match self.socket.send_segments(datagrams, segment, peer) {
            Ok(Sent | Refused) => {}
            Ok(TooLong | Unsupported) | Err(_) => {
                for datagram in datagrams.chunks(segment) {
                    self.send_as_it_is(datagram, &From(*peer));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::serving::dispatch::Exports;
    use crate::serving::workers::Endpoint;
    use crate::transport::packet::server::sockets::*;
    use std::net::Ipv4Addr;
    use std::sync::Arc;
    use stoop_exchange::server::Limits;
    use stoop_net::udp::{CallerSocket, ServerSocket};
    use stoop_net::waiting::Waiting;
    use stoop_wire::{BindingId, CallNumber, Header, Kind};

    fn part(offset: u32, len: usize) -> Vec<u8> {
        let header = Header::bare(Kind::Call, BindingId(7), stoop_wire::LaneId(1), CallNumber(1));
        let mut part = Header { message_len: 60_000, offset, time: 3, ..header }.to_bytes().to_vec();
        part.resize(len, 0x5a);
        part
    }

    #[test]
    fn one_longer_than_a_packet_is_received_where_they_come_by_themselves() {
        let socket = ServerSocket::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port is free");
        let server = socket.local_addr().expect("it is bound");
        let exports = Arc::new(Exports::new(Vec::new(), String::new()));
        let endpoint = DatagramEndpoint::new(socket, exports, Limits::default(), Waiting::Block);
        let mut worker = endpoint.worker();
        let caller = CallerSocket::connect(server).expect("loopback is there");
        for len in [1472, 1473, 20_000, 65_507] {
            let datagram = part(0, len);
            caller.send(&datagram).expect("loopback carries it");
            assert!(
                matches!(endpoint.look(&mut worker, Patience::Block), Seen::Packet(came, 0) if came == len)
            );
            assert!(worker.packet[..len] == datagram);
        }
    }
}
