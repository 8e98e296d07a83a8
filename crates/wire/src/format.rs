//! Lengths of packets and of their parts, and how a packet begins.

/// Bytes of the header.
pub const HEADER_LEN: usize = 32;

/// Bytes of a message that fit into one packet on a standard Ethernet. Messages up to this length are one packet;
/// longer ones are sent as fragments of any size.
pub const PACKET_DATA: usize = 1440;

/// Bytes of the checksum behind the data of each packet of a binding that has checksums: CRC-32C, of header and data.
pub const CHECKSUM_LEN: usize = 4;

/// As [`PACKET_DATA`], with a checksum behind the data; a multiple of eight bytes, as without one.
pub const PACKET_DATA_CHECKED: usize = PACKET_DATA - 8;

/// Bytes behind the data of each packet of a sealed binding: the packet's number and its authentication tag.
pub const SEAL_LEN: usize = 8 + 16;

/// As [`PACKET_DATA`], in a packet that is sealed.
pub const PACKET_DATA_SEALED: usize = PACKET_DATA - SEAL_LEN;

/// Bytes of the largest datagram with a whole message: it fills an Ethernet frame.
pub const MAX_DATAGRAM: usize = HEADER_LEN + PACKET_DATA;

/// Bytes of a message behind one header on a byte stream; longer messages are interleaved between lanes.
pub const STREAM_FRAGMENT: usize = 64 * 1024;

/// First byte of every packet.
pub const MAGIC: u8 = 0xd7;

/// Version of the protocol. Versions do not work with each other.
pub const VERSION: u8 = 1;

const ETHERNET_IP_UDP: usize = 14 + 20 + 8;
const _: () = assert!(ETHERNET_IP_UDP + HEADER_LEN == 74, "Null() is the 74-byte packet of Firefly §2");
const _: () =
    assert!(ETHERNET_IP_UDP + MAX_DATAGRAM == 1514, "MaxResult() fills an Ethernet frame (Firefly §2)");
