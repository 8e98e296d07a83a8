//! The protection of packets: the trailer behind the data of each packet of a binding that has one.
//!
//! The number of a binding says whether its packets have a trailer ([`BindingId::has_trailer`]), in both directions and for all kinds of
//! packets. So a packet is protected and opened by its header, wherever it is sent and received. The exchange ignores trailers: to it they
//! are padding behind the data.

mod checksum;
#[cfg(feature = "seal")]
mod held;
#[cfg(feature = "seal")]
pub(crate) mod sealed;

use crate::transport::packet::link::{CallerEndpoint, Sending};
#[cfg(feature = "seal")]
use crate::transport::packet::protection::sealed::{OpenedSeal, SealedBinding, SealedBindings, Seals};
use std::io;
#[cfg(feature = "seal")]
use std::sync::Arc;
use stoop_wire::{BindingId, Bundle, HEADER_LEN, Header, Kind, MAX_DATAGRAM, SEAL_LEN, VERSION};

/// What protects the packets of a session or of a server's endpoint.
#[derive(Debug, Default)]
pub(crate) struct Protection {
    #[cfg(feature = "seal")]
    seals: Seals,
}

/// The outcome of opening a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It is as it was sent.
    Yes,
    /// It is not, and must be dropped.
    No,
    /// There are no keys for its binding: it is for nobody, unless the exchange knows the binding. Then it must be dropped.
    Unknown,
}

/// Whether the header of this packet says that it has a trailer.
#[inline]
pub(crate) fn is_expected(packet: &[u8]) -> bool {
    packet.first_chunk::<HEADER_LEN>().is_some_and(says_so)
}

/// The same, of a header.
#[inline]
pub(crate) fn says_so(header: &[u8; HEADER_LEN]) -> bool {
    BindingId::of_header(header).has_trailer()
}

/// Bytes of the trailer of a packet that is to leave.
#[inline]
fn trailer_len(packet: &[u8]) -> usize {
    match packet.first_chunk() {
        Some(header) if says_so(header) => trailer_of(header),
        _ => 0,
    }
}

#[cold]
fn trailer_of(header: &[u8; HEADER_LEN]) -> usize {
    let binding = BindingId::of_header(header);
    let is_of_unknown = || header[2] == Kind::Refusal as u8 && header[28..] == UNKNOWN_BINDING;
    // A packet that lists our versions goes to a peer of another version, which may expect a trailer elsewhere. A server that does not
    // know a sealed binding has no keys for it, and answers so without a seal.
    match header[2] == Kind::Versions as u8 || binding.is_sealed() && is_of_unknown() {
        true => 0,
        false => binding.trailer_len(),
    }
}

/// Bytes of a packet that is protected in a small buffer: to clear a large one takes as long as to encrypt some hundred bytes.
const SHORT: usize = 256 - SEAL_LEN;

/// The reason of a refusal, as its header has it.
const UNKNOWN_BINDING: [u8; 4] = [1, 0, 0, 0];

impl Protection {
    /// That of a caller's session.
    #[cfg(feature = "seal")]
    pub(crate) fn sealed(binding: SealedBinding) -> Self {
        Self { seals: Seals::of(binding) }
    }

    /// That of a server's endpoint.
    #[cfg(feature = "seal")]
    pub(crate) fn of_server(bindings: &Arc<SealedBindings>) -> Self {
        Self { seals: Seals::Many(Arc::clone(bindings)) }
    }

    /// With which server a session is sealed, in words.
    pub(crate) fn server(&self) -> Option<String> {
        #[cfg(feature = "seal")]
        {
            self.seals.server()
        }
        #[cfg(not(feature = "seal"))]
        {
            None
        }
    }

    /// Opens a datagram: verifies its trailer, if one is expected, and decrypts its data, if it is sealed.
    pub(crate) fn try_open(&self, datagram: &mut [u8]) -> Opened {
        let Some(header) = datagram.first_chunk::<HEADER_LEN>().filter(|header| says_so(header)) else {
            return Opened::Yes;
        };
        let binding = BindingId::of_header(header);
        if binding.is_sealed() {
            #[cfg(feature = "seal")]
            return match self.seals.open(binding, datagram) {
                OpenedSeal::Yes => Opened::Yes,
                OpenedSeal::No => Opened::No,
                OpenedSeal::Unknown => Opened::Unknown,
            };
            #[cfg(not(feature = "seal"))]
            return Opened::Unknown;
        }
        // Another version may put it elsewhere; a packet that lists the versions of its sender has none.
        if datagram[1] != VERSION {
            return Opened::Yes;
        }
        match Header::parse(datagram) {
            Ok((_, payload)) if checksum::is_right(datagram, HEADER_LEN + payload.len()) => Opened::Yes,
            _ => Opened::No,
        }
    }

    /// The same at a caller, whose lanes take packets of their own bindings only.
    pub(crate) fn open(&self, datagram: &mut [u8]) -> bool {
        self.try_open(datagram) != Opened::No
    }

    /// Opens packets that came together `segment` bytes apart. Spoils those that do not open, and returns their number.
    pub(crate) fn open_many(&self, datagrams: &mut [u8], segment: usize) -> u64 {
        let mut spoiled = 0;
        for datagram in datagrams.chunks_mut(segment.max(1)) {
            if !self.open(datagram) {
                // No packet begins with 0.
                datagram[0] = 0;
                spoiled += 1;
            }
        }
        spoiled
    }

    /// Bytes behind a packet that is to leave for its trailer.
    #[inline]
    pub(crate) fn room_for(&self, packet: &[u8]) -> usize {
        trailer_len(packet)
    }

