//! An AF_XDP socket with its memory and its four rings (Documentation/networking/af_xdp.rst).

#![allow(unsafe_code)]

use crate::arrival::FrameQueue;
use crate::error::{OpenError, failed};
use crate::ethtool;
use crate::interface::Interface;
use crate::memory::{Consumer, Mapping, Producer, Umem};
use crate::privilege::Capability;
use crate::xdp::options::Mode;
use crate::xdp::system;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XdpDesc, XdpMmapOffsets, XdpOptionsFlags, XdpRingOffset, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

// Offsets by which mmap(2) tells the rings apart (<linux/if_xdp.h>).
const XDP_PGOFF_RX_RING: u64 = 0;
const XDP_PGOFF_TX_RING: u64 = 0x8000_0000;
const XDP_UMEM_PGOFF_FILL_RING: u64 = 0x1_0000_0000;
const XDP_UMEM_PGOFF_COMPLETION_RING: u64 = 0x1_8000_0000;

/// Bytes that the kernel leaves free before a received frame (XDP_PACKET_HEADROOM).
pub(super) const HEADROOM: usize = 256;

/// Between two attempts to get what the kernel is about to release.
const PAUSE: Duration = Duration::from_millis(1);
/// Pauses while the kernel releases locked memory.
const PAUSES: u32 = 100;

/// The receiving half.
#[derive(Debug)]
pub(super) struct Receiving {
    umem: Arc<Umem>,
    received: Consumer<XdpDesc>,
    fill: Producer<u64>,
}

impl Receiving {
    /// The memory.
    pub(super) fn umem(&self) -> &Arc<Umem> {
        &self.umem
    }

    /// Whether the kernel has run out of chunks and has to be told that there are some.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.fill.needs_wakeup()
    }
}

impl FrameQueue for Receiving {
    #[inline]
    fn front(&self) -> Option<&[u8]> {
        let descriptor = self.received.front()?;
        // SAFETY: the kernel has named the frame; `pop` alone gives its chunk back, and needs `&mut self`.
        Some(unsafe { self.umem.received(descriptor.addr, descriptor.len) })
    }

    #[inline]
    fn pop(&mut self) {
        let Some(descriptor) = self.received.front() else { return };
        self.received.pop();
        // The ring has a place for each chunk that receives.
        self.fill.write(descriptor.addr & !(self.umem.chunk_len() as u64 - 1));
        self.fill.publish();
    }
}

/// The socket, and the half of it that receives.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) socket: OwnedFd,
    pub(super) receiving: Receiving,
    /// The driver reads and writes our memory itself.
    pub(super) is_zero_copy: bool,
}

/// How to make a socket.
pub(super) struct Request<'a> {
    pub(super) interface: &'a Interface,
    pub(super) mode: Mode,
    pub(super) queue: u32,
    pub(super) frames: u32,
    pub(super) chunk_len: usize,
    pub(super) busy_poll: bool,
}

/// Finds out whether this process may make such a socket. Returns how many receive queues the interface has.
pub(super) fn check(interface: &Interface) -> Result<u32, OpenError> {
    make()?;
    ethtool::receive_queues(&interface.name).map_err(failed("counting receive queues", Capability::OF_XDP))
}

/// A socket that is bound to no interface: what is sent by it fails with ENXIO.
pub(super) fn make() -> Result<OwnedFd, OpenError> {
    rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)
        .map_err(failed("an AF_XDP socket", Capability::OF_XDP))
}

impl Socket {
    pub(super) fn open(request: &Request<'_>) -> Result<Self, OpenError> {
        let socket = make()?;
        let umem = Arc::new(make_memory(&socket, request)?);
        Self::with_memory(socket, umem, request)
    }

    /// A socket with the memory of another one, which is closed.
    pub(super) fn open_with(umem: &Arc<Umem>, request: &Request<'_>) -> Result<Self, OpenError> {
        let socket = make()?;
        register_again(&socket, umem)?;
        Self::with_memory(socket, Arc::clone(umem), request)
    }

    fn with_memory(socket: OwnedFd, umem: Arc<Umem>, request: &Request<'_>) -> Result<Self, OpenError> {
        let failed = |operation| failed(operation, Capability::OF_XDP);
        let receiving = make_rings(&socket, umem).map_err(failed("rings of AF_XDP"))?;
        if request.busy_poll {
            system::set_busy_poll(&socket).map_err(failed("busy polling"))?;
        }
        bind(&socket, request).map_err(|error| match error {
            Errno::BUSY => OpenError::XdpTaken(request.interface.name.clone()),
            error => failed("an AF_XDP socket at this receive queue")(error),
        })?;
        let options = sockopt::xdp_options(&socket);
        let is_zero_copy =
            options.is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY));
        Ok(Self { socket, receiving, is_zero_copy })
    }
}

