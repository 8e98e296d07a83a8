//! Where a worker looks for datagrams: at the address's own socket or a dedicated one, for one at a time or for many.
//!
//! That datagrams which came together are received together must be asked for, and makes the receipt of a single one
//! slower. It is asked for when calls of one peer have come one after the other on different lanes, or when something
//! has come that is longer than a packet; and no longer when datagrams have come by themselves for a while.

use crate::transport::packet::server::call::DatagramCall;
use crate::transport::packet::server::dedicated::{LOOKS, Reason};
use crate::transport::packet::server::worker::Desk;
use crate::transport::packet::server::{DatagramEndpoint, From};
use std::sync::atomic::Ordering;
use stoop_net::udp::{CallerArrival, MAX_SEGMENTS, Patience, Peer, Segments, ServerArrival};

/// Calls of one peer, each on another lane than the one before it, that show that it has many in flight.
const CALLS_ON_OTHER_LANES: u32 = 8;

/// What a look at the sockets brought.
pub(super) enum Seen {
    /// So many bytes, in the desk's packet; by the dedicated socket of so many changes, or 0: by the address's own. The
    /// desk knows both peers.
    Packet(usize, u64),
    /// The same, in the desk's room for many, and of that peer.
    Many(Segments, Peer, u64),
    /// Nothing, or nothing that counts.
    Nothing,
}

impl DatagramEndpoint {
    /// Looks at the socket where something is likely, and now and then at the other.
    #[inline]
    pub(super) fn look(&self, desk: &mut Desk, patience: Patience) -> Seen {
        if desk.changes != self.dedication.changes()
            && let Some(last) = self.change_sockets(desk)
        {
            return last;
        }
        if desk.dedicated.is_none() {
            return self.look_at_own(desk, patience);
        }
        desk.looks += 1;
        if desk.looks >= LOOKS {
            desk.looks = 0;
            match self.look_at_own(desk, Patience::DontWait) {
                Seen::Nothing => {}
                seen => {
                    self.note_others(desk, &seen);
                    return seen;
                }
            }
        }
        let Some(dedicated) = &desk.dedicated else { return Seen::Nothing };
        if dedicated.together.load(Ordering::Relaxed) {
            return self.look_at_dedicated_for_many(desk, patience);
        }
        let arrival = match patience {
            Patience::DontWait => dedicated.socket.recv(&mut desk.packet[..]),
            Patience::Block => dedicated.socket.recv_blocking(&mut desk.packet[..]),
        };
        match arrival {
            Ok(CallerArrival::Datagram(0) | CallerArrival::Nothing) => Seen::Nothing,
            Ok(CallerArrival::TooLarge(_)) => self.too_large(),
            Ok(CallerArrival::Datagram(len)) => Seen::Packet(len, desk.changes),
            // The caller has gone.
            Ok(CallerArrival::Refused) | Err(_) => {
                self.dedication.give_up(Reason::Quiet);
                Seen::Nothing
            }
        }
    }

    #[inline]
    fn look_at_own(&self, desk: &mut Desk, patience: Patience) -> Seen {
        if self.together.load(Ordering::Relaxed) {
            return self.look_at_own_for_many(desk, patience);
        }
        match self.socket.recv(&mut desk.packet[..], patience) {
            Ok(ServerArrival::Datagram { len, peer }) => {
                desk.own_peer = From(peer);
                Seen::Packet(len, 0)
            }
            Ok(ServerArrival::TooLarge { .. }) => self.too_large(),
            Ok(ServerArrival::Nothing | ServerArrival::WokenUp) | Err(_) => Seen::Nothing,
        }
    }

    fn look_at_own_for_many(&self, desk: &mut Desk, mut patience: Patience) -> Seen {
        let ends = desk.bunching.is_over();
        if ends {
            patience = Patience::DontWait;
        }
        match self.socket.recv_segments(desk.batch.room(), patience) {
            Ok(ServerArrival::Datagram { len, peer }) => Seen::Many(len, peer, 0),
            Ok(ServerArrival::TooLarge { .. }) => self.too_large(),
            Ok(ServerArrival::Nothing) if ends => {
                // What comes together in this moment is lost, and sent again.
                self.together.store(self.socket.set_gro(false).is_err(), Ordering::Relaxed);
                desk.bunching.end();
                Seen::Nothing
            }
            Ok(ServerArrival::Nothing | ServerArrival::WokenUp) | Err(_) => Seen::Nothing,
        }
    }

