//! A binding as a server has granted it once, and how it is got.

use crate::calling::sessions::Generation;
use crate::error::BindError;
use crate::interface::Interface;
use crate::options::BindOptions;
use crate::transport::packet::caller::now;
use crate::transport::packet::checksum;
use crate::transport::packet::options::PacketOptions;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use stoop_exchange::binder::{BindStep, Binder, Bound};
use stoop_exchange::bulk::Path;
use stoop_exchange::caller::Lost;
use stoop_exchange::outcome::{Grant, Unbound};
use stoop_exchange::{Instant, RoundTrip, caller};
use stoop_net::udp::{CallerArrival, CallerSocket, Sending};
use stoop_net::waiting::Placement;
use stoop_net::{clock, host};
use stoop_wire::bind::CHECKSUM;
use stoop_wire::{HEADER_LEN, Header, Kind, LaneId, MAX_DATAGRAM};

/// A binding as the server has granted it once.
pub(crate) struct Session {
    pub(crate) generation: u64,
    pub(crate) bound: Bound,
    path: RoundTrip,
    pub(crate) placement: Placement,
    /// The server runs on this machine: nothing between repeats packets.
    is_here: bool,
    /// The refusal because of which it replaces another one.
    pub(crate) because: Option<Unbound>,
    /// When the grant was read, by a clock that goes on while the machine sleeps.
    read: Instant,
    /// How long this machine had been asleep then, in nanoseconds.
    pub(crate) asleep_ns: u64,
    /// About this machine.
    pub(crate) own: stoop_wire::bind::HostFacts,
    /// Bytes of the longest call.
    pub(crate) longest_call: usize,
    /// The way to the server, which long calls of all threads share; known from the first one on.
    path_there: OnceLock<Mutex<Path>>,
    numbers: Mutex<LaneNumbers>,
    /// Lanes that the server grants. It refuses the calls of threads for which there is none.
    most_lanes: u16,
    /// Packets whose checksum was wrong or missing, of all sessions of the binding.
    pub(crate) corrupt: Arc<AtomicU64>,
}

/// Which of a session's lanes can be given out.
#[derive(Default)]
struct LaneNumbers {
    next: u16,
    /// Lanes whose last call was given up: the server may still be running it, and would let the next one wait.
    idle: VecDeque<(Instant, caller::Lane)>,
}

/// How long a lane rests after a call that was given up.
const REST: Duration = Duration::from_secs(60);

/// Lanes of a binding, however many the server grants.
const MOST_LANES: u16 = 16_384;

/// Of the lanes that a server grants, one of so many is only for threads that wait for their calls.
const FOR_THREADS: u16 = 16;

/// Room asked for in a lane's socket, which the kernel doubles; where it grants less, long results come in smaller parts.
const RECEIVE_BUFFER: usize = 1 << 20;

/// Bytes of it that a byte of a result may take: the kernel counts what it allocates, and some of that for longer than it
/// is there.
const BUFFER_FOR_A_BYTE: usize = 3;

/// Bytes of a result that a server may send at most before it has heard how much there is room for.
const UNASKED_MAX: u32 = 256 << 10;

impl Generation for Session {
    fn generation(&self) -> u64 {
        self.generation
    }
}

impl Session {
    /// Has the system keep what the server's machine sends back, where that shows what became of it: on this machine.
    pub(crate) fn prepare(&self, socket: &CallerSocket) {
        if self.is_here {
            // Without it nothing is shown.
            let _ = socket.keep_sent_back();
        }
    }

    /// Hands to `take` the beginnings of the packets that have come back from a closed port.
    #[cold]
    pub(crate) fn take_sent_back(&self, socket: &CallerSocket, mut take: impl FnMut(&[u8])) {
        if !self.is_here {
            return;
        }
        let mut packet = [0; HEADER_LEN];
        while let Some(len) = socket.sent_back(&mut packet) {
            take(&packet[..len]);
        }
    }

