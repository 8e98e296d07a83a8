//! The interface by which packets to an address of IP leave, as the kernel's routes have it.

use super::attributes::Attributes;
use super::{HEADER_LEN, Interface, NLM_F_REQUEST, ask, by_index};
use crate::error::OpenError;
use rustix::io::Errno;
use std::net::IpAddr;

// <linux/rtnetlink.h>
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_VIA: u16 = 18;
const RTN_UNICAST: u8 = 1;
/// Bytes of `rtmsg`, and where in it the type of the route is.
const ROUTE_LEN: usize = 12;
const ROUTE_TYPE: usize = 7;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

impl Interface {
    /// The Ethernet interface of this thread's network namespace on whose link `host` is. `None` if a gateway leads there, or the
    /// address is this machine's, or the interface is no Ethernet.
    ///
    /// # Errors
    ///
    /// No route leads there, or no descriptor is left.
    pub fn on_link_with(host: IpAddr) -> Result<Option<Self>, OpenError> {
        let failed =
            |error: Errno| OpenError::System { operation: "looking for a route", error: error.into() };
        let answer = ask(&request(host), RTM_NEWROUTE).map_err(failed)?;
        let Some((header, attributes)) = answer.split_at_checked(HEADER_LEN + ROUTE_LEN) else {
            return Err(failed(Errno::BADMSG));
        };
        let attributes = Attributes::of(attributes);
        let has_gateway = [RTA_GATEWAY, RTA_VIA].iter().any(|kind| attributes.find(*kind).is_some());
        match attributes.find_u32(RTA_OIF) {
            Some(index) if !has_gateway && header[HEADER_LEN + ROUTE_TYPE] == RTN_UNICAST => {
                match by_index(index) {
                    Err(OpenError::NotEthernet(_)) => Ok(None),
                    interface => interface.map(Some),
                }
            }
            _ => Ok(None),
        }
    }
}

fn request(host: IpAddr) -> Vec<u8> {
    let (family, address) = match host {
        IpAddr::V4(host) => (AF_INET, host.octets().to_vec()),
        IpAddr::V6(host) => (AF_INET6, host.octets().to_vec()),
    };
    let attribute_len = 4 + address.len();
    let len = HEADER_LEN + ROUTE_LEN + attribute_len;
    let mut request = vec![0; len];
    request[0..4].copy_from_slice(&(len as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETROUTE.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST.to_ne_bytes());
    request[HEADER_LEN] = family;
    request[HEADER_LEN + 1] = 8 * address.len() as u8;
    let attribute = &mut request[HEADER_LEN + ROUTE_LEN..];
    attribute[0..2].copy_from_slice(&(attribute_len as u16).to_ne_bytes());
    attribute[2..4].copy_from_slice(&RTA_DST.to_ne_bytes());
    attribute[4..].copy_from_slice(&address);
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn no_ethernet_leads_to_this_machine() {
        assert!(matches!(Interface::on_link_with(Ipv4Addr::LOCALHOST.into()), Ok(None)));
        // Some machines have no IPv6.
        assert!(!matches!(Interface::on_link_with(Ipv6Addr::LOCALHOST.into()), Ok(Some(_))));
    }
}
