//! Asks an Ethernet for the servers that have a name, or where a server has gone.

use crate::address::Address;
use crate::error::{OpenError, failed};
use crate::frame::EtherType;
use crate::interface::Interface;
use crate::names::message::{FRAME_MAX, Kind, Message, Subject};
use crate::names::{Name, ether_type_of_questions};
use crate::packet_ring::filter;
use crate::packet_socket;
use crate::ports::FIRST_OF_CALLERS;
use crate::privilege::Capability;
use crate::sleep::Sleeper;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags};
use std::time::{Duration, Instant};
use stoop_net::host;

/// Between the first question and the second; it doubles from then on.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// After the first answer, for other servers that have the name, too.
const FOR_OTHERS: Duration = Duration::from_millis(20);

/// Asks by this interface for the servers whose packets have that EtherType and that have the name, until some have answered or `limit`
/// has passed. More than one if several have it; none if no server answers. A server at this very interface does not hear the question.
///
/// # Errors
///
/// [`OpenError::Down`], [`OpenError::NotPermitted`], [`OpenError::System`].
pub fn find(
    interface: &Interface,
    ether_type: EtherType,
    name: &Name,
    limit: Duration,
) -> Result<Vec<Address>, OpenError> {
    interface.must_be_up()?;
    let search = Search::new(interface, ether_type, Subject::Name(name.clone()))?;
    let question = search.wanted.question(interface.mac);
    let mut end = Instant::now() + limit;
    let (mut again, mut pause) = (Instant::now(), FIRST_PAUSE);
    let mut servers = Vec::new();
    while Instant::now() < end {
        if servers.is_empty() && Instant::now() >= again {
            // A question that is not sent is a lost one.
            let _ = rustix::net::send(&search.socket, &question, SendFlags::DONTWAIT);
            (again, pause) = (Instant::now() + pause, 2 * pause);
        }
        let until = if servers.is_empty() { end.min(again) } else { end };
        let before = servers.len();
        search.receive(until, &mut servers)?;
        if before == 0 && !servers.is_empty() {
            end = end.min(Instant::now() + FOR_OTHERS);
        }
    }
    // Answers that have come in time count, also if this thread looks late.
    search.take_answers(&mut servers);
    Ok(servers)
}

/// A question where the server has gone that was at an address: its interface may have another hardware address now. The server
/// answers from where it is.
#[derive(Debug)]
pub struct Inquiry {
    search: Search,
    question: Vec<u8>,
}

impl Inquiry {
    /// Prepares the question by this interface for the server whose packets have that EtherType.
    ///
    /// # Errors
    ///
    /// [`OpenError::NotPermitted`], [`OpenError::System`].
    pub fn new(interface: &Interface, ether_type: EtherType, server: Address) -> Result<Self, OpenError> {
        let search = Search::new(interface, ether_type, Subject::At(server))?;
        let question = search.wanted.question(interface.mac);
        Ok(Self { search, question })
    }

    /// Sends the question, again if it has been sent before. Does not wait.
    pub fn ask(&self) {
        // A question that is not sent is a lost one.
        let _ = rustix::net::send(&self.search.socket, &self.question, SendFlags::DONTWAIT);
    }

    /// The server's address now, if it has answered. Does not wait.
    pub fn answer(&self) -> Option<Address> {
        let mut servers = Vec::new();
        self.search.take_answers(&mut servers);
        servers.first().copied()
    }
}

#[derive(Debug)]
struct Search {
    socket: OwnedFd,
    sleeper: Sleeper,
    wanted: Message,
}

impl Search {
    fn new(interface: &Interface, ether_type: EtherType, subject: Subject) -> Result<Self, OpenError> {
        let socket = packet_socket::open_plain(
            interface,
            ether_type_of_questions(ether_type),
            &filter::for_own_address(),
        )
        .map_err(failed("a packet socket", Capability::OF_PACKET_RING))?;
        let sleeper = Sleeper::new().map_err(failed("an event", &[]))?;
        let nonce = u64::from_le_bytes(host::random_bytes());
        let wanted = Message { nonce, ether_type, kind: Kind::Question, subject };
        Ok(Self { socket, sleeper, wanted })
    }

    /// Waits until a frame has arrived, and adds the servers that have answered.
    fn receive(&self, until: Instant, servers: &mut Vec<Address>) -> Result<(), OpenError> {
        let left = until.saturating_duration_since(Instant::now());
        self.sleeper
            .sleep(self.socket.as_fd(), None, Some(left.as_nanos() as u64))
            .map_err(|error| OpenError::System { operation: "waiting for an answer", error })?;
        self.take_answers(servers);
        Ok(())
    }

    /// Adds the servers whose answers have arrived.
    fn take_answers(&self, servers: &mut Vec<Address>) {
        let mut frame = [0; FRAME_MAX + 1];
        while let Ok((_, len)) = rustix::net::recv(&self.socket, &mut frame[..], RecvFlags::DONTWAIT) {
            let server = self.server_of(&frame[..len.min(frame.len())]);
            servers.extend(server.filter(|server| !servers.contains(server)));
            // More than two say no more than two do.
            servers.truncate(2);
        }
    }

    /// The server that has sent this answer to our question.
    fn server_of(&self, frame: &[u8]) -> Option<Address> {
        let (message, from) = Message::parse(frame, ether_type_of_questions(self.wanted.ether_type))?;
        let is_port = from.port > 0 && from.port < FIRST_OF_CALLERS;
        (is_port && message == Message { kind: Kind::Answer, ..self.wanted.clone() }).then_some(from)
    }
}
