//! The thread of a server's endpoint that answers questions for it, and has it follow its interface.
//!
//! The interface may get another hardware address, be removed and made again, or be in another network namespace for some time. The endpoint then goes on there, under its name and
//! its port; callers that have a former address learn the new one by a question.

use crate::address::Address;
use crate::endpoint::Endpoint;
use crate::error::{OpenError, failed};
use crate::frame::EtherType;
use crate::interface::{Changes, Interface};
use crate::names::message::{FRAME_MAX, Kind, Message, Subject};
use crate::names::{Name, ether_type_of_questions};
use crate::packet_ring::filter;
use crate::packet_socket;
use crate::ports::NameReservation;
use crate::privilege::Capability;
use crate::sleep::Sleeper;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stoop_net::threads;

/// A server's endpoint, as those ask for it that have a name or an earlier address.
pub trait Announced: Send + 'static {
    /// Where it is.
    fn address(&self) -> Address;

    /// Has it go on at the interface as it is now.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::follow`].
    fn follow(&self, interface: &Interface) -> Result<(), OpenError>;
}

impl Announced for Arc<Endpoint> {
    fn address(&self) -> Address {
        Endpoint::address(self)
    }

    fn follow(&self, interface: &Interface) -> Result<(), OpenError> {
        Endpoint::follow(self, interface)
    }
}

/// An endpoint that another process has, or none: it stays where it is.
impl Announced for Address {
    fn address(&self) -> Address {
        *self
    }

    fn follow(&self, _: &Interface) -> Result<(), OpenError> {
        Ok(())
    }
}

/// Questions for a server's endpoint are answered until this is dropped.
#[derive(Debug)]
pub struct Announcement {
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Ending {
    sleeper: Sleeper,
    has_come: AtomicBool,
}

impl Announcement {
    /// From now on the name, if there is one, leads to the server's endpoint, whose packets have that EtherType; and so do the
    /// addresses that it has had.
    ///
    /// # Errors
    ///
    /// [`OpenError::NameTaken`] if another endpoint at this interface has the name; [`OpenError::NotPermitted`], [`OpenError::System`].
    pub fn new<'a>(
        interface: &Interface,
        ether_type: EtherType,
        name: impl Into<Option<&'a Name>>,
        server: impl Announced,
    ) -> Result<Self, OpenError> {
        let name = name.into().cloned();
        let reservation = Answering::<Address>::reserve(interface, ether_type, name.as_ref())?;
        let of_questions = ether_type_of_questions(ether_type);
        let socket = packet_socket::open_plain(interface, of_questions, &filter::for_broadcast())
            .map_err(failed("a packet socket", Capability::OF_PACKET_RING))?;
        let changes = Changes::new().map_err(failed("rtnetlink", &[]))?;
        let sleeper = Sleeper::new().map_err(failed("an event", &[]))?;
        let ending = Arc::new(Ending { sleeper, has_come: AtomicBool::new(false) });
        let (interface, former) = (interface.clone(), Vec::new());
        let answering =
            Answering { socket, changes, interface, ether_type, name, reservation, server, former };
        let until = Arc::clone(&ending);
        let thread = threads::start("stoop-ether-name", move || answering.answer(&until));
        let thread = thread.map_err(|error| OpenError::System { operation: "a thread", error })?;
        Ok(Self { ending, thread: Some(thread) })
    }

    /// Whether an endpoint at this very interface, which is in this thread's network namespace, has the name.
    pub fn is_here(interface: &Interface, ether_type: EtherType, name: &Name) -> bool {
        NameReservation::is_taken(interface, ether_type, name.as_str())
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        self.ending.has_come.store(true, Ordering::Relaxed);
        self.ending.sleeper.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported, and has ended nothing else.
            let _ = thread.join();
        }
    }
}

impl Ending {
    fn has_come(&self) -> bool {
        self.has_come.load(Ordering::Relaxed)
    }
}

/// Addresses that a server has had and that lead to it. Callers of earlier ones have had time enough to ask.
const FORMER_MAX: usize = 16;

/// Between two attempts to go on at the interface.
const PAUSE: Duration = Duration::from_secs(1);

/// The state of the thread.
struct Answering<S> {
    socket: OwnedFd,
    changes: Changes,
    interface: Interface,
    ether_type: EtherType,
    name: Option<Name>,
    reservation: Option<NameReservation>,
    server: S,
    /// The latest last.
    former: Vec<Address>,
}

impl<S: Announced> Answering<S> {
    fn reserve(
        interface: &Interface,
        ether_type: EtherType,
        name: Option<&Name>,
    ) -> Result<Option<NameReservation>, OpenError> {
        name.map(|name| NameReservation::new(interface, ether_type, name.as_str())).transpose()
    }

    fn answer(mut self, ending: &Ending) {
        let mut again: Option<Instant> = None;
        while !ending.has_come() {
            let limit = again.map(|again| again.saturating_duration_since(Instant::now()).as_nanos() as u64);
            // An error is about an interface that is down or gone, which is a change, too.
            let slept = ending.sleeper.sleep(self.socket.as_fd(), Some(self.changes.fd()), limit);
            if self.changes.take() || slept.is_err() || again.is_some_and(|again| again <= Instant::now()) {
                again = self.follow().err().map(|_| Instant::now() + PAUSE);
            }
            let mut frame = [0; FRAME_MAX + 1];
            while !ending.has_come()
                && let Ok((_, len)) = rustix::net::recv(&self.socket, &mut frame[..], RecvFlags::DONTWAIT)
            {
                self.handle(&frame[..len.min(frame.len())]);
            }
        }
    }

    /// Follows the interface. An error may be gone a moment later: another endpoint has the port or an XDP program there.
    fn follow(&mut self) -> Result<(), OpenError> {
        // When it is made again, that is a change.
        let Ok(interface) = self.interface.now() else { return Ok(()) };
        let before = self.server.address();
        let is_lost = packet_socket::has_lost_its_interface(self.socket.as_fd());
        let stays = (interface.index, interface.mac, interface.mtu)
            == (self.interface.index, self.interface.mac, self.interface.mtu);
        if stays && !is_lost {
            return Ok(());
        }
        self.server.follow(&interface)?;
        if is_lost {
            let of_questions = ether_type_of_questions(self.ether_type);
            packet_socket::bind(self.socket.as_fd(), of_questions, interface.index)
                .map_err(failed("binding a packet socket", Capability::OF_PACKET_RING))?;
        }
        if interface.index != self.interface.index {
            // If another server has taken the name there, callers that ask for it are told of both.
            self.reservation =
                Self::reserve(&interface, self.ether_type, self.name.as_ref()).unwrap_or_default();
        }
        if before != self.server.address() {
            self.former.retain(|former| *former != before);
            self.former.push(before);
            let surplus = self.former.len().saturating_sub(FORMER_MAX);
            self.former.drain(..surplus);
        }
        self.interface = interface;
        Ok(())
    }

    fn handle(&self, frame: &[u8]) {
        let Some((message, asker)) = Message::parse(frame, ether_type_of_questions(self.ether_type)) else {
            return;
        };
        let is_ours = match &message.subject {
            Subject::Name(name) => self.name.as_ref() == Some(name),
            Subject::At(address) => *address == self.server.address() || self.former.contains(address),
        };
        if is_ours && message.kind == Kind::Question && message.ether_type == self.ether_type {
            let answer = message.answer(self.server.address(), asker.mac);
            // An answer that is not sent is a lost one: the caller asks again.
            let _ = rustix::net::send(&self.socket, &answer, SendFlags::DONTWAIT);
        }
    }
}
