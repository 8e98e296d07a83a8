//! The notice that ends a binding over shared memory: the end that closes it sends the reason over the socket.

use stoop_net::Patience;
use stoop_net::stream::{Stream, StreamArrival};
use stoop_wire::{BindingId, CallNumber, HEADER_LEN, Header, Kind, LaneId, UnbindReason};

/// Sends the reason why a binding ends, if the socket has room for it. Does not wait for a peer that receives nothing.
pub(crate) fn send(stream: &Stream, binding: BindingId, why: UnbindReason) {
    let _ = stream.try_send(&[std::io::IoSlice::new(&packet(binding, why))]);
}

/// The packet that says why a binding ends.
pub(crate) fn packet(binding: BindingId, why: UnbindReason) -> [u8; HEADER_LEN] {
    let mut header = Header::bare(Kind::Unbind, binding, LaneId(0), CallNumber::ZERO);
    header.time = why.code();
    header.to_bytes()
}

/// Says that the server refuses calls from now on, if there is room for it.
pub(crate) fn announce(stream: &Stream, binding: BindingId) {
    let notice = Header::closing_notice(binding).to_bytes();
    let _ = stream.try_send(&[std::io::IoSlice::new(&notice)]);
}

/// The messages that a caller receives from its server.
pub(crate) enum News {
    /// It shuts down: it refuses calls from now on.
    Closing,
    /// The binding has ended, for this reason if one was told.
    Ended(Option<UnbindReason>),
    /// Nothing yet.
    None,
}

/// The next that a server has said, after the handshake.
pub(crate) fn hear(stream: &Stream) -> News {
    let mut packet = [0; HEADER_LEN];
    match stream.recv(&mut packet, Patience::DontWait) {
        Ok(StreamArrival::Bytes(HEADER_LEN)) => match Header::from_bytes(&packet) {
            Ok(header) if header.is_closing_notice() => News::Closing,
            _ => News::Ended(parse(&packet)),
        },
        Ok(StreamArrival::Nothing) => News::None,
        _ => News::Ended(None),
    }
}

/// The message of the other end, if it has sent one.
pub(crate) fn receive(stream: &Stream) -> Option<UnbindReason> {
    let mut packet = [0; HEADER_LEN];
    match stream.recv(&mut packet, Patience::DontWait) {
        Ok(StreamArrival::Bytes(HEADER_LEN)) => parse(&packet),
        _ => None,
    }
}

/// The reason in a packet that ends a binding; `None` if it is another.
pub(crate) fn parse(packet: &[u8]) -> Option<UnbindReason> {
    let header = Header::from_bytes(packet.first_chunk()?).ok()?;
    (header.kind == Kind::Unbind).then(|| UnbindReason::from_code(header.time))
}

#[cfg(test)]
mod tests {
    use crate::calling::unbind_notice::*;

    #[test]
    fn what_one_end_says_the_other_hears_though_the_first_has_gone() {
        let (one, other) = Stream::pair().unwrap();
        assert_eq!(receive(&other), None);
        send(&one, BindingId(7), UnbindReason::ShuttingDown);
        drop(one);
        assert_eq!(receive(&other), Some(UnbindReason::ShuttingDown));
        assert_eq!(receive(&other), None);
        // The other end is closed.
        send(&other, BindingId(7), UnbindReason::Disorder);
    }
}