    /// Whether the latest call of `lane`, which is given up, has certainly not run: nobody listened at the server's port whenever it was
    /// sent.
    pub(crate) fn shows_nobody_listened(&self, lane: &caller::Lane, lost: Lost) -> bool {
        lost == Lost::PortClosed && self.is_here && lane.last_came_back()
    }

    /// The session, which replaces another one because of that refusal.
    pub(crate) fn because(self, refusal: Unbound) -> Self {
        Self { because: Some(refusal), ..self }
    }

    /// What the exchange is to know of it, to judge a call on a binding that was lost.
    pub(crate) fn grant(&self) -> Grant<'_> {
        Grant { bound: &self.bound, read: self.read }
    }

    /// The way to the server, if a large call has asked for it.
    pub(crate) fn known_path(&self) -> Option<&Mutex<Path>> {
        self.path_there.get()
    }

    /// The way to the server, for calls of many packets; `socket` is one that leads there.
    pub(crate) fn path_there(&self, socket: &CallerSocket, round_trip: RoundTrip) -> &Mutex<Path> {
        self.path_there.get_or_init(|| {
            let largest = self.bound.binding.data_in(socket.largest_datagram().unwrap_or(MAX_DATAGRAM));
            let seed = u64::from_le_bytes(host::random_bytes());
            let largest = u32::try_from(largest).unwrap_or(u32::MAX);
            Mutex::new(Path::of(self.bound.binding, largest, round_trip, seed))
        })
    }

    /// A lane that no thread uses: new, or well rested.
    pub(crate) fn lane(&self, options: &BindOptions) -> caller::Lane {
        self.lane_of(&mut self.numbers(), options)
    }

    /// As [`lane`](Self::lane), for a call that no thread need wait for: none when there are so many already that threads
    /// would find none.
    pub(crate) fn another_lane(&self, options: &BindOptions) -> Option<caller::Lane> {
        let mut numbers = self.numbers();
        let rested = numbers.idle.front().is_some_and(|(since, _)| now().since(*since) >= REST);
        let available = rested || numbers.next < self.most_lanes - self.most_lanes.div_ceil(FOR_THREADS);
        available.then(|| self.lane_of(&mut numbers, options))
    }

    /// Lets a lane rest, and gives its thread another.
    pub(crate) fn give_another(&self, lane: &mut caller::Lane, options: &BindOptions) {
        let mut numbers = self.numbers();
        // The server allows no more, and all are in use: it stays with this one.
        if numbers.next >= self.most_lanes && numbers.idle.is_empty() {
            return;
        }
        let other = self.lane_of(&mut numbers, options);
        numbers.idle.push_back((now(), std::mem::replace(lane, other)));
    }

    fn numbers(&self) -> MutexGuard<'_, LaneNumbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lane_of(&self, numbers: &mut LaneNumbers, options: &BindOptions) -> caller::Lane {
        let rested = numbers.idle.front().is_some_and(|(since, _)| now().since(*since) >= REST);
        if (rested || numbers.next >= self.most_lanes)
            && let Some((_, lane)) = numbers.idle.pop_front()
        {
            return lane;
        }
        let number = LaneId(numbers.next);
        numbers.next = numbers.next.saturating_add(1);
        let seed = u64::from_le_bytes(host::random_bytes());
        let mut lane = caller::Lane::new(self.bound.binding, number, self.path, seed);
        lane.set_silence_limit(options.own.of::<PacketOptions>().client_silence_limit());
        lane
    }
}

/// Whether a binding in the making may take the packet. It takes a challenge without a checksum, also of a server that knows no
/// checksums and is about to refuse them: a cookie that is wrong leads to another challenge.
fn is_sound(packet: &[u8]) -> bool {
    let is_challenge = || Header::parse(packet).is_ok_and(|(header, _)| header.kind == Kind::Challenge);
    checksum::is_right(packet) || is_challenge()
}

