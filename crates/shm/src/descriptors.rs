//! Handing descriptors over by a Unix socket (`SCM_RIGHTS`, unix(7)).

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Descriptors that one message carries.
const COUNT: usize = 2;

/// Sends `bytes` and, with them, the descriptors of the memory and of the bell. `false`: there is no room for all of them at the
/// moment. Nothing was sent, or so little that the peer has stopped reading.
///
/// # Errors
/// The connection is broken.
pub fn send(socket: impl AsFd, bytes: &[u8], memory: impl AsFd, bell: impl AsFd) -> io::Result<bool> {
    let descriptors = &[memory.as_fd(), bell.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let pushed = control.push(SendAncillaryMessage::ScmRights(descriptors));
    debug_assert!(pushed, "the space is made for them");
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let sent = retry_on_intr(|| rustix::net::sendmsg(&socket, &[IoSlice::new(bytes)], &mut control, flags));
    match sent {
        Ok(sent) => Ok(sent == bytes.len()),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Receives bytes, waiting for them as long as the socket does, and the descriptors that come with them, if any do. No bytes: the
/// peer has closed the connection.
///
/// # Errors
/// The connection is broken, or nothing came in time (`WouldBlock`), or this process has no descriptor left for those that came
/// (EMFILE).
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(COUNT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let slices = &mut [IoSliceMut::new(bytes)];
        rustix::net::recvmsg(&socket, slices, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    // So does the kernel say that it had more than it could hand over; a peer that sends more than it should is told the same.
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE.into());
    }
    Ok((received.bytes, descriptors))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Segment;
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_arrive_with_their_bytes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (_segment, file) = Segment::create().unwrap();
        assert!(send(&ours, b"here", &file, &ours).unwrap());
        let mut bytes = [0; 16];
        let (len, descriptors) = receive(&theirs, &mut bytes).unwrap();
        assert_eq!((&bytes[..len], descriptors.len()), (&b"here"[..], 2));
        assert!(Segment::attach(&descriptors[0]).is_ok());
    }

    #[test]
    fn message_with_more_descriptors_than_there_is_room_for_is_refused_whole() {
        const MANY: usize = 10 * COUNT;
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MANY))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [ours.as_fd(); MANY];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        rustix::net::sendmsg(&ours, &[IoSlice::new(b"here")], &mut control, SendFlags::empty()).unwrap();
        let refused = receive(&theirs, &mut [0; 16]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    }

    #[test]
    fn a_closed_connection_gives_nothing() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        assert_eq!(receive(&ours, &mut [0; 4]).unwrap().0, 0);
    }
}
