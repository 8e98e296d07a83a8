//! Bytes through a connected socket as fast as they go: the base of the floors of bulk and of many outstanding calls.

use super::waits::Wait;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use stoop_net::udp::{CallerSocket, MAX_SEGMENTS, MAX_SEGMENTS_LEN, SegmentsSending};

/// One end of a connection, with a buffer to send from and one to receive into: both stay in the cache.
pub(super) trait Pipe: Send {
    /// Sends `len` bytes of anything.
    #[inline(always)]
    fn push(&mut self, len: usize) -> io::Result<()> {
        self.push_filled(len, |_| {})
    }
    /// Waits for `len` bytes.
    #[inline(always)]
    fn take(&mut self, len: usize) -> io::Result<()> {
        self.take_read(len, |_| {})
    }
    /// Sends `len` bytes; `fill` writes those of each system call or slot before they leave.
    fn push_filled(&mut self, len: usize, fill: impl FnMut(&mut [u8])) -> io::Result<()>;
    /// Waits for `len` bytes; `read` is given them as they come.
    fn take_read(&mut self, len: usize, read: impl FnMut(&[u8])) -> io::Result<()>;
    /// Waits for something, and returns how many bytes it was.
    fn take_some(&mut self) -> io::Result<usize>;
}

/// A way of packets to one other end.
pub(super) trait Carrier: Send {
    /// Called once, before all else.
    fn prepare(&self, patience: Patience) -> io::Result<()>;
    /// Sends one packet.
    fn send(&self, packet: &[u8]) -> io::Result<()>;
    /// Sends packets that lie `segment` bytes apart.
    fn send_segments(&self, packets: &[u8], segment: usize) -> io::Result<()>;
    /// Waits for packets, one or several, and returns how many bytes they have.
    fn receive(&self, buffer: &mut [u8], patience: Patience) -> io::Result<usize>;
}

impl Carrier for CallerSocket {
    fn prepare(&self, patience: Patience) -> io::Result<()> {
        self.set_gro(true)?;
        patience.arm(self.as_fd())
    }

    #[inline(always)]
    fn send(&self, packet: &[u8]) -> io::Result<()> {
        CallerSocket::send(self, packet).map(drop)
    }

    #[inline(always)]
    fn send_segments(&self, packets: &[u8], segment: usize) -> io::Result<()> {
        match CallerSocket::send_segments(self, packets, segment)? {
            SegmentsSending::Sent => Ok(()),
            refused => Err(io::Error::other(format!("datagrams sent together: {refused:?}"))),
        }
    }

    #[inline(always)]
    fn receive(&self, buffer: &mut [u8], patience: Patience) -> io::Result<usize> {
        patience.receive(self.as_fd(), buffer)
    }
}

/// How one end waits, and when it believes that what it waits for is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    flags: RecvFlags,
    limit: Option<Duration>,
}

impl Patience {
    /// The echo process waits for ever: it ends with its parent.
    pub(super) fn new(wait: Wait, limit: Option<Duration>) -> Self {
        Patience { flags: wait.flags(), limit }
    }

    pub(super) fn spins(self) -> bool {
        self.flags.contains(RecvFlags::DONTWAIT)
    }

    /// Calls `receive` until it returns something, with the nanoseconds that it may sleep.
    #[inline(always)]
    pub(super) fn wait<T>(
        self,
        mut receive: impl FnMut(Option<u64>) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let mut silence = Silence::default();
        let limit_ns = if self.spins() { Some(0) } else { self.limit.map(|limit| limit.as_nanos() as u64) };
        loop {
            if let Some(received) = receive(limit_ns)? {
                return Ok(received);
            }
            match self.spins() {
                true => silence.listen(self.limit)?,
                false => silence.end(self.limit)?,
            }
        }
    }

    /// A spinning receive looks at the clock, a sleeping one is woken by the kernel.
    fn arm(self, socket: BorrowedFd<'_>) -> io::Result<()> {
        if self.flags.contains(RecvFlags::DONTWAIT) {
            return Ok(());
        }
        Ok(set_socket_timeout(socket, Timeout::Recv, self.limit)?)
    }

