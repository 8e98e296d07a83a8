//! The endpoint of a caller's lanes: its own, or one that it shares with other lanes.

use crate::transport::packet::link::{
    CallerArrival, CallerEndpoint, HandedOver, PacketLink, Segments, Sending, Share,
};
use crate::transport::packet::shared_endpoint::SharedEndpoint;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use stoop_wire::{BindingId, LaneId};

/// A caller's endpoint.
pub(crate) enum Endpoint<L: PacketLink> {
    /// The lane has one of its own.
    Own(L::Caller),
    Shared(SharedEndpoint<L::Caller>),
}

impl<L: PacketLink> Endpoint<L> {
    /// Opens an endpoint that leads to `server`: one of its own; or the one that the bindings of this process share if the user wants
    /// it so or the link has no other left.
    pub(crate) fn connect(server: &L::Address, share: Share, is_shared: bool) -> io::Result<Self> {
        let must_share = L::must_share(server, share);
        let share = if must_share { Share::ManyLanes } else { share };
        if !is_shared && !must_share {
            match L::connect(server, share) {
                Err(why) if why.kind() == io::ErrorKind::AddrInUse => {}
                own => return own.map(Self::Own),
            }
        }
        L::shared_endpoints()
            .connect(server, share, || L::connect(server, Share::ManyLanes))
            .map(Self::Shared)
    }

    /// Has the endpoint lead to another server. One that is shared does not: bindings that share them do not follow names.
    pub(crate) fn redirect(&self, server: &L::Address) {
        if let Self::Own(own) = self {
            // If there is no way just now, later sends try again.
            let _ = L::redirect(own, server);
        }
    }

    /// The link's endpoint, to send.
    #[inline]
    fn base(&self) -> &L::Caller {
        match self {
            Self::Own(own) => own,
            Self::Shared(user) => user.base(),
        }
    }
}

impl<L: PacketLink> CallerEndpoint for Endpoint<L> {
    type Room = <L::Caller as CallerEndpoint>::Room;

    #[inline]
    fn send(&self, packet: &[u8]) -> io::Result<Sending> {
        self.base().send(packet)
    }

    fn follow_route(&self) {
        self.base().follow_route();
    }

    #[inline]
    fn settle(&mut self) {
        if let Self::Own(own) = self {
            own.settle();
        }
    }

    fn is_cut_off(&self) -> bool {
        self.base().is_cut_off()
    }

    fn note_arrivals(&self) {
        if let Self::Own(own) = self {
            own.note_arrivals();
        }
    }

    /// Of a shared endpoint, other threads take packets.
    fn age_of_last_ns(&self) -> Option<u64> {
        match self {
            Self::Own(own) => own.age_of_last_ns(),
            Self::Shared(_) => None,
        }
    }

    fn send_many(&self, packets: &[u8], segment: usize, failed: impl FnMut(usize, io::Error)) {
        self.base().send_many(packets, segment, failed);
    }

    fn lend(&self, room: &mut Self::Room) {
        self.base().lend(room);
    }

    fn send_room(&self, room: &mut Self::Room, is_probe: bool) -> io::Result<HandedOver> {
        self.base().send_room(room, is_probe)
    }

    fn send_gathered(
        &self,
        slices: &[IoSlice<'_>],
        segment: usize,
        is_probe: bool,
    ) -> io::Result<HandedOver> {
        self.base().send_gathered(slices, segment, is_probe)
    }

    /// Of a shared endpoint, other threads take packets.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Own(own) => own.descriptor(),
            Self::Shared(_) => None,
        }
    }

    #[inline]
    fn receive_about(&self, buffer: &mut [u8], about_ns: u64, latest_ns: u64) -> io::Result<CallerArrival> {
        match self {
            Self::Own(own) => own.receive_about(buffer, about_ns, latest_ns),
            Self::Shared(user) => user
                .receive(buffer, 1, (about_ns, latest_ns))
                .map(|arrival| arrival.map(|segments| segments.len)),
        }
    }

    #[inline]
    fn receive_many_about(
        &self,
        buffer: &mut [u8],
        about_ns: u64,
        latest_ns: u64,
    ) -> io::Result<CallerArrival<Segments>> {
        match self {
            Self::Own(own) => own.receive_many_about(buffer, about_ns, latest_ns),
            Self::Shared(user) => user.receive(buffer, usize::MAX, (about_ns, latest_ns)),
        }
    }

    fn serve_lane(&self, binding: BindingId, lane: LaneId) {
        if let Self::Shared(user) = self {
            user.serve_lane(binding, lane);
        }
    }

    fn expect_many(&self, on: bool) {
        match self {
            Self::Own(own) => own.expect_many(on),
            Self::Shared(user) if on => user.expect_many(),
            // Other users may.
            Self::Shared(_) => {}
        }
    }

    fn describe(&self) -> String {
        self.base().describe()
    }

    fn window(&self) -> u32 {
        match self {
            Self::Own(own) => own.window(),
            Self::Shared(user) => user.window(),
        }
    }

    fn largest_packet(&self) -> io::Result<usize> {
        self.base().largest_packet()
    }

    fn keep_sent_back(&self) {
        // A shared endpoint always does.
        if let Self::Own(own) = self {
            own.keep_sent_back();
        }
    }

    fn next_sent_back(&self, buffer: &mut [u8]) -> Option<usize> {
        match self {
            Self::Own(own) => own.next_sent_back(buffer),
            Self::Shared(user) => user.next_sent_back(buffer),
        }
    }
}
