//! The XDP program that takes frames for registered ports, as eBPF instructions
//! (Documentation/bpf/standardization/instruction-set.rst).
//!
//! ```text
//! if the frame has our EtherType,
//!    and `ports` has, for its port, the hardware address to which it goes:
//!       hand it to the socket in `sockets` for its receive queue, or pass it on if there is none
//! else pass it on
//! ```
//!
//! The program reads and never writes, so every other frame passes untouched. A VLAN tag in the frame is
//! another EtherType.

use crate::address::Mac;
use crate::frame::EtherType;

/// An instruction: operation, destination register, source register, offset, immediate value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction(u8, u8, u8, i16, i32);

impl Instruction {
    /// Its eight bytes. The registers' half bytes are in the machine's bit order.
    fn encode(self) -> u64 {
        let Self(code, to, from, offset, immediate) = self;
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        let [o0, o1] = offset.to_ne_bytes();
        let [i0, i1, i2, i3] = immediate.to_ne_bytes();
        u64::from_ne_bytes([code, registers, o0, o1, i0, i1, i2, i3])
    }
}

// Registers: the result, arguments 1 to 3, four that a call leaves alone, the end of the stack.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const CONTEXT: u8 = 6;
const ADDRESS: u8 = 7;
const HIGH: u8 = 8;
const PORT: u8 = 9;
const STACK: u8 = 10;

// Operations.
const LOAD_U32: u8 = 0x61;
const LOAD_U16: u8 = 0x69;
const LOAD_U64: u8 = 0x79;
const STORE_U32: u8 = 0x63;
const LOAD_CONSTANT: u8 = 0x18;
const COPY: u8 = 0xbf;
const SET: u8 = 0xb7;
const ADD: u8 = 0x07;
const SHIFT_LEFT: u8 = 0x67;
const OR: u8 = 0x4f;
const JUMP_IF_GREATER: u8 = 0x2d;
const JUMP_UNLESS_EQUAL_VALUE: u8 = 0x55;
const JUMP_IF_EQUAL_VALUE: u8 = 0x15;
const JUMP_UNLESS_EQUAL: u8 = 0x5d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

// Functions of the kernel, results, and fields of `struct xdp_md` (<linux/bpf.h>).
const MAP_LOOKUP: i32 = 1;
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;
/// In a constant's source register: its value is the descriptor of a map.
const IS_MAP: u8 = 1;

/// Bytes that the program looks at: Ethernet header, and port.
const SEEN: i32 = 16;

/// The program, for maps with these descriptors.
pub(super) fn program(ether_type: EtherType, ports: i32, sockets: i32) -> Vec<u64> {
    // Marks the jumps to the end; the distance is filled in below.
    const PASS: i16 = i16::MAX;
    let ether_type = i32::from(ether_type.number().to_be());
    let mut program = vec![
        Instruction(COPY, CONTEXT, R1, 0, 0),
        Instruction(LOAD_U32, R2, CONTEXT, DATA, 0),
        Instruction(LOAD_U32, R3, CONTEXT, DATA_END, 0),
        Instruction(COPY, R1, R2, 0, 0),
        Instruction(ADD, R1, 0, 0, SEEN),
        Instruction(JUMP_IF_GREATER, R1, R3, PASS, 0),
        Instruction(LOAD_U16, R1, R2, 12, 0),
        Instruction(JUMP_UNLESS_EQUAL_VALUE, R1, 0, PASS, ether_type),
        // The hardware address as one number, see `address_value`.
        Instruction(LOAD_U32, ADDRESS, R2, 0, 0),
        Instruction(LOAD_U16, HIGH, R2, 4, 0),
        Instruction(SHIFT_LEFT, HIGH, 0, 0, 32),
        Instruction(OR, ADDRESS, HIGH, 0, 0),
        Instruction(LOAD_U16, PORT, R2, 14, 0),
        Instruction(STORE_U32, STACK, PORT, -4, 0),
        Instruction(LOAD_CONSTANT, R1, IS_MAP, 0, ports),
        Instruction(0, 0, 0, 0, 0),
        Instruction(COPY, R2, STACK, 0, 0),
        Instruction(ADD, R2, 0, 0, -4),
        Instruction(CALL, 0, 0, 0, MAP_LOOKUP),
        Instruction(JUMP_IF_EQUAL_VALUE, R0, 0, PASS, 0),
        Instruction(LOAD_U64, R1, R0, 0, 0),
        Instruction(JUMP_IF_EQUAL_VALUE, R1, 0, PASS, 0),
        Instruction(JUMP_UNLESS_EQUAL, R1, ADDRESS, PASS, 0),
        Instruction(LOAD_CONSTANT, R1, IS_MAP, 0, sockets),
        Instruction(0, 0, 0, 0, 0),
        Instruction(LOAD_U32, R2, CONTEXT, RX_QUEUE_INDEX, 0),
        // The result if there is no socket.
        Instruction(SET, R3, 0, 0, XDP_PASS),
        Instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        Instruction(EXIT, 0, 0, 0, 0),
    ];
    let end = program.len();
    program.extend([Instruction(SET, R0, 0, 0, XDP_PASS), Instruction(EXIT, 0, 0, 0, 0)]);
    for (place, instruction) in program.iter_mut().enumerate() {
        if instruction.3 == PASS {
            instruction.3 = (end - place - 1) as i16;
        }
    }
    program.into_iter().map(Instruction::encode).collect()
}

/// The key of a port in the map `ports`: the port's two bytes, as the program loads them.
pub(super) fn port_key(port: u16) -> u32 {
    u32::from(u16::from_ne_bytes(port.to_le_bytes()))
}

/// A registered port's value in the map `ports`. 0 stands for a port that is not registered.
pub(super) fn address_value(mac: Mac) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from(u32::from_ne_bytes([a, b, c, d])) | u64::from(u16::from_ne_bytes([e, f])) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn instructions_are_encoded_as_the_kernel_reads_them() {
        let program = program(EtherType::default(), 5, 6);
        assert_eq!(program[0], 0x0000_0000_0000_16bf, "r6 = r1");
        assert_eq!(program[5], 0x0000_0000_0017_312d, "if r1 > r3 goto +23");
        assert_eq!(program[7], 0x0000_b588_0015_0155, "if r1 != 0xb588 goto +21");
        assert_eq!(program[14], 0x0000_0005_0000_1118, "r1 = map 5");
        assert_eq!(program[program.len() - 2], 0x0000_0002_0000_00b7, "r0 = XDP_PASS");
        assert_eq!(address_value(Mac([1, 2, 3, 4, 5, 6])), 0x0605_0403_0201);
        assert_eq!(port_key(0x1234), 0x1234);
    }
}
