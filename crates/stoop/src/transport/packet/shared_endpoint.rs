//! An endpoint that the lanes of all bindings of a process to one server share.
//!
//! One thread at a time receives for all users, the one that holds the receive role. It copies each packet to the mailbox of the user
//! whose lane is in the packet's header, and notifies the thread of that user if it sleeps.

use crate::calling::receive_role::{Pause, ReceiveRole, RoleGuard};
use crate::calling::waiting_thread::WaitingThread;
use crate::locked::locked;
use crate::transport::packet::caller_endpoint::{CallerEndpoint, Share};
use crate::transport::packet::mailbox::Mailbox;
use crate::transport::packet::now;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fmt::Display;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use stoop_net::fork::PerProcess;
use stoop_net::packets::{CallerArrival, Segments};
use stoop_wire::{BindingId, HEADER_LEN, LaneId};

/// Bytes of packets that arrive together, at most.
const BUFFER_LEN: usize = 64 << 10;

/// Bytes of a long result that may be on their way to one user in any case.
const LEAST_WINDOW: u32 = 64 << 10;

/// One user of a shared endpoint: a lane, or a table of begun calls.
pub(crate) struct SharedEndpoint<E> {
    shared: Arc<Shared<E>>,
    mailbox: Arc<Mailbox>,
    served: Mutex<Served>,
}

/// The lanes whose packets come to a user: lanes of its binding's present session.
#[derive(Default)]
struct Served {
    lanes: HashSet<LaneId>,
    /// The lane that was added last, and the session's binding.
    latest: Option<Key>,
}

/// The endpoint, and the mailboxes of its users.
pub(crate) struct Shared<E> {
    endpoint: E,
    /// The role, with the memory into which its thread receives.
    role: ReceiveRole<Vec<u8>>,
    mailboxes: RwLock<Mailboxes>,
    /// Packets may arrive together: some user expects many.
    many: AtomicBool,
    /// How many users there are.
    users: AtomicUsize,
}

/// The endpoints that bindings share, by the address of the server.
pub(crate) struct SharedEndpoints<E: 'static>(PerProcess<Mutex<Endpoints<E>>>);

type Endpoints<E> = Vec<(String, Weak<Shared<E>>)>;

/// A lane of a binding.
type Key = (BindingId, LaneId);

type Mailboxes = HashMap<Key, Arc<Mailbox>, BuildHasherDefault<KeyHasher>>;

/// Mixes the numbers of a binding and a lane. One look at the map for each packet is the most frequent use, and a server that chose
/// bindings of equal hash would slow its own callers only.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    /// Multiplies by 2⁶⁴ divided by the golden ratio.
    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

impl<E> Shared<E> {
    fn mailboxes(&self) -> RwLockReadGuard<'_, Mailboxes> {
        self.mailboxes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn mailboxes_mut(&self) -> RwLockWriteGuard<'_, Mailboxes> {
        self.mailboxes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: CallerEndpoint> Shared<E> {
    fn mailbox(&self, packet: &[u8]) -> Option<Arc<Mailbox>> {
        self.mailboxes().get(&key(packet)?).cloned()
    }

    fn expect_many(&self) {
        // Packets that arrive together for a thread that has begun to receive single ones are lost; they are sent again.
        if !self.many.swap(true, Ordering::Relaxed) {
            self.endpoint.expect_many(true);
        }
    }

    /// Puts the packets that have arrived into the mailboxes of their lanes.
    fn distribute(&self, arrival: io::Result<CallerArrival<Segments>>, packets: &[u8]) {
        match arrival {
            Ok(CallerArrival::Datagram(segments)) => {
                for packet in segments.split(packets) {
                    if let Some(mailbox) = self.mailbox(packet) {
                        mailbox.put(Some(packet));
                    }
                }
            }
            Ok(CallerArrival::Refused) => self.tell_refused(),
            Ok(CallerArrival::Nothing | CallerArrival::TooLarge(_)) => {}
            Err(_) => {
                self.take_sent_back();
            }
        }
    }

    /// Reports that the server's port is closed: to the users whose packets came back, or to all, if the system has kept no packet.
    #[cold]
    fn tell_refused(&self) {
        if !self.take_sent_back() {
            let mut told = HashSet::new();
            for mailbox in self.mailboxes().values() {
                if told.insert(Arc::as_ptr(mailbox)) {
                    mailbox.put(None);
                }
            }
        }
    }

    /// Gives the packets that a closed port has sent back to their users, each with a report. Returns whether there were any.
    #[cold]
    fn take_sent_back(&self) -> bool {
        let (mut packet, mut told) = ([0; HEADER_LEN], HashSet::new());
        let mut any = false;
        while let Some(len) = self.endpoint.next_sent_back(&mut packet) {
            any = true;
            if let Some(mailbox) = self.mailbox(&packet[..len]) {
                mailbox.arrivals().sent_back.push_back(packet[..len].to_vec());
                if told.insert(Arc::as_ptr(&mailbox)) {
                    mailbox.put(None);
                }
            }
        }
        any
    }
}

/// The endpoint to the server of this name, if one has a user.
fn find<E>(endpoints: &mut Endpoints<E>, name: &str) -> Option<Arc<Shared<E>>> {
    endpoints.retain(|(_, shared)| shared.strong_count() > 0);
    endpoints.iter().find(|(other, _)| other == name).and_then(|(_, shared)| shared.upgrade())
}

fn key(packet: &[u8]) -> Option<Key> {
    let header = packet.first_chunk::<HEADER_LEN>()?;
    Some((BindingId::of_header(header), LaneId::of_packet(packet)?))
}

impl<E: CallerEndpoint> SharedEndpoints<E> {
    pub(crate) const fn new() -> Self {
        Self(PerProcess::new())
    }

