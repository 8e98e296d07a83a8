//! Addresses of servers on an Ethernet, and by which mechanism they are reached.

use crate::uri::split_key;
use std::fmt;
use std::io;
use std::str::FromStr;
use stoop_ether::address::{Address, Mac};
use stoop_ether::frame::{Checksum, EtherType};
use stoop_ether::names::{BadName, Name};
use stoop_ether::ports::FIRST_OF_CALLERS;
use stoop_ether::{Backend, Mode, XdpOptions};

/// `INTERFACE/MAC:PORT?backend=…&checksum=…&ethertype=…`, of which a server may leave all but the interface out; or `INTERFACE/NAME?…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtherAddress {
    /// The interface of the process that uses the address.
    pub(super) interface: String,
    /// The name for which a caller asks, or under which a server listens.
    pub(super) name: Option<Name>,
    pub(super) mac: Option<Mac>,
    /// `None`: any free one.
    pub(super) port: Option<u16>,
    pub(super) backend: Backend,
    pub(super) checksum: Checksum,
    pub(super) ether_type: EtherType,
}

const FORM: &str = "write ether://INTERFACE/MAC:PORT for a server, as in ether://eth0/02:00:5e:10:ab:ff:7400; \
                    to listen, ether://INTERFACE/:PORT; or for both, ether://INTERFACE/NAME with a name that begins with a \
                    letter and has letters, digits, `-`, `_` and `.`";
const LIKE_AN_ADDRESS: &str = "the name reads as a hardware address: write that with colons and a port, as in \
                               ether://eth0/02:00:5e:10:ab:ff:7400, or take another name";
const PORTS: &str = "a server's port on an Ethernet is 1 to 32767; the others are those of callers";
const PARAMETERS: &str = "behind the `?` of an ether: address may be backend=ring, backend=xdp, backend=xdp-generic, \
                          checksum=off and ethertype=0x88b6, joined by `&`";

/// Takes `//INTERFACE/MAC:PORT` apart.
pub(super) fn parse(rest: &str) -> Result<&str, &'static str> {
    let address = rest.strip_prefix("//").ok_or(FORM)?;
    // A public key may stand before the interface.
    let (_, server) = split_key(address);
    EtherAddress::read(server).map(|_| address)
}

impl EtherAddress {
    /// The address of an endpoint, as another endpoint writes it that has the same options.
    pub(super) fn at(&self, Address { mac, port }: Address) -> Self {
        Self { name: None, mac: Some(mac), port: Some(port), ..self.clone() }
    }

    /// The address of the server of that name at the interface with this address, which is the caller's own.
    pub(super) fn here(&self, own: Mac) -> Self {
        Self { mac: Some(own), ..self.clone() }
    }

    /// The server of an offer as a process reaches it by its own interface of this name. The backend and the checksum are the process's
    /// own choice: a server cannot have it attach a program to its interface, or send without checksums.
    pub(super) fn offered_at(&self, interface: &str) -> Self {
        let (backend, checksum) = (Backend::PacketRing, Checksum::Computed);
        Self { interface: interface.into(), backend, checksum, ..self.clone() }
    }

    /// The address of the server that it names, if it names one.
    pub(super) fn server(&self) -> Option<Address> {
        Some(Address { mac: self.mac?, port: self.port? })
    }

    pub(super) fn is_xdp(&self) -> bool {
        matches!(self.backend, Backend::Xdp(_))
    }

    fn read(text: &str) -> Result<Self, &'static str> {
        let (place, parameters) = text.split_once('?').unwrap_or((text, ""));
        let (interface, endpoint) = place.split_once('/').unwrap_or((place, ""));
        let (name, mac, port) = match endpoint.rsplit_once(':') {
            Some((mac, port)) => (None, mac, port),
            None if endpoint.is_empty() => (None, "", "0"),
            None => (Some(read_name(endpoint)?), "", "0"),
        };
        let port: u16 = port.parse().map_err(|_| FORM)?;
        if port >= FIRST_OF_CALLERS {
            return Err(PORTS);
        }
        let mac = match mac {
            "" => None,
            mac => Some(mac.parse::<Mac>().map_err(|_| FORM)?),
        };
        if interface.is_empty() || mac.is_some_and(Mac::is_group) {
            return Err(FORM);
        }
        let mut address = Self {
            interface: interface.into(),
            name,
            mac,
            port: Some(port).filter(|port| *port > 0),
            backend: Backend::PacketRing,
            checksum: Checksum::Computed,
            ether_type: EtherType::default(),
        };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            address.set(parameter).ok_or(PARAMETERS)?;
        }
        Ok(address)
    }

    fn set(&mut self, parameter: &str) -> Option<()> {
        match parameter.split_once('=')? {
            ("backend", backend) => {
                self.backend = match backend {
                    "ring" => Backend::PacketRing,
                    "xdp" => Backend::Xdp(XdpOptions::new(Mode::Native)),
                    "xdp-generic" => Backend::Xdp(XdpOptions::new(Mode::Generic)),
                    _ => return None,
                }
            }
            ("checksum", "on") => self.checksum = Checksum::Computed,
            ("checksum", "off") => self.checksum = Checksum::Omitted,
            ("ethertype", number) => {
                let number = u16::from_str_radix(number.strip_prefix("0x")?, 16).ok()?;
                self.ether_type = EtherType::new(number)?;
            }
            _ => return None,
        }
        Some(())
    }
}

