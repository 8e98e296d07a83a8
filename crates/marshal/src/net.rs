//! Internet addresses: octets in network order, as they are written, and the numbers beside them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::scalar::{described_as, fixed, travels_as};
use crate::{Data, DecodeError, Description, Layout, Reader, Writer};

travels_as!(Ipv4Addr, "Ipv4Addr", [u8; 4], |value| value.octets(), |octets| Ok(octets.into()));
travels_as!(Ipv6Addr, "Ipv6Addr", [u8; 16], |value| value.octets(), |octets| Ok(octets.into()));
travels_as!(SocketAddrV4, "SocketAddrV4", (Ipv4Addr, u16), |value| (*value.ip(), value.port()), |parts| {
    Ok(SocketAddrV4::new(parts.0, parts.1))
});
travels_as!(
    SocketAddrV6,
    "SocketAddrV6",
    (Ipv6Addr, u16, u32, u32),
    |value| (*value.ip(), value.port(), value.flowinfo(), value.scope_id()),
    |parts| Ok(SocketAddrV6::new(parts.0, parts.1, parts.2, parts.3))
);

/// Either of two types, told apart by the version of the protocol in a byte.
macro_rules! either_version {
    ($ty:ident, $v4:ty, $v6:ty) => {
        impl Data for $ty {
            const LAYOUT: Layout = Layout::variable(1 + <$v4>::LAYOUT.min());
            described_as!(stringify!($ty));

            fn encode(&self, writer: &mut Writer<'_>) {
                match self {
                    $ty::V4(address) => {
                        writer.fixed(&4u8);
                        address.encode(writer);
                    }
                    $ty::V6(address) => {
                        writer.fixed(&6u8);
                        address.encode(writer);
                    }
                }
            }

            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                match reader.fixed::<u8>()? {
                    4 => Ok($ty::V4(reader.fixed()?)),
                    6 => Ok($ty::V6(reader.fixed()?)),
                    found => Err(DecodeError::BadVariant { name: stringify!($ty), found: found.into() }),
                }
            }
        }
    };
}
either_version!(IpAddr, Ipv4Addr, Ipv6Addr);
either_version!(SocketAddr, SocketAddrV4, SocketAddrV6);
