//! The callers' endpoints of this process at one interface: sockets in one fan-out group (packet(7),
//! PACKET_FANOUT).
//!
//! The kernel looks at a frame once for the whole group: a program returns the number of the member that gets
//! it, which is the port's place in the process's block of ports. Without a group it would run the filter of
//! each socket, about 42 ns each.
//!
//! When a member leaves, the last one takes its number. So no socket is closed before all are: a socket whose
//! endpoint is dropped waits for the next one.

use crate::address::Mac;
use crate::error::OpenError;
use crate::frame::EtherType;
use crate::interface::Interface;
use crate::options::Options;
use crate::packet_ring::{RingSocket, filter, socket};
use crate::ports::{BLOCK, Reservation};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use stoop_net::fork::PerProcess;

/// A group. Its sockets are closed when the last endpoint is dropped.
#[derive(Debug)]
struct Group {
    reservation: Reservation,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    /// The kernel's number of the group, once it has a member.
    number: Option<u16>,
    all: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    socket: Arc<RingSocket>,
    in_use: bool,
}

/// All that tells apart the groups of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    namespace: u64,
    index: u32,
    mac: Mac,
    mtu: usize,
    ether_type: EtherType,
    frames: usize,
}

type Groups = Mutex<Vec<(Key, Weak<Group>)>>;

static GROUPS: PerProcess<Groups> = PerProcess::new();

impl Group {
    fn of_process(interface: &Interface, options: &Options) -> Result<Arc<Self>, OpenError> {
        let key = Key {
            namespace: interface.namespace,
            index: interface.index,
            mac: interface.mac,
            mtu: interface.mtu,
            ether_type: options.ether_type,
            frames: options.frames,
        };
        let Ok(groups) = GROUPS.get_or_try_make(|| Ok::<_, Infallible>(Mutex::default()));
        let mut groups = groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|(_, group)| group.strong_count() > 0);
        let known = groups.iter().find(|(other, _)| *other == key);
        if let Some(group) = known.and_then(|(_, group)| group.upgrade()) {
            return Ok(group);
        }
        let reservation = Reservation::of_callers(interface, options.ether_type)?;
        let group = Arc::new(Self { reservation, members: Mutex::default() });
        groups.push((key, Arc::downgrade(&group)));
        Ok(group)
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds or makes a socket that is not in use. Returns its number.
    fn take(&self, interface: &Interface, options: &Options) -> Result<usize, OpenError> {
        let mut members = self.members();
        if let Some(number) = members.all.iter().position(|member| !member.in_use) {
            members.all[number].in_use = true;
            members.all[number].socket.clear();
            return Ok(number);
        }
        let number = members.all.len();
        if number >= usize::from(BLOCK) {
            return Err(OpenError::NoneFree);
        }
        let mut group = members.number;
        let port = self.reservation.first() + number as u16;
        let socket = RingSocket::open(interface, options, port, |socket| {
            let is_first = group.is_none();
            group = Some(socket::join_group(socket, group)?);
            if is_first { socket::set_group_program(socket, &filter::member()) } else { Ok(()) }
        })?;
        members.number = group;
        members.all.push(Member { socket: Arc::new(socket), in_use: true });
        Ok(number)
    }
}

/// A socket of the group, until this is dropped.
#[derive(Debug)]
pub(super) struct Membership {
    group: Arc<Group>,
    socket: Arc<RingSocket>,
    number: usize,
}

impl Membership {
    pub(super) fn join(interface: &Interface, options: &Options) -> Result<Self, OpenError> {
        let group = Group::of_process(interface, options)?;
        let number = group.take(interface, options)?;
        let socket = Arc::clone(&group.members().all[number].socket);
        Ok(Self { group, socket, number })
    }

    pub(super) fn socket(&self) -> &Arc<RingSocket> {
        &self.socket
    }

    pub(super) fn port(&self) -> u16 {
        self.group.reservation.first() + self.number as u16
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.group.members().all[self.number].in_use = false;
    }
}