    /// Those of this process.
    fn endpoints(&'static self) -> MutexGuard<'static, Endpoints<E>> {
        let Ok(endpoints) = self.0.get_or_try_make(|| Ok::<_, Infallible>(Mutex::default()));
        locked(endpoints)
    }

    /// A user of the endpoint that the bindings of this process share for `server`. `open` opens it if it has no user yet.
    ///
    /// # Errors
    /// Those of `open`.
    #[inline(never)]
    pub(crate) fn connect(
        &'static self,
        server: &impl Display,
        share: Share,
        open: impl FnOnce() -> io::Result<E>,
    ) -> io::Result<SharedEndpoint<E>> {
        let name = server.to_string();
        let mut endpoints = self.endpoints();
        if let Some(shared) = find(&mut endpoints, &name) {
            return Ok(SharedEndpoint::of(shared, share));
        }
        let endpoint = open()?;
        endpoint.expect_many(false);
        endpoint.keep_sent_back();
        let shared = Arc::new(Shared {
            endpoint,
            role: ReceiveRole::new(vec![0; BUFFER_LEN]),
            mailboxes: RwLock::default(),
            many: AtomicBool::new(false),
            users: AtomicUsize::new(0),
        });
        endpoints.push((name, Arc::downgrade(&shared)));
        Ok(SharedEndpoint::of(shared, share))
    }

    /// Whether the endpoint that the bindings of this process share for `server` has a user.
    #[cfg(any(feature = "ether", test))]
    pub(crate) fn is_in_use(&'static self, server: &impl Display) -> bool {
        find(&mut self.endpoints(), &server.to_string()).is_some()
    }
}

impl<E: CallerEndpoint> SharedEndpoint<E> {
    /// The endpoint itself, to send.
    pub(crate) fn base(&self) -> &E {
        &self.shared.endpoint
    }

    pub(crate) fn expect_many(&self) {
        self.shared.expect_many();
    }

    /// This user's part of the endpoint's window.
    pub(crate) fn window(&self) -> u32 {
        let users = self.shared.users.load(Ordering::Relaxed).max(1) as u32;
        (self.shared.endpoint.window() / users).max(LEAST_WINDOW)
    }

    /// As [`CallerEndpoint::next_sent_back`].
    pub(crate) fn next_sent_back(&self, buffer: &mut [u8]) -> Option<usize> {
        self.shared.take_sent_back();
        let packet = self.mailbox.arrivals().sent_back.pop_front()?;
        let len = packet.len().min(buffer.len());
        buffer[..len].copy_from_slice(&packet[..len]);
        Some(len)
    }

    fn of(shared: Arc<Shared<E>>, share: Share) -> Self {
        shared.users.fetch_add(1, Ordering::Relaxed);
        if share == Share::ManyLanes {
            shared.expect_many();
        }
        Self { shared, mailbox: Arc::default(), served: Mutex::default() }
    }

    fn served(&self) -> MutexGuard<'_, Served> {
        locked(&self.served)
    }

    /// As [`CallerEndpoint::serve_lane`]. When the binding has been made again, packets of its earlier sessions are not needed any
    /// more: their calls are sent again or have ended.
    pub(crate) fn serve_lane(&self, binding: BindingId, lane: LaneId) {
        let (mut served, mut mailboxes) = (self.served(), self.shared.mailboxes_mut());
        if served.latest.is_some_and(|(before, _)| before != binding) {
            served.leave(&self.mailbox, &mut mailboxes);
        }
        served.lanes.insert(lane);
        served.latest = Some((binding, lane));
        mailboxes.insert((binding, lane), Arc::clone(&self.mailbox));
    }