/// A socket to the server, and how many bytes of a result may be on their way to it.
pub(crate) fn connect(server: SocketAddr) -> io::Result<(CallerSocket, u32)> {
    let socket = CallerSocket::connect(server)?;
    let granted = socket.set_receive_buffer(RECEIVE_BUFFER)?;
    Ok((socket, u32::try_from(granted / BUFFER_FOR_A_BYTE).unwrap_or(u32::MAX)))
}

/// A session, and a socket for its first lane.
pub(crate) type Granted = (Session, (CallerSocket, u32));

/// Gets a binding from the server at that address.
pub(crate) fn grant(
    interface: &'static Interface,
    uri: &str,
    server: SocketAddr,
    deadline: Instant,
    options: &BindOptions,
    generation: u64,
) -> Result<Granted, BindError> {
    let unreachable = |cause: io::Error| BindError::Unreachable { server: uri.into(), cause };
    let (socket, window) = connect(server).map_err(unreachable)?;
    let own = host::HostFacts::gather();
    let nonce = u64::from_le_bytes(host::random_bytes());
    let begun = now();
    // What travels has 32 bits for its length.
    let max_message = u32::try_from(options.max_message).unwrap_or(u32::MAX);
    let mut binder =
        Binder::new(begun, deadline, interface.for_exchange(), crate::host_facts::to_wire(&own), nonce)
            .accepting(max_message, window.min(UNASKED_MAX))
            .asking(if options.own.of::<PacketOptions>().checksum { CHECKSUM } else { 0 }, 0);
    let mut packet = vec![0; MAX_DATAGRAM];
    let mut refused = 0;
    let bound = loop {
        let mut news = CallerArrival::Nothing;
        if let Some(question) = binder.transmit(now())
            && checksum::send(&socket, &question).map_err(unreachable)? == Sending::Refused
        {
            news = CallerArrival::Refused;
        }
        if news == CallerArrival::Nothing {
            let wait = binder.next_timeout().since(now());
            news = socket.recv_within(&mut packet, wait.as_nanos() as u64).map_err(unreachable)?;
        }
        match news {
            CallerArrival::Datagram(len) if !is_sound(&packet[..len]) => {}
            CallerArrival::Datagram(len) => match binder.handle_packet(now(), &packet[..len]) {
                BindStep::Continue => {}
                BindStep::Bound(bound) => break bound,
                step => return Err(crate::calling::refused_bind::not_bound(step, interface, uri)),
            },
            // Asked twice, for the first news may be of a packet that another binding sent.
            CallerArrival::Refused if refused == 1 => {
                return Err(unreachable(io::ErrorKind::ConnectionRefused.into()));
            }
            CallerArrival::Refused => refused += 1,
            CallerArrival::Nothing | CallerArrival::TooLarge(_) => {}
        }
        if binder.has_expired(now()) {
            return Err(BindError::NoAnswer { server: uri.into(), waited: now().since(begun) });
        }
    };
    let theirs = crate::host_facts::from_wire(&bound.host);
    let (placement, is_here) = (Placement::of(&own, &theirs), own.shares_kernel_with(&theirs));
    let path = binder.path();
    let (asleep_ns, read) = (clock::asleep_ns(), Instant::from_nanos(clock::boot_now_ns()));
    let longest_call = bound.max_message.min(max_message) as usize;
    let path_there = OnceLock::new();
    let numbers = Mutex::default();
    let corrupt = Arc::default();
    let most_lanes = u16::try_from(bound.lanes).unwrap_or(MOST_LANES).min(MOST_LANES);
    let own = crate::host_facts::to_wire(&own);
    let session = Session {
        generation,
        bound,
        path,
        placement,
        is_here,
        because: None,
        read,
        asleep_ns,
        own,
        longest_call,
        path_there,
        numbers,
        most_lanes,
        corrupt,
    };
    session.prepare(&socket);
    Ok((session, (socket, window)))
}