/// Makes memory for as many frames as are wanted, or as this process may lock (RLIMIT_MEMLOCK; CAP_IPC_LOCK has no
/// limit). The limit is one for all processes of the user, and the kernel takes the memory of a socket that has been closed
/// off it a moment later, so this waits for it.
fn make_memory(socket: &OwnedFd, request: &Request<'_>) -> Result<Umem, OpenError> {
    const FRAMES_MIN: u32 = 64;
    let (mut frames, mut pauses) = (request.frames, 0);
    loop {
        let made = Umem::new(request.chunk_len, frames as usize);
        let made = made.and_then(|umem| register(socket, &umem).map(|()| umem));
        match made {
            Ok(umem) => return Ok(umem),
            Err(Errno::NOBUFS) if frames > FRAMES_MIN => frames /= 2,
            Err(Errno::NOBUFS) if pauses < PAUSES => {
                thread::sleep(PAUSE);
                (frames, pauses) = (request.frames, pauses + 1);
            }
            Err(error) => return Err(no_memory(error)),
        }
    }
}

/// Registers memory that a socket has had which is closed. Waits as [`make_memory`] does.
fn register_again(socket: &OwnedFd, umem: &Umem) -> Result<(), OpenError> {
    for _ in 0..PAUSES {
        match register(socket, umem) {
            Err(Errno::NOBUFS) => thread::sleep(PAUSE),
            registered => return registered.map_err(no_memory),
        }
    }
    register(socket, umem).map_err(no_memory)
}

fn no_memory(error: Errno) -> OpenError {
    match error {
        Errno::NOBUFS => OpenError::LockedMemory,
        error => failed("memory for frames", Capability::OF_XDP)(error),
    }
}

fn register(socket: &OwnedFd, umem: &Umem) -> Result<(), Errno> {
    let memory = XdpUmemReg {
        addr: umem.mapping().address(),
        len: umem.mapping().len() as u64,
        chunk_size: umem.chunk_len() as u32,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(socket, memory)
}

/// Makes rings that have a place for each chunk of their half of the memory.
fn make_rings(socket: &OwnedFd, umem: Arc<Umem>) -> Result<Receiving, Errno> {
    let frames = umem.half() as u32;
    sockopt::set_xdp_umem_fill_ring_size(socket, frames)?;
    sockopt::set_xdp_umem_completion_ring_size(socket, frames)?;
    sockopt::set_xdp_rx_ring_size(socket, frames)?;
    sockopt::set_xdp_tx_ring_size(socket, frames)?;
    let XdpMmapOffsets { rx, tx, fr, cr } = sockopt::xdp_mmap_offsets(socket)?;
    let map = |place, offsets: &XdpRingOffset, descriptor_len: u64| {
        Mapping::of_socket(
            socket.as_fd(),
            place,
            (offsets.desc + u64::from(frames) * descriptor_len) as usize,
        )
    };
    let (number, descriptor) = (size_of::<u64>() as u64, size_of::<XdpDesc>() as u64);
    let mut fill = Producer::new(map(XDP_UMEM_PGOFF_FILL_RING, &fr, number)?, &fr, frames);
    let completed = Consumer::new(map(XDP_UMEM_PGOFF_COMPLETION_RING, &cr, number)?, &cr, frames);
    let received = Consumer::new(map(XDP_PGOFF_RX_RING, &rx, descriptor)?, &rx, frames);
    let transmit = Producer::new(map(XDP_PGOFF_TX_RING, &tx, descriptor)?, &tx, frames);
    umem.receiving().for_each(|chunk| fill.write(chunk));
    fill.publish();
    umem.set_rings(transmit, completed);
    Ok(Receiving { umem, received, fill })
}

/// Binds the socket to the receive queue. The kernel releases the queue of a socket that has been closed a
/// moment later (`xp_release_deferred`), so this waits for it.
fn bind(socket: &OwnedFd, request: &Request<'_>) -> Result<(), Errno> {
    const ATTEMPTS: u32 = 500;
    // In native mode the kernel tries to have no copy, and copies if the driver cannot do without.
    let copy = match request.mode {
        Mode::Generic => SocketAddrXdpFlags::XDP_COPY,
        Mode::Native => SocketAddrXdpFlags::empty(),
    };
    let flags = copy | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    let address = SocketAddrXdp::new(flags, request.interface.index, request.queue);
    for _ in 1..ATTEMPTS {
        match rustix::net::bind(socket, &address) {
            Err(Errno::BUSY) => thread::sleep(PAUSE),
            bound => return bound,
        }
    }
    rustix::net::bind(socket, &address)
}
