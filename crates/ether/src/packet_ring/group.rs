//! The callers' endpoints of this process at one interface: sockets in one fan-out group (packet(7),
//! PACKET_FANOUT).
//!
//! The kernel looks at a frame once for the whole group: a program returns the number of the member that gets
//! it, which is the port's place in the process's block of ports. Without a group it would run the filter of
//! each socket, about 42 ns each.
//!
//! When a member leaves, the last one takes its number. So no socket is closed before all are: a socket whose
//! endpoint is dropped or retired waits for the next one. At an interface that is gone no frame
//! needs the numbers: there a socket is closed when its endpoint is dropped or retired.
//!
//! When the interface goes down, all members leave; when it comes up, they join again, in the order in which their
//! sockets were made (`packet_notifier` in net/packet/af_packet.c). So they join in that order at first, too.

use crate::address::Mac;
use crate::error::{OpenError, failed};
use crate::frame::EtherType;
use crate::interface::Interface;
use crate::options::Options;
use crate::packet_ring::turns::Turns;
use crate::packet_ring::{RingSocket, filter};
use crate::packet_socket;
use crate::ports::{BLOCK, Reservation};
use crate::privilege::Capability;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use stoop_net::fork::PerProcess;

/// A group. Its sockets are closed when the last endpoint is dropped or retired.
#[derive(Debug)]
struct Group {
    reservation: Reservation,
    members: Mutex<Members>,
    /// Of the threads that make a socket: they join the group in the order in which their sockets were made.
    turns: Turns,
}

#[derive(Debug, Default)]
struct Members {
    /// The kernel's number of the group, once it has a member.
    number: Option<u16>,
    all: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    /// `None`: it is closed, because the interface is gone.
    socket: Option<Arc<RingSocket>>,
    /// Frames that its ring was to have.
    frames: usize,
    in_use: bool,
}

/// All that tells apart the groups of a process. The kernel shows each frame to all groups at the interface, so there are as few as possible:
/// the rings of a group may differ in length.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    namespace: u64,
    index: u32,
    mac: Mac,
    mtu: usize,
    ether_type: EtherType,
}

type Groups = Mutex<Vec<(Key, Weak<Group>)>>;

static GROUPS: PerProcess<Groups> = PerProcess::new();

/// Most groups of one key: each further one costs every frame another look.
const GROUPS_MAX: usize = 8;

impl Group {
    /// A group of this process that has room for a socket with a ring of that many frames.
    fn with_room(interface: &Interface, options: &Options) -> Result<Arc<Self>, OpenError> {
        let key = Key {
            namespace: interface.namespace,
            index: interface.index,
            mac: interface.mac,
            mtu: interface.mtu,
            ether_type: options.ether_type,
        };
        let Ok(groups) = GROUPS.get_or_try_make(|| Ok::<_, Infallible>(Mutex::default()));
        let mut groups = groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|(_, group)| group.strong_count() > 0);
        let known = groups.iter().filter(|(other, _)| *other == key).filter_map(|(_, group)| group.upgrade());
        let known: Vec<_> = known.filter(|group| !group.members().have_lost_their_interface()).collect();
        if let Some(group) = known.iter().find(|group| group.members().has_room(options.frames)) {
            return Ok(Arc::clone(group));
        }
        if known.len() >= GROUPS_MAX {
            return Err(OpenError::NoneFree);
        }
        let reservation = Reservation::of_callers(interface, options.ether_type)?;
        let group = Arc::new(Self { reservation, members: Mutex::default(), turns: Turns::default() });
        groups.push((key, Arc::downgrade(&group)));
        Ok(group)
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds or makes a socket that is not in use. Returns it with its number.
    fn take(&self, interface: &Interface, options: &Options) -> Result<(usize, Arc<RingSocket>), OpenError> {
        if let Some(taken) = self.members().take_unused(options.frames) {
            return Ok(taken);
        }
        let (socket, turn) = self.turns.begin(RingSocket::make);
        // Other threads make theirs meanwhile: it takes some milliseconds.
        let socket = RingSocket::without_port(socket?, interface, options)?;
        turn.wait();
        let mut members = self.members();
        members.add(socket, options.frames, self.reservation.first())
    }
}

