//! Addresses: the transport and where it leads.

use crate::error::UriError;

/// An address as the user writes it, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Uri {
    /// `udp://host:port`: packet exchange over UDP.
    Udp(String),
    /// `tcp://host:port`: a byte stream.
    Tcp(String),
    /// `unix:path` or `unix:@name`: a byte stream on this machine.
    Unix(String),
    /// `shm:name` or `shm:path`: memory shared with a server on this machine.
    Shm(String),
    /// `local:name`: a server in this process.
    Local(String),
    /// `name`: a server on this machine, by whatever is best.
    Name(String),
}

const FORMS: &str = "write udp://HOST:PORT, tcp://HOST:PORT, unix:PATH, unix:@NAME, shm:NAME, shm:/PATH or local:NAME; or a NAME alone, of a server on \
     this machine";

impl Uri {
    pub(crate) fn parse(uri: &str) -> Result<Self, UriError> {
        let wrong = |why| Err(UriError { uri: uri.into(), why });
        let Some((scheme, rest)) = uri.split_once(':') else {
            return match uri.contains(|c: char| c == '/' || c == '@' || c.is_whitespace()) {
                _ if uri.is_empty() => wrong(FORMS),
                true if uri.starts_with('/') => {
                    wrong("the transport is missing: write unix:/PATH or shm:/PATH")
                }
                true => wrong(FORMS),
                false => Ok(Self::Name(uri.into())),
            };
        };
        match scheme {
            "udp" | "tcp" => {
                let Some(authority) = rest.strip_prefix("//") else {
                    return wrong("two slashes are missing: write udp://HOST:PORT or tcp://HOST:PORT");
                };
                let authority = authority.strip_suffix('/').unwrap_or(authority);
                match authority.rsplit_once(':') {
                    None | Some((_, "")) => wrong("the port is missing: write HOST:PORT"),
                    Some(("", _)) => wrong(
                        "the host is missing: write HOST:PORT; to listen at all addresses, 0.0.0.0:PORT",
                    ),
                    Some((_, port)) if port.parse::<u16>().is_err() => wrong(
                        "the port is no number from 0 to 65535; an IPv6 address goes in brackets: [::1]:PORT",
                    ),
                    Some((host, _)) if host.contains(':') && !host.starts_with('[') => {
                        wrong("an IPv6 address goes in brackets: [::1]:PORT")
                    }
                    Some(_) if scheme == "udp" => Ok(Self::Udp(authority.into())),
                    Some(_) => Ok(Self::Tcp(authority.into())),
                }
            }
            "unix" if rest.is_empty() || rest == "@" => {
                wrong("the path is missing: write unix:PATH or unix:@NAME")
            }
            "unix" => Ok(Self::Unix(rest.into())),
            "shm" if rest.is_empty() || rest == "@" => {
                wrong("the name is missing: write shm:NAME, or shm:/PATH for a socket with a file")
            }
            "shm" => Ok(Self::Shm(rest.into())),
            "local" if rest.is_empty() => wrong("the name is missing: write local:NAME"),
            "local" => Ok(Self::Local(rest.into())),
            _ if !uri.contains('/')
                && rest.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok()) =>
            {
                wrong("the transport is missing: write udp://HOST:PORT or tcp://HOST:PORT")
            }
            _ => wrong(FORMS),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::uri::*;

    #[test]
    fn addresses_are_taken_apart() {
        assert_eq!(Uri::parse("udp://10.0.0.1:7400"), Ok(Uri::Udp("10.0.0.1:7400".into())));
        assert_eq!(Uri::parse("udp://localhost:7400/"), Ok(Uri::Udp("localhost:7400".into())));
        assert_eq!(Uri::parse("tcp://[::1]:7400"), Ok(Uri::Tcp("[::1]:7400".into())));
        assert_eq!(Uri::parse("unix:/run/x"), Ok(Uri::Unix("/run/x".into())));
        assert_eq!(Uri::parse("unix:@x"), Ok(Uri::Unix("@x".into())));
        assert_eq!(Uri::parse("shm:greeter"), Ok(Uri::Shm("greeter".into())));
        assert_eq!(Uri::parse("greeter"), Ok(Uri::Name("greeter".into())));
        assert_eq!(Uri::parse("local:greeter"), Ok(Uri::Local("greeter".into())));
    }

    #[test]
    fn a_wrong_address_is_told_how_to_be_right() {
        let why = |uri: &str| Uri::parse(uri).unwrap_err().to_string();
        assert!(
            why("/run/greeter").contains("transport is missing: write unix:/PATH"),
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
        assert!(why("http://x:1").contains("udp://HOST:PORT"));
        assert!(why("udp:x:1").contains("two slashes"));
        assert!(why("udp://x").contains("port is missing"));
        assert!(why("udp://:7400").contains("0.0.0.0:PORT"));
        assert!(why("udp://x:70000").contains("0 to 65535"));
        assert!(why("tcp://::1:7400").contains("[::1]:PORT"));
        assert!(why("unix:").contains("path is missing"));
        assert!(why("shm:").contains("name is missing"));
        assert!(why("local:").contains("name is missing"));
    }
}