fn read_name(text: &str) -> Result<Name, &'static str> {
    text.parse().map_err(|why| match why {
        BadName::HardwareAddress => LIKE_AN_ADDRESS,
        BadName::Form => FORM,
    })
}

impl FromStr for EtherAddress {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        Self::read(text).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}

impl fmt::Display for EtherAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interface, name, mac, port, backend, checksum, ether_type } = self;
        match (name, mac) {
            (Some(name), _) => write!(f, "{interface}/{name}")?,
            (None, Some(mac)) => write!(f, "{interface}/{mac}:{}", port.unwrap_or(0))?,
            (None, None) => write!(f, "{interface}/:{}", port.unwrap_or(0))?,
        }
        let mut parameters = Vec::new();
        if let Backend::Xdp(xdp) = backend {
            parameters.push(
                if xdp.mode == Mode::Native { "backend=xdp" } else { "backend=xdp-generic" }.to_owned(),
            );
        }
        if *checksum == Checksum::Omitted {
            parameters.push("checksum=off".into());
        }
        if *ether_type != EtherType::default() {
            parameters.push(format!("ethertype={ether_type}"));
        }
        if parameters.is_empty() { Ok(()) } else { write!(f, "?{}", parameters.join("&")) }
    }
}

#[cfg(test)]
mod tests {
    use crate::transport::ether::address::{EtherAddress, parse};

    #[test]
    fn an_address_is_written_as_it_is_read() {
        for text in [
            "eth0/02:00:5e:10:ab:ff:7400",
            "eth0/:7400",
            "eth0/:0",
            "veth-a/02:00:5e:10:ab:ff:1?backend=xdp&checksum=off&ethertype=0x88b6",
            "veth-a/02:00:5e:10:ab:ff:1?backend=xdp-generic",
            "eth0/greeter",
            "eth0/greeter-2.west?backend=xdp",
        ] {
            assert_eq!(parse(&format!("//{text}")), Ok(text));
            assert_eq!(text.parse::<EtherAddress>().unwrap().to_string(), text);
        }
        assert_eq!("eth0".parse::<EtherAddress>().unwrap(), "eth0/:0?backend=ring".parse().unwrap());
    }

    #[test]
    fn offer_chooses_neither_backend_nor_checksum_of_the_caller() {
        let offered = |text: &str| text.parse::<EtherAddress>().unwrap().offered_at("veth0").to_string();
        let offer = "eth0/02:00:5e:10:ab:ff:7400?backend=xdp&checksum=off&ethertype=0x88b6";
        assert_eq!(offered(offer), "veth0/02:00:5e:10:ab:ff:7400?ethertype=0x88b6");
        assert_eq!(offered("eth0/greeter?backend=xdp-generic"), "veth0/greeter");
    }

    #[test]
    fn a_wrong_address_is_told_how_to_be_right() {
        for wrong in [
            "eth0/02:00:5e:10:ab:ff:7400",
            "//",
            "///:7400",
            "//eth0/7400",
            "//eth0/02:00:5e:10:ab:7400",
            "//eth0/:70000",
            "//eth0/ff:ff:ff:ff:ff:ff:7400",
            "//eth0/greeter:7400",
            "//eth0/a/b",
            "//eth0/greeter\u{e9}",
        ] {
            assert!(parse(wrong).unwrap_err().contains("ether://INTERFACE/MAC:PORT"), "{wrong}");
        }
        for wrong in ["//eth0/aa-bb-cc-dd-ee-ff", "//eth0/aabb.ccdd.eeff", "//eth0/aabbccddeeff"] {
            assert!(parse(wrong).unwrap_err().contains("reads as a hardware address"), "{wrong}");
        }
        for wrong in ["//eth0/:32768", "//eth0/02:00:5e:10:ab:ff:65535"] {
            assert!(parse(wrong).unwrap_err().contains("1 to 32767"), "{wrong}");
        }
        for wrong in ["backend", "backend=dpdk", "checksum=perhaps", "ethertype=0x0800", "ethertype=88b6"] {
            assert!(parse(&format!("//eth0/:1?{wrong}")).unwrap_err().contains("backend=ring"), "{wrong}");
        }
    }
}
