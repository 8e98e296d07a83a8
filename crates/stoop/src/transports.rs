//! The list of transports, in the order of preference, and static dispatch over them.
//!
//! To add a transport: its folder below `transport/` with an implementation of
//! [`Transport`](crate::transport::contract::Transport), a line of the list, a paragraph of documentation, and its schemes in the
//! conformance suite.

/// Calls `$then!` with `$arguments` and the list: a name for the variants of enums, and the type of the transport.
macro_rules! list {
    ($then:ident $arguments:tt) => {
        $then! { $arguments
            Local: crate::transport::local::LocalTransport,
            Shm: crate::transport::shm::ShmTransport,
            Udp: crate::transport::packet::transport::PacketTransport<crate::transport::udp::UdpLink>,
            Stream: crate::transport::stream::StreamTransport,
            Callback: crate::transport::callback::CallbackTransport,
            #[cfg(feature = "ether")]
            Ether: crate::transport::packet::transport::PacketTransport<crate::transport::ether::EtherLink>,
            #[cfg(feature = "test-transports")]
            Memory: crate::transport::packet::transport::PacketTransport<crate::transport::memory::MemoryLink>,
        }
    };
}

/// `on!(Enum, value, it => expression)`: the expression, in which `it` is the content of the variant of `value`.
macro_rules! on {
    ($Enum:ident, $value:expr, $it:ident => $then:expr) => {
        list! { on_each ($Enum, $value, $it => $then) }
    };
}

