//! The arguments and results of the port mapper (RFC 1833 §3).

use crate::structure::structure;
use stoop_xdr::{Decode, DecodeError, Encode, Layout, Reader, UNBOUNDED, Writer, Xdr};

/// [`Mapping::protocol`] for TCP (RFC 1833 §3.1).
pub const IPPROTO_TCP: u32 = 6;

/// [`Mapping::protocol`] for UDP (RFC 1833 §3.1).
pub const IPPROTO_UDP: u32 = 17;

structure! {
    /// A registration (`mapping`, RFC 1833 §3.1).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    Mapping {
        /// The program.
        program: u32,
        /// Its version.
        version: u32,
        /// [`IPPROTO_TCP`] or [`IPPROTO_UDP`].
        protocol: u32,
        /// Where it listens.
        port: u32,
    }
}

/// A call for a program of rpcbind's machine (`call_args`, RFC 1833 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallIt<'a> {
    /// The program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure.
    pub procedure: u32,
    /// The arguments in XDR.
    pub arguments: &'a [u8],
}

impl Xdr for CallIt<'_> {
    const LAYOUT: Layout = Layout::variable(16);
}

impl Encode for CallIt<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.program);
        writer.u32(self.version);
        writer.u32(self.procedure);
        writer.opaque(self.arguments, UNBOUNDED);
    }
}

impl<'a> Decode<'a> for CallIt<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            program: reader.u32()?,
            version: reader.u32()?,
            procedure: reader.u32()?,
            arguments: reader.opaque(UNBOUNDED)?,
        })
    }
}

/// The result of such a call (`call_result`, RFC 1833 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallItResult<'a> {
    /// Where the program listens.
    pub port: u32,
    /// The results in XDR.
    pub results: &'a [u8],
}

impl Xdr for CallItResult<'_> {
    const LAYOUT: Layout = Layout::variable(8);
}

impl Encode for CallItResult<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.port);
        writer.opaque(self.results, UNBOUNDED);
    }
}

impl<'a> Decode<'a> for CallItResult<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { port: reader.u32()?, results: reader.opaque(UNBOUNDED)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use stoop_xdr::{Chain, from_slice, to_vec};

    #[test]
    fn a_dump_is_a_list_of_mappings() {
        let mapping = |port| Mapping { program: 100_000, version: 2, protocol: IPPROTO_UDP, port };
        let dump = Chain(vec![mapping(111), mapping(112)]);
        let form = to_vec(&dump).unwrap();
        let words = [1, 100_000, 2, 17, 111, 1, 100_000, 2, 17, 112, 0_u32].map(u32::to_be_bytes).concat();
        assert_eq!(form, words);
        assert_eq!(from_slice(&form), Ok(dump));
    }

    #[test]
    fn a_remote_call_is_read_as_it_was_written() {
        let call = CallIt { program: 1, version: 2, procedure: 3, arguments: b"four" };
        assert_eq!(from_slice(&to_vec(&call).unwrap()), Ok(call));
        let result = CallItResult { port: 1, results: b"four" };
        assert_eq!(from_slice(&to_vec(&result).unwrap()), Ok(result));
    }
}
