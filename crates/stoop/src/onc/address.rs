//! Addresses of programs: `onc+udp://HOST[:PORT]/PROGRAM:VERSION`, `onc+tcp://…`, `onc+unix:PATH/PROGRAM:VERSION`.

use crate::error::UriError;
use crate::program::VersionId;
use crate::uri::split_key;
use std::fmt;

/// The transport that carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams: calls are sent again when replies are lost, and messages are at most as long as a datagram.
    Udp,
    /// A connection over TCP.
    Tcp,
    /// A connection over a Unix socket.
    Unix,
}

impl Transport {
    /// The scheme of its addresses.
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Udp => "onc+udp",
            Self::Tcp => "onc+tcp",
            Self::Unix => "onc+unix",
        }
    }

    /// That which carries the messages at `uri`, if it is an address of Sun RPC.
    pub(crate) fn of(uri: &str) -> Option<Self> {
        let (scheme, _) = uri.split_once(':')?;
        [Self::Udp, Self::Tcp, Self::Unix].into_iter().find(|known| known.scheme() == scheme)
    }
}

/// An address, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) transport: Transport,
    /// The public key of the server, which means TLS.
    pub(crate) key: Option<String>,
    /// The host, or the path of a Unix socket (`@NAME` for an abstract one).
    pub(crate) host: String,
    /// `None`: rpcbind knows.
    pub(crate) port: Option<u16>,
    pub(crate) version: VersionId,
}

const FORMS: &str = "write onc+udp://HOST/PROGRAM:VERSION or onc+tcp://HOST/PROGRAM:VERSION, with :PORT behind HOST if rpcbind is \
                     not to be asked, or onc+unix:PATH/PROGRAM:VERSION";

impl Address {
    /// Takes the address of a program apart.
    ///
    /// # Errors
    /// It is no such address; the error says what to write.
    pub(crate) fn parse(uri: &str) -> Result<Self, UriError> {
        Self::try_parse(uri).map_err(|why| UriError { uri: uri.into(), why: why.into() })
    }

    fn try_parse(uri: &str) -> Result<Self, &'static str> {
        let (_, rest) = uri.split_once(':').ok_or(FORMS)?;
        let transport = Transport::of(uri).ok_or(FORMS)?;
        let (place, version) = rest.rsplit_once('/').ok_or(FORMS)?;
        let version =
            version_id(version).ok_or("the program is missing: write /PROGRAM:VERSION at the end")?;
        if transport == Transport::Unix {
            return match place {
                "" | "@" => Err("the path of the socket is missing: write onc+unix:PATH/PROGRAM:VERSION"),
                path => Ok(Self { transport, key: None, host: path.into(), port: None, version }),
            };
        }
        let place = place
            .strip_prefix("//")
            .ok_or("two slashes are missing: write onc+udp://HOST/PROGRAM:VERSION")?;
        let (key, place) = split_key(place);
        let (host, port) = host_and_port(place)?;
        Ok(Self { transport, key: key.map(Into::into), host: host.into(), port, version })
    }
}

fn version_id(text: &str) -> Option<VersionId> {
    let (program, version) = text.split_once(':')?;
    Some(VersionId { program: number(program)?, version: number(version)? })
}

/// A number as `.x` files write them: decimal, or hexadecimal with `0x`.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A host and perhaps a port, an IPv6 address in brackets.
fn host_and_port(place: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = match place.rsplit_once(':') {
        Some((_, rest)) if rest.ends_with(']') => (place, None),
        Some((host, port)) => (host, Some(port)),
        None => (place, None),
    };
    if host.is_empty() {
        return Err("the host is missing: write onc+udp://HOST/PROGRAM:VERSION");
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err("an IPv6 address goes in brackets: [::1]");
    }
    match port.map(str::parse) {
        None => Ok((host, None)),
        Some(Ok(port)) => Ok((host, Some(port))),
        Some(Err(_)) => Err("the port is no number from 0 to 65535"),
    }
}

/// As in a URI.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slashes = if self.transport == Transport::Unix { "" } else { "//" };
        write!(f, "{}:{slashes}", self.transport.scheme())?;
        if let Some(key) = &self.key {
            write!(f, "{key}@")?;
        }
        f.write_str(&self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write!(f, "/{}", self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart_and_written_again() {
        for uri in [
            "onc+udp://host/100002:2",
            "onc+tcp://10.0.0.1:2049/100003:3",
            "onc+udp://[::1]/100000:4",
            "onc+udp://[::1]:111/100000:4",
            "onc+unix:/run/rpcbind.sock/100000:4",
            "onc+unix:@name/7:1",
            "onc+tcp://11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo@[::1]:2049/7:1",
        ] {
            assert_eq!(Address::parse(uri).unwrap().to_string(), uri);
        }
        let address = Address::parse("onc+tcp://h/0x20000099:1").unwrap();
        assert_eq!((address.version.program, address.port), (0x2000_0099, None));
    }

    #[test]
    fn a_wrong_address_is_told_how_to_be_right() {
        let why = |uri: &str| Address::parse(uri).unwrap_err().to_string();
        assert!(why("host").contains("onc+udp://HOST/PROGRAM:VERSION"));
        assert!(why("tcp://h:1/1:2").contains("onc+udp://HOST"));
        assert!(why("onc+udp://h").contains("the program is missing"));
        assert!(why("onc+udp://h/7").contains("the program is missing"));
        assert!(why("onc+udp:h/7:1").contains("two slashes"));
        assert!(why("onc+udp:///7:1").contains("the host is missing"));
        assert!(why("onc+udp://::1/7:1").contains("brackets"));
        assert!(why("onc+udp://h:x/7:1").contains("the port"));
        assert!(why("onc+unix:/7:1").contains("path"));
    }
}