    /// Protects a packet whose data ends at `end`; its trailer follows there. A packet that cannot be protected is wiped, so that its
    /// receiver drops it.
    pub(crate) fn frame(&self, packet: &mut [u8], end: usize) {
        if !self.try_frame(packet, end) {
            packet.fill(0);
        }
    }

    /// The same; `false`: the packet cannot be protected, and must not leave.
    fn try_frame(&self, packet: &mut [u8], end: usize) -> bool {
        let Some(binding) = packet.first_chunk().map(BindingId::of_header) else { return false };
        if binding.has_checksum() {
            checksum::put(packet, end);
            return true;
        }
        #[cfg(feature = "seal")]
        {
            self.seals.seal(binding, packet, end)
        }
        #[cfg(not(feature = "seal"))]
        {
            false
        }
    }

    /// Seals a packet whose data is elsewhere, so that it is encrypted on its way there. A packet that cannot be sealed is wiped. `false`: it
    /// is not of a sealed binding.
    pub(crate) fn frame_from(&self, packet: &mut [u8], data: &[u8]) -> bool {
        #[cfg(feature = "seal")]
        {
            let binding =
                packet.first_chunk().map(BindingId::of_header).filter(|binding| binding.is_sealed());
            let Some(binding) = binding else { return false };
            if !self.seals.seal_from(binding, packet, data) {
                packet.fill(0);
            }
            true
        }
        #[cfg(not(feature = "seal"))]
        {
            let _ = (packet, data);
            false
        }
    }

    /// Protects a packet with room for its trailer at its end, if it has one.
    #[inline]
    pub(crate) fn frame_whole(&self, packet: &mut [u8]) {
        let trailer_len = trailer_len(packet);
        if trailer_len > 0 {
            let end = packet.len() - trailer_len;
            self.frame(packet, end);
        }
    }

    /// Protects the last packet of a buffer, which begins there, if it has a trailer.
    pub(crate) fn append(&self, packets: &mut Vec<u8>, start: usize) {
        let (len, trailer_len) = (packets.len() - start, trailer_len(&packets[start..]));
        if trailer_len > 0 {
            packets.resize(start + len + trailer_len, 0);
            self.frame(&mut packets[start..], len);
        }
    }

    /// Copies packets that are to leave together, `segment` bytes apart, and protects the copies. Returns them, and how many bytes apart
    /// they are.
    pub(crate) fn together(&self, packets: &[u8], segment: usize) -> (Vec<u8>, usize) {
        let apart = (segment + trailer_len(packets)).next_multiple_of(8);
        let mut copies = Vec::with_capacity(packets.len().div_ceil(segment) * apart);
        for (packet, start) in packets.chunks(segment).zip((0..).step_by(apart)) {
            copies.resize(start, 0);
            let end = Header::parse(packet).map_or(packet.len(), |(_, payload)| HEADER_LEN + payload.len());
            copies.extend_from_slice(&packet[..end]);
            self.append(&mut copies, start);
        }
        (copies, apart)
    }

    /// The same, with short packets of a sealed binding in [bundles](Bundle) of that kind. Returns also how many packets one of the
    /// copies has, but perhaps the last.
    pub(crate) fn bundled(&self, kind: Kind, packets: &[u8], segment: usize) -> (Vec<u8>, usize, usize) {
        let most = Bundle::most(segment);
        let is_sealed = cfg!(feature = "seal")
            && packets.first_chunk().is_some_and(|header| BindingId::of_header(header).is_sealed());
        if !is_sealed || most < 2 || packets.len() <= segment {
            let (copies, apart) = self.together(packets, segment);
            return (copies, apart, 1);
        }
        let apart = (HEADER_LEN + most * segment + SEAL_LEN).next_multiple_of(8);
        let mut copies = Vec::with_capacity(packets.len().div_ceil(most * segment) * apart);
        for (packets, start) in packets.chunks(most * segment).zip((0..).step_by(apart)) {
            copies.resize(start, 0);
            copies.extend_from_slice(&Bundle::header(kind, packets, segment));
            copies.extend_from_slice(packets);
            self.append(&mut copies, start);
        }
        (copies, apart, most)
    }

    /// Passes the packet to `send`, protected if it has a trailer. `None`: it cannot be protected, and is lost.
    #[inline]
    pub(crate) fn protected<T>(&self, packet: &[u8], send: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match trailer_len(packet) {
            0 => Some(send(packet)),
            len => self.with_trailer(packet, len, send),
        }
    }

    #[inline(never)]
    fn with_trailer<T>(&self, packet: &[u8], trailer_len: usize, send: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match packet.len() <= SHORT {
            true => self.with_trailer_in::<{ SHORT + SEAL_LEN }, T>(packet, trailer_len, send),
            false => self.with_trailer_in::<{ MAX_DATAGRAM + SEAL_LEN }, T>(packet, trailer_len, send),
        }
    }

    /// The same, in a buffer of so many bytes.
    #[inline]
    fn with_trailer_in<const ROOM: usize, T>(
        &self,
        packet: &[u8],
        trailer_len: usize,
        send: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        let mut framed = [0; ROOM];
        let len = packet.len();
        framed[..len].copy_from_slice(packet);
        self.try_frame(&mut framed, len).then(|| send(&framed[..len + trailer_len]))
    }

    /// Sends one packet, protected if it has a trailer.
    pub(crate) fn send(&self, endpoint: &impl CallerEndpoint, packet: &[u8]) -> io::Result<Sending> {
        self.protected(packet, |packet| endpoint.send(packet)).unwrap_or(Ok(Sending::Sent))
    }
}

#[cfg(test)]
mod tests;
