//! What an interface needs for an endpoint, and advice where one cannot be opened.

use std::io;
use stoop_ether::frame::PREFIX_LEN;
use stoop_ether::{Backend, Capability, Interface, Mode, OpenError, XdpOptions};
use stoop_wire::{HEADER_LEN, PACKET_DATA};

/// The MTU with which a frame carries each short call and result whole, as all of these are sent.
const LEAST_MTU: usize = HEADER_LEN + PACKET_DATA + PREFIX_LEN;

/// # Errors
///
/// The interface's frames are too short.
pub(super) fn check_mtu(interface: &Interface) -> io::Result<()> {
    if interface.mtu >= LEAST_MTU {
        return Ok(());
    }
    let Interface { name, mtu, .. } = interface;
    let why = format!(
        "the MTU of {name} is {mtu}, and packets need {LEAST_MTU}: set that at both ends by `ip link set {name} mtu {LEAST_MTU}` if what \
         is between them carries such frames, or use another transport, as udp:"
    );
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// Adds to an error what else helps with this backend.
pub(super) fn advised(backend: Backend) -> impl FnOnce(OpenError) -> io::Error {
    move |error| match (backend, error) {
        // A packet socket is the first that is refused, and not the last.
        (Backend::Xdp(_), OpenError::NotPermitted { .. }) => {
            let needed = Capability::OF_XDP;
            OpenError::NotPermitted { needed, missing: Capability::missing(needed) }.into()
        }
        (Backend::Xdp(XdpOptions { mode: Mode::Native, .. }), error @ OpenError::Unsupported { .. }) => {
            let why = format!("{error}; leave `backend=xdp` out, or write `backend=xdp-generic`");
            io::Error::new(io::ErrorKind::Unsupported, why)
        }
        (_, error) => error.into(),
    }
}
