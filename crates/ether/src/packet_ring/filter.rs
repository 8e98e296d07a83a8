//! Programs in classic BPF that the kernel runs for each frame (Documentation/networking/filter.rst).
//!
//! A packet socket is bound to an EtherType and an interface, so the programs need not look at these.

use crate::ports::BLOCK;
use libc::sock_filter;

// <linux/bpf_common.h>
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const RETURN_A: u16 = 0x16;

/// What the kernel knows about a frame beside its bytes: whether it goes to this interface (SKF_AD_OFF and
/// SKF_AD_PKTTYPE in <linux/filter.h>).
const PACKET_TYPE: u32 = (-0x1000i32 + 4).cast_unsigned();
const PACKET_HOST: u32 = 0;
const PACKET_BROADCAST: u32 = 1;

const fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Goes on if the accumulator is `k`, else skips `otherwise` instructions.
const fn unless_equal(k: u32, otherwise: u8) -> sock_filter {
    sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: otherwise, k }
}

/// Takes frames to this interface's own address and to `port`. The kernel says of a frame for a VLAN that has
/// no interface here that it goes to another host.
pub(super) fn for_port(port: u16) -> [sock_filter; 6] {
    [
        statement(LOAD_WORD, PACKET_TYPE),
        unless_equal(PACKET_HOST, 3),
        // BPF loads big-endian numbers; the port is little-endian.
        statement(LOAD_HALF, 14),
        unless_equal(u32::from(port.swap_bytes()), 1),
        statement(RETURN, u32::MAX),
        statement(RETURN, 0),
    ]
}

/// Takes frames to this interface's own address.
pub(crate) fn for_own_address() -> [sock_filter; 4] {
    of_type(PACKET_HOST)
}

/// Takes frames to the broadcast address.
pub(crate) fn for_broadcast() -> [sock_filter; 4] {
    of_type(PACKET_BROADCAST)
}

fn of_type(packet_type: u32) -> [sock_filter; 4] {
    [
        statement(LOAD_WORD, PACKET_TYPE),
        unless_equal(packet_type, 1),
        statement(RETURN, u32::MAX),
        statement(RETURN, 0),
    ]
}

/// Takes nothing. A socket has it until it is set up.
pub(super) fn for_nothing() -> [sock_filter; 1] {
    [statement(RETURN, 0)]
}

/// Chooses the member of a fan-out group: the place of the port in its block. A fan-out program sees the
/// bytes behind the Ethernet header.
pub(super) fn member() -> [sock_filter; 3] {
    // The lower byte of the port is enough.
    const _: () = assert!(BLOCK <= 256 && BLOCK.is_power_of_two());
    [statement(LOAD_BYTE, 0), statement(AND, (BLOCK - 1) as u32), statement(RETURN_A, 0)]
}
