//! A peer of a server over shared memory that is made by hand, and does what no client of ours would do.

mod between;
mod dice;

pub(crate) use between::Between;
pub(crate) use dice::Dice;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};
use stoop_exchange::binder::{BindStep, Binder, Bound};
use stoop_exchange::{Interface, Procedure};
use stoop_shm::layout::{CHANNELS, CHUNK, CHUNKS, LANES, LINE, RING, SLOT};
use stoop_shm::{Answers, Request, RequestKind, Requests, Segment, descriptors};
use stoop_wire::bind::HostFacts;
use stoop_wire::{CallNumber, HEADER_LEN, Header, Kind, LaneId, UnbindReason};

/// Its end of a binding.
pub(crate) struct Peer {
    pub(crate) socket: UnixStream,
    pub(crate) segment: Segment,
    pub(crate) requests: Requests,
    /// The procedures' numbers at the server.
    pub(crate) procedures: Vec<u16>,
    /// By writing to the file of the memory, anything can be changed there.
    memory: File,
    bell: File,
}

/// Where a server listens, by its address.
pub(crate) fn address(uri: &str) -> SocketAddr {
    let name = uri.strip_prefix("shm:").unwrap();
    SocketAddr::from_abstract_name(format!("stoop-shm/{name}")).unwrap()
}

pub(crate) fn connect(uri: &str) -> UnixStream {
    let socket = UnixStream::connect_addr(&address(uri)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

/// Receives a packet of the handshake; `None` at the end of the connection.
pub(crate) fn receive(socket: &mut UnixStream) -> Option<Vec<u8>> {
    let mut packet = vec![0; HEADER_LEN];
    socket.read_exact(&mut packet).ok()?;
    let header = Header::from_bytes(packet.first_chunk().unwrap()).unwrap();
    packet.resize(HEADER_LEN + header.message_len as usize, 0);
    socket.read_exact(&mut packet[HEADER_LEN..]).ok()?;
    Some(packet)
}

/// Binds over a connection, and asks for no memory yet. `None` if the server ends the connection.
pub(crate) fn bind(socket: &mut UnixStream, interface: &stoop::stub::Interface) -> Option<Bound> {
    let procedure = |p: &stoop::stub::Procedure| Procedure { name: p.name.into(), signature: p.signature() };
    let interface = Interface {
        name: interface.name.into(),
        procedures: interface.procedures.iter().map(procedure).collect(),
        ..Interface::default()
    };
    let begun = Instant::now();
    let now = || stoop_exchange::Instant::from_nanos(begun.elapsed().as_nanos() as u64);
    // Of this machine, and able to run beside the server.
    let boot_id = stoop_net::host::HostFacts::gather().boot_id;
    let host = HostFacts { boot_id, cpus: u16::MAX, only_cpu: HostFacts::SEVERAL };
    let mut binder = Binder::new(now(), now() + Duration::from_secs(60), interface, host, 7);
    socket.write_all(&binder.transmit(now())?).ok()?;
    loop {
        match binder.handle_packet(now(), &receive(socket)?) {
            BindStep::Bound(bound) => return Some(bound),
            BindStep::Continue => {
                if let Some(question) = binder.transmit(now()) {
                    socket.write_all(&question).ok()?;
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

impl Peer {
    /// `None` if the server ends the connection.
    pub(crate) fn bind(uri: &str, interface: &stoop::stub::Interface) -> Option<Self> {
        let mut socket = connect(uri);
        let bound = bind(&mut socket, interface)?;
        socket
            .write_all(&Header::bare(Kind::Attach, bound.binding, LaneId(0), CallNumber(0)).to_bytes())
            .ok()?;
        let mut packet = [0; HEADER_LEN];
        let (len, received) = descriptors::receive(&socket, &mut packet).ok()?;
        if len < HEADER_LEN {
            return None;
        }
        let mut received = received.into_iter();
        let (memory, bell) = (File::from(received.next()?), File::from(received.next()?));
        let segment = Segment::attach(&memory).unwrap();
        let (requests, procedures) = (Requests::default(), bound.procedures);
        Some(Self { socket, segment, requests, procedures, memory, bell })
    }

    /// A process that has the memory of another's binding.
    pub(crate) fn between(socket: UnixStream, memory: OwnedFd, bell: OwnedFd) -> Self {
        let segment = Segment::attach(&memory).unwrap();
        let (requests, procedures) = (Requests::default(), Vec::new());
        Self { socket, segment, requests, procedures, memory: memory.into(), bell: bell.into() }
    }

    /// A call as a client of ours would make it.
    pub(crate) fn request(&self, lane: u16, number: u32, procedure: usize, len: u32) -> Request {
        Request {
            kind: RequestKind::Call,
            lane,
            number,
            procedure: self.procedures[procedure],
            // Nowhere near the server.
            cpu: u16::MAX,
            len,
            deadline_ns: u64::MAX,
            channel: 0,
            base: 0,
        }
    }

    pub(crate) fn publish(&self, request: &Request, message: &[u8]) {
        self.requests.publish(&self.segment, request, message);
        self.ring(0);
    }

    /// Rings, or with a number adds that to the bell's count, or tries to.
    pub(crate) fn ring(&self, number: u64) {
        let _ = (&self.bell).write(&number.to_ne_bytes());
    }

    pub(crate) fn bell(&self) -> &File {
        &self.bell
    }

    /// Whether the call of that number has been answered; the number of none is 0.
    pub(crate) fn is_answered(&self, lane: u16, number: u32) -> bool {
        Answers::is_there(&self.segment, lane, number)
    }

    /// How many requests the server has taken.
    pub(crate) fn taken(&self) -> u64 {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, 128).unwrap();
        u64::from_ne_bytes(bytes)
    }

    /// Writes anywhere, past all that the protocol says.
    pub(crate) fn scribble(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).unwrap();
    }

    /// Waits until the server has ended the connection. Returns why, if it says so.
    pub(crate) fn is_dropped(&mut self) -> Option<UnbindReason> {
        let mut said = || receive(&mut self.socket).map(|packet| Header::parse(&packet).unwrap().0);
        // A server that shuts down has said so before.
        let said = said().and_then(|first| if first.is_closing_notice() { said() } else { Some(first) });
        match self.socket.read(&mut [0; 64]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("{other:?}"),
        }
        said.map(|said| {
            assert_eq!(said.kind, Kind::Unbind);
            UnbindReason::from_code(said.time)
        })
    }
}

/// Where things are in the memory, as `stoop_shm::layout` tells.
pub(crate) const COUNTS: u64 = 256;
pub(crate) const REQUESTS: u64 = 4096;
pub(crate) const ANSWERS: u64 = REQUESTS + (RING * LINE) as u64;
pub(crate) const SLOTS: u64 = ANSWERS + (LANES * LINE) as u64;
pub(crate) const CHUNKS_AT: u64 = SLOTS + (2 * LANES * SLOT) as u64;
pub(crate) const END: u64 = CHUNKS_AT + (2 * CHANNELS * CHUNKS * CHUNK) as u64;
/// Behind the bits of the lanes with pipes.
pub(crate) const PIPES: u64 = END + 4096;
