//! The endpoint of a caller's lanes: their own, or one that they share with the other bindings to the same server.
//!
//! A shared endpoint needs one thread to receive for all: the thread that holds its receive role copies each packet to the mailbox of
//! the lane to which it belongs, and notifies the thread of that lane if it sleeps. The binding and the lane in the packet's header
//! tell which mailbox that is.

use crate::calling::receive_role::{Pause, ReceiveRole, RoleGuard};
use crate::calling::waiting_thread::WaitingThread;
use crate::transport::packet::link::{
    CallerArrival, CallerEndpoint, HandedOver, PacketLink, Segments, Sending, Share,
};
use crate::transport::packet::now;
use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};
use stoop_net::fork::PerProcess;
use stoop_wire::{BindingId, HEADER_LEN, LaneId};

/// A caller's endpoint.
pub(crate) enum Endpoint<L: PacketLink> {
    /// The lane has one of its own.
    Own(L::Caller),
    Shared(SharedEndpoint<L::Caller>),
}

/// One user of an endpoint that several share: a lane, or a table of begun calls.
pub(crate) struct SharedEndpoint<E> {
    shared: Arc<Shared<E>>,
    mailbox: Arc<Mailbox>,
    /// The lanes of this user.
    keys: Mutex<Vec<Key>>,
}

/// An endpoint that several users share.
pub(crate) struct Shared<E> {
    endpoint: E,
    /// The thread that holds the role receives packets into this.
    role: ReceiveRole<Vec<u8>>,
    mailboxes: RwLock<HashMap<Key, Arc<Mailbox>>>,
    /// Packets may arrive together: some user expects many.
    many: AtomicBool,
    /// How many users there are.
    users: AtomicUsize,
}

/// The endpoints that bindings share, by the address of the server.
pub(crate) type SharedEndpoints<E> = PerProcess<Mutex<Vec<(String, Weak<Shared<E>>)>>>;

/// A lane of a binding.
type Key = (BindingId, LaneId);

/// What has arrived for one user of a shared endpoint.
#[derive(Default)]
struct Mailbox {
    /// Looked at without the lock: how many of `arrivals` there are.
    count: AtomicUsize,
    arrivals: Mutex<Arrivals>,
}

#[derive(Default)]
struct Arrivals {
    /// A packet, or `None` for the news that the server's port is closed.
    packets: VecDeque<Option<Vec<u8>>>,
    /// Beginnings of packets that the closed port has sent back.
    sent_back: VecDeque<Vec<u8>>,
    /// Memory for packets.
    unused: Vec<Vec<u8>>,
    /// The thread that waits for them while another receives.
    thread: Option<Arc<WaitingThread>>,
}

/// Bytes of packets that arrive together, at most.
const BUFFER_LEN: usize = 64 << 10;

/// Bytes of a long result that may be on their way to one user in any case.
const LEAST_WINDOW: u32 = 64 << 10;

/// Packets that wait in a mailbox at most; the others are lost, as they are where a socket's buffer is full.
const MAILBOX_MAX: usize = 4096;

/// Packets whose memory a mailbox keeps for later ones.
const UNUSED_MAX: usize = 64;

impl<L: PacketLink> Endpoint<L> {
    /// Opens an endpoint that leads to `server`: one of its own, or the one that the bindings of this process share.
    pub(crate) fn connect(server: &L::Address, share: Share, is_shared: bool) -> io::Result<Self> {
        if !is_shared {
            return Ok(Self::Own(L::connect(server, share)?));
        }
        let name = server.to_string();
        let Ok(endpoints) = L::shared_endpoints().get_or_try_make(|| Ok::<_, Infallible>(Mutex::default()));
        let mut endpoints = endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        endpoints.retain(|(_, shared)| shared.strong_count() > 0);
        let known = endpoints.iter().find(|(other, _)| *other == name);
        if let Some(shared) = known.and_then(|(_, shared)| shared.upgrade()) {
            return Ok(Self::Shared(SharedEndpoint::of(shared, share)));
        }
        let endpoint = L::connect(server, Share::ManyLanes)?;
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
        Ok(Self::Shared(SharedEndpoint::of(shared, share)))
    }
}

impl Mailbox {
    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Puts a packet, or the news of a closed port, into the mailbox and notifies the thread that waits for it.
    fn put(&self, packet: Option<&[u8]>) {
        let mut arrivals = self.arrivals();
        if arrivals.packets.len() < MAILBOX_MAX {
            let packet = packet.map(|packet| {
                let mut memory = arrivals.unused.pop().unwrap_or_default();
                memory.clear();
                memory.extend_from_slice(packet);
                memory
            });
            arrivals.packets.push_back(packet);
            self.count.store(arrivals.packets.len(), Ordering::Release);
        }
        if let Some(thread) = &arrivals.thread {
            thread.notify();
        }
    }