    /// Takes at most `most` packets for this user; receives for all users if no other thread does. If no packet is there, sleeps for
    /// about `about_ns` and at most `latest_ns` nanoseconds, or less, without reason.
    #[inline(never)]
    pub(crate) fn receive(
        &self,
        buffer: &mut [u8],
        most: usize,
        (about_ns, latest_ns): (u64, u64),
    ) -> io::Result<CallerArrival<Segments>> {
        if let Some(arrival) = self.mailbox.take(buffer, most) {
            return Ok(arrival);
        }
        let role = match self.shared.role.try_take() {
            Some(role) => Some(role),
            None if latest_ns > 0 => self.follow(about_ns.min(latest_ns)),
            None => None,
        };
        if let Some(role) = role
            // The thread that had the role before may have put a packet there.
            && self.mailbox.is_empty()
        {
            return self.receive_for_all(role, buffer, most, (about_ns, latest_ns));
        }
        Ok(self.mailbox.take(buffer, most).unwrap_or(CallerArrival::Nothing))
    }

    fn receive_for_all(
        &self,
        mut role: RoleGuard<'_, Vec<u8>>,
        buffer: &mut [u8],
        most: usize,
        (about_ns, latest_ns): (u64, u64),
    ) -> io::Result<CallerArrival<Segments>> {
        let Shared { endpoint, many, .. } = &*self.shared;
        // Nearly always all packets are this user's.
        let is_direct = buffer.len() >= BUFFER_LEN;
        let memory = if is_direct { &mut *buffer } else { &mut role[..] };
        let arrival = match (latest_ns, many.load(Ordering::Relaxed)) {
            (0, true) => endpoint.receive_many(memory),
            (_, true) => endpoint.receive_many_about(memory, about_ns, latest_ns),
            (0, false) => endpoint.receive(memory).map(alone),
            (_, false) => endpoint.receive_about(memory, about_ns, latest_ns).map(alone),
        };
        match arrival {
            Ok(CallerArrival::Nothing) => return Ok(CallerArrival::Nothing),
            Ok(CallerArrival::Datagram(segments)) if self.are_own(segments, memory, most) => {
                if !is_direct {
                    buffer[..segments.len].copy_from_slice(&role[..segments.len]);
                }
                return Ok(CallerArrival::Datagram(segments));
            }
            _ => {}
        }
        self.shared.distribute(arrival, memory);
        Ok(self.mailbox.take(buffer, most).unwrap_or(CallerArrival::Nothing))
    }

    /// Whether all of the packets, at most `most`, are for this user.
    #[inline]
    fn are_own(&self, segments: Segments, packets: &[u8], most: usize) -> bool {
        if segments.count() == 1 {
            let latest = self.served().latest;
            if latest.is_some() && latest == key(&packets[..segments.len]) {
                return true;
            }
        }
        let mailboxes = self.shared.mailboxes();
        let is_own = |packet| {
            let mailbox = key(packet).and_then(|key| mailboxes.get(&key));
            mailbox.is_some_and(|mailbox| Arc::ptr_eq(mailbox, &self.mailbox))
        };
        segments.count() <= most && segments.split(packets).all(is_own)
    }

    /// Sleeps while another thread receives, for `limit_ns` nanoseconds at most. Returns the role if it becomes free before something
    /// arrives.
    fn follow(&self, limit_ns: u64) -> Option<RoleGuard<'_, Vec<u8>>> {
        let (thread, end) = (WaitingThread::current(), now().after_nanos(limit_ns));
        self.mailbox.arrivals().thread = Some(Arc::clone(&thread));
        let is_over = || !self.mailbox.is_empty();
        let pause = || match end.nanos_since(now()) {
            0 => Pause::End,
            left_ns => Pause::Sleep(left_ns),
        };
        let role = self.shared.role.follow(&thread, is_over, pause);
        self.mailbox.arrivals().thread = None;
        role
    }
}

impl Served {
    /// Packets of these lanes do not go to `mailbox` any more.
    fn leave(&mut self, mailbox: &Arc<Mailbox>, mailboxes: &mut Mailboxes) {
        let Some((binding, _)) = self.latest else { return };
        for lane in self.lanes.drain() {
            // A lane may have been given to another user since.
            let key = (binding, lane);
            if mailboxes.get(&key).is_some_and(|other| Arc::ptr_eq(other, mailbox)) {
                mailboxes.remove(&key);
            }
        }
    }
}

impl<E> Drop for SharedEndpoint<E> {
    fn drop(&mut self) {
        self.shared.users.fetch_sub(1, Ordering::Relaxed);
        locked(&self.served).leave(&self.mailbox, &mut self.shared.mailboxes_mut());
    }
}

/// As packets that have arrived together, of which there is one.
fn alone(arrival: CallerArrival) -> CallerArrival<Segments> {
    arrival.map(|len| Segments { len, segment: len })
}

#[cfg(test)]
mod tests;
