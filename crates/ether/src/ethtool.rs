//! Settings of an interface's driver, by the ioctl of ethtool(8), which `rustix` lacks.

#![allow(unsafe_code)]

use libc::c_int;
use rustix::fd::AsRawFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

// <linux/sockios.h> and <linux/ethtool.h>
const SIOCETHTOOL: u64 = 0x8946;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// Has the interface of this name carry out the command that `words` begin with. The kernel writes its answer over them.
///
/// # Safety
///
/// `words` have room for all that the kernel reads and writes for this command.
unsafe fn request(interface: &str, words: &mut [u32]) -> Result<c_int, Errno> {
    // SAFETY: zeros are a value of this struct of numbers and a union of such.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The name is shorter than its place, so a zero byte follows.
    for (place, byte) in request.ifr_name[..15].iter_mut().zip(interface.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // A socket of AF_XDP refuses the request.
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the request and the words, to which it points, are live; the caller vouches for their length.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if result >= 0 { Ok(result) } else { Err(last_error()) }
}

/// Receive queues that the interface of this name uses (ETHTOOL_GCHANNELS). A driver that does not say has
/// one.
pub(crate) fn receive_queues(interface: &str) -> Result<u32, Errno> {
    /// Places in `struct ethtool_channels`: command, four maxima, then the numbers in use.
    const RECEIVE: usize = 5;
    const COMBINED: usize = 8;
    let mut channels = [0u32; 9];
    channels[0] = ETHTOOL_GCHANNELS;
    // SAFETY: the kernel writes no more than the nine numbers that this command has.
    match unsafe { request(interface, &mut channels) } {
        Ok(_) => Ok((channels[RECEIVE] + channels[COMBINED]).max(1)),
        Err(Errno::OPNOTSUPP) => Ok(1),
        Err(error) => Err(error),
    }
}

fn last_error() -> Errno {
    let number = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(number.expect("the last error of the system has a number"))
}