    fn look_at_dedicated_for_many(&self, desk: &mut Desk, mut patience: Patience) -> Seen {
        let Some(dedicated) = &desk.dedicated else { return Seen::Nothing };
        let ends = desk.bunching.is_over();
        if ends {
            patience = Patience::DontWait;
        }
        let room = desk.batch.room();
        let arrival = match patience {
            Patience::DontWait => dedicated.socket.recv_segments(room),
            Patience::Block => dedicated.socket.recv_segments_blocking(room),
        };
        match arrival {
            Ok(CallerArrival::Nothing) if ends => {
                let off = dedicated.socket.set_gro(false);
                dedicated.together.store(off.is_err(), Ordering::Relaxed);
                desk.bunching.end();
                Seen::Nothing
            }
            Ok(CallerArrival::Datagram(Segments { len: 0, .. }) | CallerArrival::Nothing) => Seen::Nothing,
            Ok(CallerArrival::TooLarge(_)) => self.too_large(),
            Ok(CallerArrival::Datagram(segments)) => Seen::Many(segments, dedicated.peer, desk.changes),
            Ok(CallerArrival::Refused) | Err(_) => {
                self.dedication.give_up(Reason::Quiet);
                Seen::Nothing
            }
        }
    }

    /// Something has come in by the address's own socket. It may be what the lone caller sent before it had one of its
    /// own.
    #[cold]
    fn note_others(&self, desk: &Desk, seen: &Seen) {
        let peer = match seen {
            Seen::Packet(..) => desk.own_peer.0,
            Seen::Many(_, peer, _) => *peer,
            Seen::Nothing => return,
        };
        if desk.dedicated.as_ref().is_none_or(|own| own.peer != peer) {
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
    fn change_sockets(&self, desk: &mut Desk) -> Option<Seen> {
        if let Some((datagrams, segments, peer)) = self.dedication.next_left() {
            desk.batch.room()[..segments.len].copy_from_slice(&datagrams);
            return Some(Seen::Many(segments, peer, 0));
        }
        desk.changes = self.dedication.changes();
        desk.dedicated = self.dedication.present();
        desk.dedicated_peer = desk.dedicated.as_ref().map_or(From::NOBODY, |own| From(own.peer));
        (desk.looks, desk.calls_in_a_row) = (0, 0);
        None
    }

    /// A call has come by itself.
    #[inline]
    pub(super) fn note_call(&self, desk: &mut Desk, dedicated: bool, call: &DatagramCall) {
        if !dedicated {
            self.count_in_a_row(desk, 1);
        }
        let (_, lane, _) = call.assignment.identity();
        if lane == desk.bunching.lane {
            desk.bunching.others = 0;
            return;
        }
        desk.bunching.lane = lane;
        // On its own socket, or again by the address's.
        if dedicated || desk.calls_in_a_row > 1 {
            desk.bunching.others += 1;
            if desk.bunching.others >= CALLS_ON_OTHER_LANES {
                self.receive_together(desk, dedicated);
            }
        }
    }

    /// From now on datagrams that come together are received together.
    #[cold]
    pub(super) fn receive_together(&self, desk: &mut Desk, dedicated: bool) {
        (desk.bunching.others, desk.bunching.singles) = (0, 0);
        match &desk.dedicated {
            Some(own) if dedicated => own.together.store(own.socket.set_gro(true).is_ok(), Ordering::Relaxed),
            _ => self.together.store(self.socket.set_gro(true).is_ok(), Ordering::Relaxed),
        }
    }

    /// So many calls of one peer have come in by the address's own socket.
    #[inline]
    pub(super) fn count_in_a_row(&self, desk: &mut Desk, calls: u32) {
        let From(peer) = desk.own_peer;
        if desk.latest != Some(peer.addr()) {
            (desk.latest, desk.calls_in_a_row) = (Some(peer.addr()), 0);
        }
        desk.calls_in_a_row += calls;
        if self.dedication.is_earned(desk.calls_in_a_row) {
            desk.calls_in_a_row = 0;
            self.dedication.dedicate(&self.socket, peer, self.together.load(Ordering::Relaxed));
            self.rouse_housekeeper();
        }
    }

    /// Sends what goes to `peer` together, by the dedicated socket if that is the peer's.
    pub(super) fn send_together(&self, desk: &Desk, datagrams: &[u8], segment: usize, peer: &Peer) {
        use stoop_net::udp::SegmentsSending::{Refused, Sent};
        if datagrams.len() > segment * MAX_SEGMENTS {
            for datagrams in datagrams.chunks(segment * MAX_SEGMENTS) {
                self.send_together(desk, datagrams, segment, peer);
            }
            return;
        }
        let sent = match &desk.dedicated {
            Some(own) if own.peer == *peer && desk.changes == self.dedication.changes() => {
                own.socket.send_segments(datagrams, segment)
            }
            _ => return self.send_segments(datagrams, segment, peer),
        };
        // A socket that was given up meanwhile has sent to itself.
        if !matches!(sent, Ok(Sent | Refused)) || desk.changes != self.dedication.changes() {
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
        let mut desk = endpoint.desk();
        let caller = CallerSocket::connect(server).expect("loopback is there");
        for len in [1472, 1473, 20_000, 65_507] {
            let datagram = part(0, len);
            caller.send(&datagram).expect("loopback carries it");
            assert!(
                matches!(endpoint.look(&mut desk, Patience::Block), Seen::Packet(came, 0) if came == len)
            );
            assert!(desk.packet[..len] == datagram);
        }
    }
}