impl Members {
    /// Whether the interface was removed, or was in another network namespace, after a member has joined. The members that are left then
    /// belong to no group of the kernel's, also if the interface is back.
    fn have_lost_their_interface(&self) -> bool {
        let is_lost = |it: &Member| it.socket.as_ref().is_none_or(|socket| socket.has_lost_its_interface());
        self.all.iter().any(is_lost)
    }

    fn has_room(&self, frames: usize) -> bool {
        self.all.len() < usize::from(BLOCK) || self.unused(frames).is_some()
    }

    fn unused(&self, frames: usize) -> Option<usize> {
        let is_unused = |it: &Member| it.socket.is_some() && !it.in_use && it.frames == frames;
        self.all.iter().position(is_unused)
    }

    /// A socket that was not in use, and now is, and its number.
    fn take_unused(&mut self, frames: usize) -> Option<(usize, Arc<RingSocket>)> {
        let number = self.unused(frames)?;
        let Member { socket, in_use, .. } = &mut self.all[number];
        let socket = socket.clone()?;
        *in_use = true;
        socket.clear();
        Some((number, socket))
    }

    /// Adds a socket without a port to the group, whose first port is `first`. Returns it with its number.
    fn add(
        &mut self,
        socket: RingSocket,
        frames: usize,
        first: u16,
    ) -> Result<(usize, Arc<RingSocket>), OpenError> {
        let number = self.all.len();
        if number >= usize::from(BLOCK) || self.have_lost_their_interface() {
            return Err(OpenError::NoneFree);
        }
        let group = self.join(socket.fd()).map_err(failed("a fan-out group", Capability::OF_PACKET_RING))?;
        // If this fails, the socket is closed: it is the last member, so the others keep their numbers.
        socket.set_port(first + number as u16)?;
        self.number = Some(group);
        let socket = Arc::new(socket);
        self.all.push(Member { socket: Some(Arc::clone(&socket)), frames, in_use: true });
        Ok((number, socket))
    }

    /// The kernel gives the socket the next number in the group. Returns that of the group.
    fn join(&self, socket: BorrowedFd<'_>) -> Result<u16, Errno> {
        let group = packet_socket::join_group(socket, self.number)?;
        if self.number.is_none() {
            packet_socket::set_group_program(socket, &filter::member())?;
        }
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let members = self.members.get_mut().unwrap_or_else(PoisonError::into_inner);
        members.all.drain(..).filter_map(|member| member.socket).for_each(close);
    }
}

/// Closes a socket, also if a retired endpoint still has it.
fn close(mut socket: Arc<RingSocket>) {
    if Arc::get_mut(&mut socket).is_none() {
        // If no descriptor is left, the socket is closed when that endpoint is dropped.
        let _ = socket.close();
    }
}

/// A place in the group, until this is dropped.
#[derive(Debug)]
pub(super) struct Membership {
    group: Arc<Group>,
    number: usize,
}

impl Membership {
    /// A place, and the socket that has it.
    pub(super) fn join(
        interface: &Interface,
        options: &Options,
    ) -> Result<(Self, Arc<RingSocket>), OpenError> {
        loop {
            let group = Group::with_room(interface, options)?;
            match group.take(interface, options) {
                // Other threads have filled the group meanwhile.
                Err(OpenError::NoneFree) => {}
                taken => return taken.map(|(number, socket)| (Self { group, number }, socket)),
            }
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.group.reservation.first() + self.number as u16
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut members = self.group.members();
        let member = &mut members.all[self.number];
        member.in_use = false;
        let is_gone = |socket: &mut Arc<RingSocket>| socket.has_lost_its_interface();
        if let Some(socket) = member.socket.take_if(is_gone) {
            drop(members);
            close(socket);
        }
    }
}
