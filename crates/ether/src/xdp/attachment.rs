//! The XDP program at an interface, with the maps that it looks at.

use crate::address::Address;
use crate::error::{OpenError, failed};
use crate::frame::EtherType;
use crate::interface::Interface;
use crate::privilege::Capability;
use crate::xdp::options::Mode;
use crate::xdp::program::{address_value, port_key, program};
use crate::xdp::system;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::process;

/// The program. It is detached when this is dropped by the process that has attached it, or when that process has ended, however it ended,
/// and so have the children that it has forked and that have started no other program.
#[derive(Debug)]
pub(super) struct Attachment {
    link: OwnedFd,
    /// The process.
    attached_by: u32,
    ports: OwnedFd,
    sockets: OwnedFd,
}

/// Loads the program and makes its maps, `ports` and `sockets`. Nothing is attached.
pub(super) fn load(ether_type: EtherType, queue: u32) -> Result<(OwnedFd, OwnedFd, OwnedFd), OpenError> {
    let failed = |operation| failed(operation, Capability::OF_XDP);
    let ports = system::create_array().map_err(failed("a BPF map"))?;
    let sockets = system::create_socket_map(queue + 1).map_err(failed("a BPF map of AF_XDP sockets"))?;
    let instructions = program(ether_type, ports.as_raw_fd(), sockets.as_raw_fd());
    let program = system::load(&instructions).map_err(failed("an XDP program"))?;
    Ok((program, ports, sockets))
}

impl Attachment {
    /// Attaches a program that passes all frames until ports and sockets are registered.
    pub(super) fn new(
        interface: &Interface,
        ether_type: EtherType,
        mode: Mode,
        queue: u32,
    ) -> Result<Self, OpenError> {
        let (program, ports, sockets) = load(ether_type, queue)?;
        let flags = match mode {
            Mode::Generic => system::XDP_FLAGS_SKB_MODE,
            Mode::Native => system::XDP_FLAGS_DRV_MODE,
        };
        let link = system::attach(program.as_fd(), interface.index, flags).map_err(|error| match error {
            // Another program, in this mode or the other one.
            Errno::BUSY | Errno::EXIST => OpenError::XdpTaken(interface.name.clone()),
            error => failed(mode.attaching(), Capability::OF_XDP)(error),
        })?;
        Ok(Self { link, attached_by: process::id(), ports, sockets })
    }

    /// From now on frames to this endpoint are handed to the socket of their receive queue.
    pub(super) fn register_port(&self, address: Address) -> Result<(), OpenError> {
        let registered =
            system::set_value(self.ports.as_fd(), port_key(address.port), address_value(address.mac));
        registered.map_err(failed("registering a port", Capability::OF_XDP))
    }

    /// Sets the socket of a receive queue.
    pub(super) fn register_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), OpenError> {
        let registered = system::set_socket(self.sockets.as_fd(), queue, socket);
        registered.map_err(failed("registering an AF_XDP socket", Capability::OF_XDP))
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // A child that another thread starts has copies of the descriptors until it executes its program (fork(2)).
        if self.attached_by == process::id() {
            let _ = system::detach(self.link.as_fd());
        }
    }
}
