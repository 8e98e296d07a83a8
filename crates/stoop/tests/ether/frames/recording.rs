//! The frames that pass the caller's end of the Ethernet.

use super::ethernet::CALLER;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, eth, recv, socket_with};
use std::collections::BTreeMap;
use stoop_wire::bind::BindRequest;
use stoop_wire::{Header, Kind};

/// A packet socket, which sees every frame of this network namespace in both directions.
///
/// A frame is recorded before anybody receives what is in it. So when a call has returned, its frames are here.
pub(crate) struct Recorder(OwnedFd);

impl Recorder {
    pub(crate) fn start() -> Self {
        let socket =
            socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, Some(eth::ALL))
                .unwrap();
        Self(socket)
    }

    /// What has passed since the last time.
    pub(crate) fn take(&mut self) -> Recording {
        let mut frames = Vec::new();
        let mut bytes = [0; 2048];
        loop {
            match recv(&self.0, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((_, len)) => frames.extend(Frame::of_the_exchange(&bytes[..len])),
                Err(rustix::io::Errno::WOULDBLOCK) => return Recording(frames),
                Err(error) => panic!("the packet socket: {error}"),
            }
        }
    }

    /// The same, when everything that the caller has asked is answered: also what it has asked twice.
    pub(crate) fn take_answered(&mut self) -> Recording {
        let mut recording = self.take();
        while recording.0.iter().filter(|frame| frame.from_caller).count() * 2 > recording.0.len() {
            std::thread::yield_now();
            recording.0.append(&mut self.take().0);
        }
        recording
    }

    /// Calls again and again: each call is one frame there and one back, of these lengths. Where half of `count` calls and
    /// more are disturbed, for the machine is busy, there are more until it is not.
    pub(crate) fn assert_calls(
        &mut self,
        count: usize,
        call_len: usize,
        result_len: usize,
        mut call: impl FnMut(),
    ) {
        let mut recording = self.take();
        for calls in 1..=100 * count {
            call();
            // After each, for little fits into the socket.
            recording.0.append(&mut self.take().0);
            if calls % count == 0 && recording.undisturbed(calls, count, (call_len, result_len)) > count / 2 {
                return;
            }
        }
        panic!("half of the calls and more needed more than two frames");
    }
}

/// One frame of ours.
#[derive(Debug)]
struct Frame {
    /// Bytes on the Ethernet, without the checksum behind them.
    len: usize,
    from_caller: bool,
    header: Header,
    /// It is a challenge, a proof, or a bind with a cookie in it.
    has_cookie: bool,
}

const ETHERNET: usize = 14;
const ETHERNET_IP_UDP: usize = ETHERNET + 20 + 8;

impl Frame {
    /// `None` for frames of address resolution: ARP, and all of IPv6.
    fn of_the_exchange(bytes: &[u8]) -> Option<Self> {
        let (ethernet, ip) = bytes.split_at(ETHERNET);
        if ethernet[12..] != [0x08, 0x00] {
            return None;
        }
        assert_eq!(ip[0], 0x45, "an IPv4 header without options: {bytes:02x?}");
        assert_eq!(ip[9], 17, "UDP and nothing else: {bytes:02x?}");
        assert_eq!(ip[6..8], [0x40, 0], "a whole datagram that may not be fragmented: {bytes:02x?}");
        let (header, payload) = Header::parse(&bytes[ETHERNET_IP_UDP..]).expect("a packet of ours");
        let has_cookie = match header.kind {
            Kind::Bind => BindRequest::decode(payload).expect("a bind of ours").cookie.0 != 0,
            _ => header.challenge().is_some(),
        };
        let from_caller = ip[12..16] == CALLER.octets();
        Some(Self { len: bytes.len(), from_caller, header, has_cookie })
    }
}

/// Frames in the order in which they passed.
pub(crate) struct Recording(Vec<Frame>);

impl Recording {
    /// There are `count` calls, each one frame there and one back, of these lengths. Returns how many of the `latest` are.
    ///
    /// A machine that has no time for us can disturb any of them, which shows: the call has been sent again, with the
    /// same number, or the server had not put the call before it away and acknowledged this one, because it had to
    /// wait. Lengths are the same then, and there is no answer that nothing has asked for.
    fn undisturbed(&self, count: usize, latest: usize, (call_len, result_len): (usize, usize)) -> usize {
        let mut calls = BTreeMap::<_, Vec<&Frame>>::new();
        for frame in &self.0 {
            let expected = match frame.header.kind {
                Kind::Call => (true, call_len),
                Kind::Result => (false, result_len),
                Kind::Probe => (true, 74),
                Kind::Acknowledgement => (false, 74),
                other => panic!("{other:?} among calls: {frame:?}"),
            };
            assert_eq!((frame.from_caller, frame.len), expected, "{frame:?}");
            let Header { binding, lane, number, .. } = frame.header;
            calls.entry((binding, lane, number.0)).or_default().push(frame);
        }
        assert_eq!(calls.len(), count);
        let undisturbed: Vec<bool> = calls.values().map(|frames| is_two_frames(frames)).collect();
        undisturbed[count - latest..].iter().filter(|is_two| **is_two).count()
    }

    /// The frames are these steps, of which the first is the caller's and every other one the server's; a step that is
    /// seen again is a retransmission.
    pub(crate) fn assert_steps(&self, expected: &[(Kind, bool)]) {
        let mut steps = Vec::new();
        for frame in &self.0 {
            let step = (frame.header.kind, frame.has_cookie);
            if !steps.contains(&step) {
                assert_eq!(frame.from_caller, steps.len() % 2 == 0, "{frame:?}");
                steps.push(step);
            }
        }
        assert_eq!(steps, expected);
    }

    /// The server has answered with all of `kinds` and no others, never at greater length than it was asked.
    pub(crate) fn assert_no_answer_is_longer_than_its_request(&self, kinds: &[Kind]) {
        let mut answers = Vec::new();
        let mut asked = 0;
        for frame in &self.0 {
            if frame.from_caller {
                asked = frame.len;
            } else {
                assert!(frame.len <= asked, "{asked} bytes were answered by {frame:?}");
                answers.push(frame.header.kind);
            }
        }
        answers.dedup();
        assert_eq!(answers, kinds);
    }
}

/// Whether these frames of one call are the call and its result. If they are more, each has its reason.
fn is_two_frames(frames: &[&Frame]) -> bool {
    let (questions, answers): (Vec<&Frame>, Vec<&Frame>) = frames.iter().partition(|frame| frame.from_caller);
    assert!(frames[0].from_caller, "answered before it was asked: {frames:?}");
    assert!(answers.iter().any(|answer| answer.header.kind == Kind::Result), "no result: {frames:?}");
    // The thread that acknowledges it need not be the one that sends the result, which may pass it.
    let had_to_wait = usize::from(answers.iter().any(|answer| answer.header.kind == Kind::Acknowledgement));
    assert!(answers.len() <= questions.len() + had_to_wait, "superfluous answers: {frames:?}");
    frames.len() == 2
}
