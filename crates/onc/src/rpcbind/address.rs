//! Universal addresses: an IP address and a port as text.
//!
//! `h1.h2.h3.h4.p1.p2` is IPv4, with the two bytes of the port as decimal numbers (RFC 5665 §5.2.3.3). IPv6 is
//! `x:x::x.p1.p2` (RFC 5665 §5.2.3.4). The universal address of a Unix socket is its path, which needs no conversion.

use alloc::format;
use alloc::string::String;
use core::net::{IpAddr, SocketAddr};

/// The universal address of an IP address and a port. A scope of IPv6 is left out: it means nothing elsewhere.
pub fn universal(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

/// The IP address and the port of a universal address; `None` if it is of another kind, or broken.
pub fn parse_universal(text: &str) -> Option<SocketAddr> {
    let (rest, low) = text.rsplit_once('.')?;
    let (ip, high) = rest.rsplit_once('.')?;
    let port = u16::from_be_bytes([byte(high)?, byte(low)?]);
    let ip: IpAddr = ip.parse().ok()?;
    Some(SocketAddr::new(ip, port))
}

/// A byte in decimal digits, nothing else.
fn byte(text: &str) -> Option<u8> {
    if text.bytes().all(|digit| digit.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    fn parsed(text: &str) -> Option<String> {
        parse_universal(text).map(|address| address.to_string())
    }

    #[test]
    fn addresses_are_those_of_rpcinfo() {
        assert_eq!(parsed("127.0.0.1.0.111").as_deref(), Some("127.0.0.1:111"));
        assert_eq!(parsed("0.0.0.0.8.1").as_deref(), Some("0.0.0.0:2049"));
        assert_eq!(parsed("::1.0.111").as_deref(), Some("[::1]:111"));
        assert_eq!(parsed("::.255.255").as_deref(), Some("[::]:65535"));
        assert_eq!(parsed("fe80::1.2.3").as_deref(), Some("[fe80::1]:515"));
        assert_eq!(universal("127.0.0.1:111".parse().unwrap()), "127.0.0.1.0.111");
        assert_eq!(universal("[::1]:2049".parse().unwrap()), "::1.8.1");
        assert_eq!(
            universal("[fe80::1%3]:2049".parse().unwrap_or("[fe80::1]:2049".parse().unwrap())),
            "fe80::1.8.1"
        );
    }

    #[test]
    fn anything_else_is_no_address() {
        let broken =
            ["", ".", "1.2", "127.0.0.1", "127.0.0.1.111", "127.0.0.1.256.1", "127.0.0.1.0.-1", "x.0.1"];
        let odd = [
            "127.0.0.1.+0.111",
            "127.0.0.1..111",
            "127.0.0.1.0.111.",
            "/run/rpcbind.sock",
            "127.0.0.256.0.111",
        ];
        for text in broken.into_iter().chain(odd) {
            assert_eq!(parse_universal(text), None, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_address_is_read_as_it_was_written(four in any::<u32>(), six in any::<u128>(), port in any::<u16>()) {
            for ip in [IpAddr::V4(Ipv4Addr::from_bits(four)), IpAddr::V6(Ipv6Addr::from_bits(six))] {
                let address = SocketAddr::new(ip, port);
                prop_assert_eq!(parse_universal(&universal(address)), Some(address));
            }
        }

        #[test]
        fn any_text_is_parsed_without_a_panic(text in "[0-9.:a-f]{0,30}") {
            let _ = parse_universal(&text);
        }
    }
}
