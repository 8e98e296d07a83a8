//! Has an endpoint on AF_XDP go on when its interface gets another hardware address, or is removed and made again.

use crate::address::Address;
use crate::arrival::Arrivals;
use crate::error::OpenError;
use crate::interface::Interface;
use crate::options::Options;
use crate::packet_socket::replace;
use crate::ports::Reservation;
use crate::xdp::attachment::Attachment;
use crate::xdp::others::OtherQueues;
use crate::xdp::socket::{self, Request, Socket};
use crate::xdp::{Xdp, largest_packet};
use rustix::fd::AsFd;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// An interface with the endpoint's program and port.
#[derive(Debug)]
pub(super) struct Place {
    index: u32,
    /// `None` when the interface is gone, and the next one could not be used yet.
    attachment: Option<Attachment>,
    reservation: Reservation,
}

impl Place {
    pub(super) fn new(interface: &Interface, attachment: Attachment, reservation: Reservation) -> Self {
        Self { index: interface.index, attachment: Some(attachment), reservation }
    }
}

impl Xdp {
    /// See [`Endpoint::follow`](crate::Endpoint::follow).
    pub(crate) fn follow(&self, interface: &Interface) -> Result<(), OpenError> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        match &place.attachment {
            Some(attachment) if place.index == interface.index && !self.has_lost_its_interface() => {
                let address = Address { mac: interface.mac, ..self.address() };
                attachment.register_port(address)?;
                self.address.set(address);
            }
            _ => self.open_again(&mut place, interface)?,
        }
        // Chunks have no room for longer frames than there were at first.
        self.largest_packet.fetch_min(largest_packet(interface, self.umem.chunk_len()), Ordering::Relaxed);
        Ok(())
    }

    /// Makes program and socket anew. If that fails, nothing is received and nothing sent until the next attempt.
    fn open_again(&self, place: &mut Place, interface: &Interface) -> Result<(), OpenError> {
        interface.must_be_up()?;
        let address = Address { mac: interface.mac, ..self.address() };
        if interface.index != place.index {
            place.reservation = Reservation::again(interface, self.ether_type, address.port)?;
            place.index = interface.index;
        }
        let queues = socket::check(interface)?;
        let queue = self.options.queue.unwrap_or(0);
        // The program is still attached if the interface has only been in another network namespace.
        place.attachment = None;
        let attachment = Attachment::new(interface, self.ether_type, self.options.mode, queue)?;
        // Before there is another one: the kernel counts what it has locked.
        self.close_socket()?;
        let Socket { socket, receiving, is_zero_copy } = Socket::open_with(
            &self.umem,
            &Request {
                interface,
                mode: self.options.mode,
                queue,
                frames: self.frames() as u32,
                chunk_len: self.umem.chunk_len(),
                busy_poll: self.options.busy_poll,
            },
        )?;
        self.receive_from_other_queues(interface, queues, address.port)?;
        attachment.register_socket(queue, socket.as_fd())?;
        attachment.register_port(address)?;
        {
            // Threads that send hold this lock.
            let _sending = self.umem.sending();
            replace(self.socket.as_fd(), socket.as_fd()).map_err(|error| OpenError::System {
                operation: "replacing a socket",
                error: error.into(),
            })?;
            self.is_stuck.store(false, Ordering::Relaxed);
        }
        self.arrivals.replace(Some(Arrivals::new(receiving)));
        self.is_zero_copy.store(is_zero_copy, Ordering::Relaxed);
        self.address.set(address);
        place.attachment = Some(attachment);
        Ok(())
    }

    /// Closes the socket, and has the descriptor stand for one that is bound to no interface. Rings that are mapped keep a socket open.
    fn close_socket(&self) -> Result<(), OpenError> {
        let unbound = socket::make()?;
        let dropped = self.dropped_by_socket();
        let mut sending = self.umem.sending();
        replace(self.socket.as_fd(), unbound.as_fd())
            .map_err(|error| OpenError::System { operation: "replacing a socket", error: error.into() })?;
        self.is_stuck.store(true, Ordering::Relaxed);
        sending.close();
        drop(sending);
        self.arrivals.replace(None);
        self.dropped_before.fetch_add(dropped, Ordering::Relaxed);
        Ok(())
    }

    fn receive_from_other_queues(
        &self,
        interface: &Interface,
        queues: u32,
        port: u16,
    ) -> Result<(), OpenError> {
        if let Some(others) = self.others.get() {
            return others.follow(interface, self.ether_type);
        }
        if queues > 1 {
            let options = Options { ether_type: self.ether_type, frames: self.frames() };
            let _ = self.others.set(OtherQueues::open(interface, &options, port)?);
        }
        Ok(())
    }
}