    /// Takes packets of equal length, as many as have arrived and fit into `buffer`; at most `most`.
    fn take(&self, buffer: &mut [u8], most: usize) -> Option<CallerArrival<Segments>> {
        if self.is_empty() {
            return None;
        }
        let mut arrivals = self.arrivals();
        let (mut len, mut segment, mut taken) = (0, 0, 0);
        let arrival = loop {
            match arrivals.packets.front() {
                None => break CallerArrival::Datagram(Segments { len, segment }),
                Some(None) if taken == 0 => {
                    arrivals.packets.pop_front();
                    break CallerArrival::Refused;
                }
                Some(Some(packet))
                    if taken < most
                        && len + packet.len() <= buffer.len()
                        && (taken == 0 || packet.len() == segment) =>
                {
                    segment = packet.len();
                    buffer[len..len + segment].copy_from_slice(packet);
                    (len, taken) = (len + segment, taken + 1);
                    let memory = arrivals.packets.pop_front().flatten();
                    if arrivals.unused.len() < UNUSED_MAX {
                        arrivals.unused.extend(memory);
                    }
                }
                Some(_) => break CallerArrival::Datagram(Segments { len, segment }),
            }
        };
        self.count.store(arrivals.packets.len(), Ordering::Release);
        Some(arrival).filter(|arrival| *arrival != CallerArrival::Datagram(Segments { len: 0, segment: 0 }))
    }
}

impl<E: CallerEndpoint> Shared<E> {
    fn mailboxes(&self) -> RwLockReadGuard<'_, HashMap<Key, Arc<Mailbox>>> {
        self.mailboxes.read().unwrap_or_else(PoisonError::into_inner)
    }

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
            Err(_) => self.take_sent_back(),
        }
    }

    /// The server's port is closed: tells all users.
    #[cold]
    fn tell_refused(&self) {
        self.take_sent_back();
        let mut told = HashSet::new();
        for mailbox in self.mailboxes().values() {
            if told.insert(Arc::as_ptr(mailbox)) {
                mailbox.put(None);
            }
        }
    }

    #[cold]
    fn take_sent_back(&self) {
        let mut packet = [0; HEADER_LEN];
        while let Some(len) = self.endpoint.next_sent_back(&mut packet) {
            if let Some(mailbox) = self.mailbox(&packet[..len]) {
                mailbox.arrivals().sent_back.push_back(packet[..len].to_vec());
            }
        }
    }
}

fn key(packet: &[u8]) -> Option<Key> {
    let header = packet.first_chunk::<HEADER_LEN>()?;
    Some((BindingId::of_header(header), LaneId::of_packet(packet)?))
}

impl<E: CallerEndpoint> SharedEndpoint<E> {
    fn of(shared: Arc<Shared<E>>, share: Share) -> Self {
        shared.users.fetch_add(1, Ordering::Relaxed);
        if share == Share::ManyLanes {
            shared.expect_many();
        }
        Self { shared, mailbox: Arc::default(), keys: Mutex::default() }
    }

