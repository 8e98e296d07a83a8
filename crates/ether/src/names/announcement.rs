//! A server's name on an Ethernet, and the thread that answers the questions for it.

use crate::address::Address;
use crate::error::{OpenError, failed};
use crate::frame::EtherType;
use crate::interface::Interface;
use crate::names::message::{FRAME_MAX, Kind, Message};
use crate::names::{Name, ether_type_of_questions};
use crate::packet_ring::{filter, socket};
use crate::ports::NameReservation;
use crate::privilege::Capability;
use crate::sleep::Sleeper;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// A name that leads to a server's endpoint until this is dropped.
#[derive(Debug)]
pub struct Announcement {
    answering: Arc<Answering>,
    thread: Option<JoinHandle<()>>,
    _reservation: NameReservation,
}

#[derive(Debug)]
struct Answering {
    socket: OwnedFd,
    sleeper: Sleeper,
    has_ended: AtomicBool,
    name: Name,
    server: Address,
    ether_type: EtherType,
}

impl Announcement {
    /// From now on the name leads to the server's endpoint at `server`, whose packets have that EtherType.
    ///
    /// # Errors
    ///
    /// [`OpenError::NameTaken`] if another endpoint at this interface has the name; [`OpenError::NotPermitted`], [`OpenError::System`].
    pub fn new(
        interface: &Interface,
        ether_type: EtherType,
        name: &Name,
        server: Address,
    ) -> Result<Self, OpenError> {
        let reservation = NameReservation::new(interface, ether_type, name.as_str())?;
        let of_questions = ether_type_of_questions(ether_type);
        let socket = socket::open_plain(interface, of_questions, &filter::for_broadcast())
            .map_err(failed("a packet socket", Capability::OF_PACKET_RING))?;
        let answering = Arc::new(Answering {
            socket,
            sleeper: Sleeper::new().map_err(failed("an event", &[]))?,
            has_ended: AtomicBool::new(false),
            name: name.clone(),
            server,
            ether_type,
        });
        let answers = Arc::clone(&answering);
        let thread = thread::Builder::new().name("stoop-ether-name".into()).spawn(move || answers.answer());
        let thread = thread.map_err(|error| OpenError::System { operation: "a thread", error })?;
        Ok(Self { answering, thread: Some(thread), _reservation: reservation })
    }
}

impl Announcement {
    /// Whether an endpoint at this very interface, which is in this thread's network namespace, has the name.
    pub fn is_here(interface: &Interface, ether_type: EtherType, name: &Name) -> bool {
        NameReservation::is_taken(interface, ether_type, name.as_str())
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        self.answering.has_ended.store(true, Ordering::Relaxed);
        self.answering.sleeper.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported, and has ended nothing else.
            let _ = thread.join();
        }
    }
}

impl Answering {
    fn answer(&self) {
        while !self.has_ended.load(Ordering::Relaxed) {
            // The interface is down or gone: it may come back.
            let _ = self.sleeper.sleep(self.socket.as_fd(), None, None);
            let mut frame = [0; FRAME_MAX + 1];
            while !self.has_ended.load(Ordering::Relaxed)
                && let Ok((_, len)) = rustix::net::recv(&self.socket, &mut frame[..], RecvFlags::DONTWAIT)
            {
                self.handle(&frame[..len.min(frame.len())]);
            }
        }
    }

    fn handle(&self, frame: &[u8]) {
        let Some((message, asker)) = Message::parse(frame, ether_type_of_questions(self.ether_type)) else {
            return;
        };
        let is_for_us = message.kind == Kind::Question
            && message.ether_type == self.ether_type
            && message.name == self.name;
        if is_for_us {
            // An answer that is not sent is a lost one: the caller asks again.
            let _ =
                rustix::net::send(&self.socket, &message.answer(self.server, asker.mac), SendFlags::DONTWAIT);
        }
    }
}