    /// Waits for bytes and puts them at the beginning of `buffer`.
    #[inline(always)]
    fn receive(self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        let mut silence = Silence::default();
        loop {
            match recv(socket, &mut *buffer, self.flags) {
                Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((len, _)) => return Ok(len),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.flags.contains(RecvFlags::DONTWAIT) => {
                    silence.listen(self.limit)?
                }
                Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// How long nothing has come. The clock is read once in a thousand empty receives.
#[derive(Debug, Default)]
struct Silence {
    receives: u32,
    since: Option<Instant>,
}

impl Silence {
    #[inline(always)]
    fn listen(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.receives = self.receives.wrapping_add(1);
        if self.receives.is_multiple_of(1024) { self.end(limit) } else { Ok(()) }
    }

    /// Looks at the clock.
    fn end(&mut self, limit: Option<Duration>) -> io::Result<()> {
        let Some(limit) = limit else { return Ok(()) };
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() > limit { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

/// Packets, some 64 KB by one system call: datagrams sent by UDP_SEGMENT and received by UDP_GRO, or frames.
///
/// The sender may be [`WINDOW`](Datagrams::window) bytes ahead of the receiver, which sends a *credit* of eight bytes for each
/// quarter of it. In a message of `len` bytes there are `(len - 1) / quarter` credits, which its sender takes before anything
/// else, so that counting bytes is all that either end must do.
#[derive(Debug)]
pub(super) struct Datagrams<C> {
    carrier: C,
    patience: Patience,
    /// Bytes of each datagram.
    segment: usize,
    /// Bytes of one system call.
    most: usize,
    window: usize,
    /// Bytes of credits that will come before the next message.
    owed: usize,
    to_send: Vec<u8>,
    received: Vec<u8>,
}

const CREDIT_LEN: usize = 8;

impl<C: Carrier> Datagrams<C> {
    /// Sends datagrams of `segment` bytes, at most `window` bytes ahead of credit.
    pub(super) fn new(carrier: C, segment: usize, window: usize, patience: Patience) -> io::Result<Self> {
        assert!(
            window >= 2 * MAX_SEGMENTS_LEN,
            "a sender that has used its credit can send again after all credit has arrived"
        );
        carrier.prepare(patience)?;
        let most = segment * MAX_SEGMENTS.min(MAX_SEGMENTS_LEN / segment);
        let (to_send, received) = (vec![0x5a; most], vec![0; 1 << 16]);
        Ok(Datagrams { carrier, patience, segment, most, window, owed: 0, to_send, received })
    }

    #[inline(always)]
    fn send(&self, len: usize) -> io::Result<()> {
        self.carrier.send_segments(&self.to_send[..len], self.segment)
    }

    #[inline(always)]
    fn receive(&mut self) -> io::Result<usize> {
        self.carrier.receive(&mut self.received, self.patience)
    }

    fn quarter(&self) -> usize {
        self.window / 4
    }
}

/// How many credits a message of `len` bytes brings its sender.
fn credits(len: usize, quarter: usize) -> usize {
    len.saturating_sub(1) / quarter
}

impl<C: Carrier> Pipe for Datagrams<C> {
    #[inline(always)]
    fn push_filled(&mut self, len: usize, mut fill: impl FnMut(&mut [u8])) -> io::Result<()> {
        let mut owed = CREDIT_LEN * credits(len, self.quarter());
        let (mut sent, mut ahead_to) = (0, self.window);
        while sent < len {
            let now = self.most.min(len - sent);
            while sent + now > ahead_to {
                let came = self.receive()?;
                owed = owed.checked_sub(came).ok_or_else(disorder)?;
                ahead_to += came / CREDIT_LEN * self.quarter();
            }
            fill(&mut self.to_send[..now]);
            self.send(now)?;
            sent += now;
        }
        self.owed = owed;
        Ok(())
    }

    #[inline(always)]
    fn take_read(&mut self, len: usize, mut read: impl FnMut(&[u8])) -> io::Result<()> {
        let (mut taken, mut credited) = (0, 0);
        let mut skip = std::mem::take(&mut self.owed);
        while taken < len {
            let came = self.receive()?;
            let credit = skip.min(came);
            skip -= credit;
            taken += came - credit;
            read(&self.received[credit..came]);
            while credited < credits(len, self.quarter()) && (credited + 1) * self.quarter() <= taken {
                credited += 1;
                self.carrier.send(&[0; CREDIT_LEN])?;
            }
        }
        if taken == len { Ok(()) } else { Err(disorder()) }
    }

    #[inline(always)]
    fn take_some(&mut self) -> io::Result<usize> {
        self.receive()
    }
}

/// A late packet of an exchange that was given up, or a repeated one: as bad as a lost one.
fn disorder() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

/// A byte stream, written and read 64 KiB at a time.
#[derive(Debug)]
pub(super) struct Stream {
    socket: OwnedFd,
    patience: Patience,
    to_send: Vec<u8>,
    received: Vec<u8>,
}

/// Bytes of one write, and room for one read.
const STREAM_WRITE: usize = 64 << 10;
const STREAM_READ: usize = 256 << 10;

impl Stream {
    pub(super) fn new(socket: OwnedFd, patience: Patience) -> io::Result<Self> {
        patience.arm(socket.as_fd())?;
        Ok(Stream { socket, patience, to_send: vec![0x5a; STREAM_WRITE], received: vec![0; STREAM_READ] })
    }
}

impl Pipe for Stream {
    #[inline(always)]
    fn push_filled(&mut self, len: usize, mut fill: impl FnMut(&mut [u8])) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let bytes = &mut self.to_send[..left.min(STREAM_WRITE)];
            fill(bytes);
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => left -= sent,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn take_read(&mut self, len: usize, mut read: impl FnMut(&[u8])) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let room = left.min(STREAM_READ);
            let came = self.patience.receive(self.socket.as_fd(), &mut self.received[..room])?;
            read(&self.received[..came]);
            left -= came;
        }
        Ok(())
    }

    #[inline(always)]
    fn take_some(&mut self) -> io::Result<usize> {
        self.patience.receive(self.socket.as_fd(), &mut self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::os::unix::net::UnixStream;
    use std::thread;
    use stoop_net::udp::{Peer, ServerSocket};

    const FOREVER: Patience = Patience { flags: RecvFlags::empty(), limit: None };

    fn datagrams(segment: usize, window: usize) -> (Datagrams<CallerSocket>, Datagrams<CallerSocket>) {
        let server = ServerSocket::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port is free");
        let caller = CallerSocket::connect(server.local_addr().expect("bound")).expect("it is there");
        let own: SocketAddr = caller.local_addr().expect("bound");
        let server = server.connected_to(&Peer::from(own)).expect("a second socket");
        let end = |socket| Datagrams::new(socket, segment, window, FOREVER).expect("the kernel knows GRO");
        (end(caller), end(server))
    }

    fn there_and_back(mut caller: impl Pipe, mut server: impl Pipe + 'static, call: usize, result: usize) {
        let serving = thread::spawn(move || {
            for _ in 0..3 {
                server.take(call).and_then(|()| server.push(result)).expect("the caller is there");
            }
            // Credit for the last bytes is still on its way.
            server
        });
        for _ in 0..3 {
            caller.push(call).and_then(|()| caller.take(result)).expect("the server is there");
        }
        serving.join().expect("it served three calls");
    }

    #[test]
    fn messages_longer_than_the_window_arrive_in_both_directions() {
        for (call, result) in [(500_000, 32), (32, 500_000), (500_000, 500_001), (65_536, 65_536), (32, 32)] {
            let (caller, server) = datagrams(1472, 1 << 17);
            there_and_back(caller, server, call, result);
        }
    }

    #[test]
    fn a_stream_needs_no_credits() {
        let (caller, server) = UnixStream::pair().expect("a pair");
        let end = |socket: UnixStream| Stream::new(socket.into(), FOREVER).expect("no limit to set");
        there_and_back(end(caller), end(server), 700_000, 700_000);
    }

    #[test]
    fn the_last_bytes_of_a_message_bring_no_credit() {
        assert_eq!([credits(0, 100), credits(100, 100), credits(101, 100), credits(401, 100)], [0, 0, 1, 4]);
    }

    #[test]
    fn what_is_lost_is_given_up() {
        for flags in [RecvFlags::empty(), RecvFlags::DONTWAIT] {
            let (mut caller, server) = datagrams(1472, 1 << 17);
            caller.patience = Patience { flags, limit: Some(Duration::from_millis(1)) };
            caller.patience.arm(caller.carrier.as_fd()).expect("a limit");
            let error = caller.take(32).expect_err("nothing was sent");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            drop(server);
        }
    }
}