    /// Has the packets for a lane come to this mailbox.
    fn enter(&self, key: Key) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).push(key);
        let mut mailboxes = self.shared.mailboxes.write().unwrap_or_else(PoisonError::into_inner);
        mailboxes.insert(key, Arc::clone(&self.mailbox));
    }

    /// Takes what has arrived for this user; receives for all if no other thread does. Sleeps for about `about_ns` and at most
    /// `latest_ns` nanoseconds if nothing is there; it may return before with nothing.
    fn receive(
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
            // The thread that had the role before may have put something there.
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
        let arrival = match (latest_ns, many.load(Ordering::Relaxed)) {
            (0, true) => endpoint.receive_many(&mut role),
            (_, true) => endpoint.receive_many_about(&mut role, about_ns, latest_ns),
            (0, false) => endpoint.receive(&mut role).map(together),
            (_, false) => endpoint.receive_about(&mut role, about_ns, latest_ns).map(together),
        };
        match arrival {
            Ok(CallerArrival::Nothing) => return Ok(CallerArrival::Nothing),
            // Nearly always: one packet, for the thread that receives.
            Ok(CallerArrival::Datagram(Segments { len, segment })) if len == segment => {
                let latest = self.keys.lock().unwrap_or_else(PoisonError::into_inner).last().copied();
                if latest.is_some() && latest == key(&role[..len]) {
                    buffer[..len].copy_from_slice(&role[..len]);
                    return Ok(CallerArrival::Datagram(Segments { len, segment }));
                }
            }
            _ => {}
        }
        self.shared.distribute(arrival, &role);
        Ok(self.mailbox.take(buffer, most).unwrap_or(CallerArrival::Nothing))
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

impl<E> Drop for SharedEndpoint<E> {
    fn drop(&mut self) {
        self.shared.users.fetch_sub(1, Ordering::Relaxed);
        let keys = self.keys.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut mailboxes = self.shared.mailboxes.write().unwrap_or_else(PoisonError::into_inner);
        // A lane may have been given to another user since.
        for key in keys.iter() {
            if mailboxes.get(key).is_some_and(|mailbox| Arc::ptr_eq(mailbox, &self.mailbox)) {
                mailboxes.remove(key);
            }
        }
    }
}

/// As packets that have arrived together.
fn together(arrival: CallerArrival) -> CallerArrival<Segments> {
    match arrival {
        CallerArrival::Datagram(len) => CallerArrival::Datagram(Segments { len, segment: len }),
        CallerArrival::TooLarge(len) => CallerArrival::TooLarge(len),
        CallerArrival::Nothing => CallerArrival::Nothing,
        CallerArrival::Refused => CallerArrival::Refused,
    }
}

/// As a number of bytes, for a user that takes one packet at a time.
fn single(arrival: CallerArrival<Segments>) -> CallerArrival {
    match arrival {
        CallerArrival::Datagram(segments) => CallerArrival::Datagram(segments.len),
        CallerArrival::TooLarge(len) => CallerArrival::TooLarge(len),
        CallerArrival::Nothing => CallerArrival::Nothing,
        CallerArrival::Refused => CallerArrival::Refused,
    }
}

impl<L: PacketLink> CallerEndpoint for Endpoint<L> {
    type Room = <L::Caller as CallerEndpoint>::Room;

    #[inline]
    fn send(&self, packet: &[u8]) -> io::Result<Sending> {
        match self {
            Self::Own(own) => own.send(packet),
            Self::Shared(user) => user.shared.endpoint.send(packet),
        }
    }

    fn send_many(&self, packets: &[u8], segment: usize, failed: impl FnMut(usize, io::Error)) {
        match self {
            Self::Own(own) => own.send_many(packets, segment, failed),
            Self::Shared(user) => {
                user.shared.endpoint.send_many(packets, segment, failed);
            }
        }
    }

    fn send_room(&self, room: &Self::Room, is_probe: bool) -> io::Result<HandedOver> {
        match self {
            Self::Own(own) => own.send_room(room, is_probe),
            Self::Shared(user) => user.shared.endpoint.send_room(room, is_probe),
        }
    }

    fn send_gathered(
        &self,
        pieces: &[IoSlice<'_>],
        segment: usize,
        is_probe: bool,
    ) -> io::Result<HandedOver> {
        match self {
            Self::Own(own) => own.send_gathered(pieces, segment, is_probe),
            Self::Shared(user) => user.shared.endpoint.send_gathered(pieces, segment, is_probe),
        }
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> io::Result<CallerArrival> {
        match self {
            Self::Own(own) => own.receive(buffer),
            Self::Shared(user) => user.receive(buffer, 1, (0, 0)).map(single),
        }
    }

    #[inline]
    fn receive_about(&self, buffer: &mut [u8], about_ns: u64, latest_ns: u64) -> io::Result<CallerArrival> {
        match self {
            Self::Own(own) => own.receive_about(buffer, about_ns, latest_ns),
            Self::Shared(user) => user.receive(buffer, 1, (about_ns, latest_ns)).map(single),
        }
    }

    #[inline]
    fn receive_many(&self, buffer: &mut [u8]) -> io::Result<CallerArrival<Segments>> {
        match self {
            Self::Own(own) => own.receive_many(buffer),
            Self::Shared(user) => user.receive(buffer, usize::MAX, (0, 0)),
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
            user.enter((binding, lane));
        }
    }

    fn expect_many(&self, on: bool) {
        match self {
            Self::Own(own) => own.expect_many(on),
            Self::Shared(user) if on => user.shared.expect_many(),
            // Other users may.
            Self::Shared(_) => {}
        }
    }

    fn window(&self) -> u32 {
        match self {
            Self::Own(own) => own.window(),
            Self::Shared(SharedEndpoint { shared, .. }) => {
                let users = shared.users.load(Ordering::Relaxed).max(1) as u32;
                (shared.endpoint.window() / users).max(LEAST_WINDOW)
            }
        }
    }

    fn largest_packet(&self) -> io::Result<usize> {
        match self {
            Self::Own(own) => own.largest_packet(),
            Self::Shared(user) => user.shared.endpoint.largest_packet(),
        }
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
            Self::Shared(user) => {
                user.shared.take_sent_back();
                let packet = user.mailbox.arrivals().sent_back.pop_front()?;
                let len = packet.len().min(buffer.len());
                buffer[..len].copy_from_slice(&packet[..len]);
                Some(len)
            }
        }
    }
}
