//! Ports and names on an interface, each of which belongs to one endpoint.
//!
//! The kernel does not know ports of Ethernet. So an endpoint reserves its port (`reserved`).
//!
//! Servers choose ports below [`FIRST_OF_CALLERS`]. The others are for callers: a process
//! reserves blocks of [`BLOCK`] ports, one after the other as it needs them.

use crate::error::OpenError;
use crate::frame::EtherType;
use crate::interface::Interface;
use crate::reserved::{Reserved, place};
use rustix::io::Errno;

/// The first port that callers get.
pub const FIRST_OF_CALLERS: u16 = 0x8000;
/// Ports in a block. A block begins at a multiple of it.
pub const BLOCK: u16 = 64;

/// A reserved port, or a block of ports. Free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    first: u16,
    _name: Reserved,
}

impl Reservation {
    /// The port, or the first one of the block.
    pub(crate) fn first(&self) -> u16 {
        self.first
    }

    /// Reserves the port of a server.
    pub(crate) fn of_server(
        interface: &Interface,
        ether_type: EtherType,
        port: u16,
    ) -> Result<Self, OpenError> {
        if port == 0 || port >= FIRST_OF_CALLERS {
            let error = Errno::INVAL.into();
            return Err(OpenError::Unsupported { operation: "a server's port from 0x8000 on, or 0,", error });
        }
        let name = Self::text(interface, ether_type, port);
        Reserved::once_given_back(&name)?
            .map(|name| Self { first: port, _name: name })
            .ok_or(OpenError::PortTaken(port))
    }

    /// Reserves the port of a server, or the block of callers that begins there, at another interface.
    pub(crate) fn again(interface: &Interface, ether_type: EtherType, first: u16) -> Result<Self, OpenError> {
        Self::new(interface, ether_type, first)?.ok_or(OpenError::PortTaken(first))
    }

    /// Reserves any free port of a server.
    pub(crate) fn of_any_server(interface: &Interface, ether_type: EtherType) -> Result<Self, OpenError> {
        let ports = (FIRST_OF_CALLERS / 2..FIRST_OF_CALLERS).collect::<Vec<_>>();
        Self::first_free(interface, ether_type, &ports)
    }

    /// Reserves a block of ports for callers.
    pub(crate) fn of_callers(interface: &Interface, ether_type: EtherType) -> Result<Self, OpenError> {
        let blocks = (FIRST_OF_CALLERS..=u16::MAX).step_by(usize::from(BLOCK)).collect::<Vec<_>>();
        Self::first_free(interface, ether_type, &blocks)
    }

    /// Begins at a place that depends on the process, so that late frames for a process that has ended seldom
    /// find another one.
    fn first_free(interface: &Interface, ether_type: EtherType, ports: &[u16]) -> Result<Self, OpenError> {
        let start = std::process::id() as usize % ports.len();
        let (behind, before) = (&ports[start..], &ports[..start]);
        for &port in behind.iter().chain(before) {
            if let Some(reservation) = Self::new(interface, ether_type, port)? {
                return Ok(reservation);
            }
        }
        Err(OpenError::NoneFree)
    }

    /// `None` if the port is taken.
    fn new(interface: &Interface, ether_type: EtherType, first: u16) -> Result<Option<Self>, OpenError> {
        let name = Self::text(interface, ether_type, first);
        Ok(Reserved::new(&name)?.map(|name| Self { first, _name: name }))
    }

    fn text(interface: &Interface, ether_type: EtherType, first: u16) -> String {
        format!("{}{first}", place(interface, ether_type))
    }
}

/// A reserved name of a server. Free again when it is dropped.
#[derive(Debug)]
pub(crate) struct NameReservation {
    _name: Reserved,
}

impl NameReservation {
    pub(crate) fn new(interface: &Interface, ether_type: EtherType, name: &str) -> Result<Self, OpenError> {
        match Reserved::once_given_back(&Self::text(interface, ether_type, name))? {
            Some(name) => Ok(Self { _name: name }),
            None => Err(OpenError::NameTaken(name.into())),
        }
    }

    /// Whether an endpoint has the name.
    pub(crate) fn is_taken(interface: &Interface, ether_type: EtherType, name: &str) -> bool {
        Reserved::is_taken(&Self::text(interface, ether_type, name))
    }

    fn text(interface: &Interface, ether_type: EtherType, name: &str) -> String {
        format!("{}name/{name}", place(interface, ether_type))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Mac;
    use crate::interface::State;

    #[test]
    fn port_belongs_to_one_endpoint_until_it_is_dropped() {
        // No interface has this number; the tests of other processes have other names.
        let index = u32::MAX - std::process::id();
        let interface = Interface {
            name: "x".into(),
            index,
            mac: Mac::default(),
            mtu: 1500,
            state: State::Up,
            xdp: None,
            namespace: 0,
        };
        let reserve = |port| Reservation::of_server(&interface, EtherType::default(), port);
        let first = match reserve(7400) {
            Err(why @ OpenError::NotPermitted { .. }) => return println!("SKIPPED: {why}"),
            first => first.unwrap(),
        };
        assert!(matches!(reserve(7400), Err(OpenError::PortTaken(7400))));
        assert!(Reservation::of_server(&interface, EtherType::LOCAL_EXPERIMENTAL_2, 7400).is_ok());
        drop(first);
        assert!(reserve(7400).is_ok());
        assert!(reserve(0).is_err() && reserve(FIRST_OF_CALLERS).is_err());

        let blocks = [(); 2].map(|()| Reservation::of_callers(&interface, EtherType::default()).unwrap());
        assert_ne!(blocks[0].first(), blocks[1].first());
        assert!(blocks.iter().all(|block| block.first() >= FIRST_OF_CALLERS && block.first() % BLOCK == 0));
        let any = Reservation::of_any_server(&interface, EtherType::default()).unwrap();
        assert!(any.first() < FIRST_OF_CALLERS);
    }
}
