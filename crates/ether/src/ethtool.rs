//! Settings of an interface, by the ioctl of ethtool(8), which `rustix` lacks.

#![allow(unsafe_code)]

use libc::c_int;
use rustix::fd::AsRawFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;

// <linux/sockios.h> and <linux/ethtool.h>
const SIOCETHTOOL: u64 = 0x8946;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
/// The set of strings that are the names of features.
const ETH_SS_FEATURES: u32 = 4;
/// Words of a name.
const NAME_WORDS: usize = 8;

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

/// Switches a feature of the interface of this name on or off, as `ethtool -K` does, for all programs that use it. The feature has the
/// kernel's name, for example `tx-checksum-ip-generic`.
///
/// # Errors
/// The interface, or the feature, is unknown here; the driver cannot switch it; or the process has no CAP_NET_ADMIN.
pub fn set_feature(interface: &str, feature: &str, on: bool) -> io::Result<()> {
    let names = feature_names(interface)?;
    let is_it = |name: &[u32]| {
        name.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0).eq(feature.bytes())
    };
    let place = names.chunks_exact(NAME_WORDS).position(is_it);
    let place = place.ok_or_else(|| io::Error::other(format!("this kernel has no feature {feature}")))?;
    // Blocks of 32 features: those that are meant, and of them those that are switched on.
    let blocks = (names.len() / NAME_WORDS).div_ceil(32);
    let mut words = vec![0; 2 + 2 * blocks];
    words[..2].copy_from_slice(&[ETHTOOL_SFEATURES, blocks as u32]);
    let (block, bit) = (2 + 2 * (place / 32), 1 << (place % 32));
    words[block] = bit;
    words[block + 1] = if on { bit } else { 0 };
    // SAFETY: the kernel reads as many blocks as the second word says, and writes nothing.
    match unsafe { request(interface, &mut words) }? {
        0 => Ok(()),
        _ => Err(io::Error::other(format!("{interface} cannot switch {feature}"))),
    }
}

/// The names of all features, in the order of their numbers.
fn feature_names(interface: &str) -> Result<Vec<u32>, Errno> {
    // Command and padding, a mask of 64 bits that asks for the size of this set, and the size.
    let mask = (1u64 << ETH_SS_FEATURES).to_ne_bytes();
    let [a, b, c, d, e, f, g, h] = mask;
    let [first, second] = [[a, b, c, d], [e, f, g, h]].map(u32::from_ne_bytes);
    let mut sizes = [ETHTOOL_GSSET_INFO, 0, first, second, 0];
    // SAFETY: the kernel writes one number, after the mask, for the one set that is asked for.
    unsafe { request(interface, &mut sizes) }?;
    let number = sizes[4] as usize;
    let mut words = vec![0; 3 + NAME_WORDS * number];
    words[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, sizes[4]]);
    // SAFETY: the kernel writes three words and the names, whose number it has given, and which does not change while it runs.
    unsafe { request(interface, &mut words) }?;
    Ok(words.split_off(3))
}

fn last_error() -> Errno {
    let number = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(number.expect("the last error of the system has a number"))
}