macro_rules! on_each {
    (($Enum:ident, $value:expr, $it:ident => $then:expr) $($(#[$meta:meta])* $Name:ident: $Type:ty,)*) => {
        match $value { $($(#[$meta])* $Enum::$Name($it) => $then,)* }
    };
}

mod binding;
mod calls;
pub(crate) mod carrying;
mod intercepted;
mod lane;

pub(crate) use crate::transports::binding::{AnyBegunCalls, AnyBinding};
pub(crate) use crate::transports::calls::AnyCalls;
pub(crate) use crate::transports::lane::AnyLane;

use crate::calling::handshake::NotBound;
use crate::error::UriError;
use crate::serving::running::Listener;
use crate::transport::contract::{Binding, ListenAddress, Target, Transport};
use crate::uri::{Scheme, Uri};
use std::io;
use std::sync::Arc;
use stoop_exchange::Instant;

type BindingOf<T> = <T as Transport>::Binding;
type LaneOf<'a, T> = <BindingOf<T> as Binding>::Lane<'a>;
type BegunOf<T> = <T as Transport>::Begun;

/// A function of its own for each transport: together they would need the stack for a binding of each.
#[inline(never)]
fn bind_by<T: Transport>(target: &Target<'_>, deadline: Instant) -> Result<Arc<T::Binding>, NotBound> {
    T::bind(target, deadline).map(Arc::new)
}

macro_rules! entry_points {
    (() $($(#[$meta:meta])* $Name:ident: $Type:ty,)*) => {
        /// All schemes, in the order of preference.
        pub(crate) fn schemes() -> impl Iterator<Item = &'static Scheme> {
            [$($(#[$meta])* <$Type>::SCHEMES,)*].into_iter().flatten()
        }

        /// Binds by the transport that the target's scheme names.
        pub(crate) fn bind(target: &Target<'_>, deadline: Instant) -> Result<AnyBinding, NotBound> {
            $($(#[$meta])* if target.scheme.is_one_of(<$Type>::SCHEMES) {
                return bind_by::<$Type>(target, deadline).map(AnyBinding::$Name);
            })*
            unreachable!("every scheme is in the list")
        }

        /// As [`Transport::nearer`], of the transport whose address `offer` is.
        pub(crate) fn nearer(offer: &str, reached: &str) -> Option<String> {
            $($(#[$meta])* if <$Type>::SCHEMES.iter().any(|scheme| scheme.begins(offer)) {
                return <$Type>::nearer(offer, reached);
            })*
            None
        }

        /// The beginnings of the addresses by which calls may have pipes.
        pub(crate) fn carriers_of_pipes() -> String {
            let mut schemes = Vec::new();
            $($(#[$meta])* if <$Type>::CARRIES_PIPES {
                schemes.extend(<$Type>::SCHEMES.iter().map(|scheme| format!("{}:", scheme.name)));
            })*
            schemes.join(", ")
        }

        /// Listens by the transport that the scheme names.
        pub(crate) fn listen(at: &ListenAddress<'_>) -> io::Result<Box<dyn Listener>> {
            $($(#[$meta])* if at.scheme.is_one_of(<$Type>::SCHEMES) {
                return <$Type>::listen(at);
            })*
            unreachable!("every scheme is in the list")
        }
    };
}
list! { entry_points () }

/// Takes an address apart.
pub(crate) fn parse(uri: &str) -> Result<Uri<'_>, UriError> {
    Uri::parse(uri, schemes)
}

/// Names of all schemes for users, in the order of preference: for tests and tools that cover every transport.
pub fn scheme_names() -> impl Iterator<Item = &'static str> {
    schemes().filter(|scheme| !scheme.forms.is_empty()).map(|scheme| scheme.name)
}

/// An address of that scheme: any free port of `host`, or that name, which may be an absolute path. For tests and tools.
///
/// # Panics
/// There is no such scheme.
pub fn free_address(scheme: &str, host: &str, name: &str) -> String {
    let scheme = schemes().find(|known| known.name == scheme).expect("a transport has the scheme");
    scheme.address(&format!("{host}:0"), name)
}

#[cfg(test)]
mod tests {
    use crate::transports::parse;
    use crate::uri::Uri;

    #[test]
    fn addresses_are_taken_apart() {
        let taken_apart = |uri| match parse(uri).unwrap() {
            Uri::Address(scheme, address) => format!("{} {address}", scheme.name),
            Uri::Name(name) => name.to_owned(),
        };
        assert_eq!(taken_apart("udp://10.0.0.1:7400"), "udp 10.0.0.1:7400");
        assert_eq!(taken_apart("udp://localhost:7400/"), "udp localhost:7400");
        assert_eq!(taken_apart("tcp://[::1]:7400"), "tcp [::1]:7400");
        assert_eq!(taken_apart("unix:/run/x"), "unix /run/x");
        assert_eq!(taken_apart("unix:@x"), "unix @x");
        assert_eq!(taken_apart("shm:greeter"), "shm greeter");
        assert_eq!(taken_apart("local:greeter"), "local greeter");
        assert_eq!(taken_apart("greeter"), "greeter");
    }

    #[test]
    fn a_wrong_address_is_told_how_to_be_right() {
        let why = |uri: &str| parse(uri).map(|_| ()).unwrap_err().to_string();
        assert!(
            why("/run/greeter").contains("transport is missing: write shm:/PATH or unix:/PATH"),
            "{}",
            why("/run/greeter")
        );
        for no_transport in ["127.0.0.1:7400", "localhost:7400", "[::1]:7400"] {
            assert!(
                why(no_transport).contains("transport is missing: write udp://HOST:PORT"),
                "{}",
                why(no_transport)
            );
        }
        assert!(why("").contains("udp://HOST:PORT"));
        let unknown = why("http://x:1");
        assert!(unknown.contains("no transport is called `http`; write local:NAME"), "{unknown}");
        assert!(why("UDP://x:1").contains("no transport is called `UDP`"));
        assert!(!why("a/b:c d").contains("is called"));
        let of_sun = if cfg!(feature = "onc") { "program = N" } else { "cargo feature `onc`" };
        assert!(why("onc+udp://x").contains(of_sun));
        assert!(why("udp:x:1").contains("two slashes"));
        assert!(why("udp://x").contains("port is missing"));
        assert!(why("udp://:7400").contains("0.0.0.0:PORT"));
        assert!(why("udp://x:70000").contains("0 to 65535"));
        assert!(why("tcp://::1:7400").contains("[::1]:PORT"));
        assert!(why("unix:").contains("path is missing"));
        assert!(why("shm:").contains("name is missing"));
        assert!(why("local:").contains("name is missing"));
        assert!(why("shm://x").contains("shm:NAME"), "{}", why("shm://x"));
        assert!(why("unix:///run/x").contains("unix:/PATH"), "{}", why("unix:///run/x"));
        assert!(why("local://x").contains("local:NAME"), "{}", why("local://x"));
    }
}
