//! Addresses: the transport, and what its address is there.

use crate::error::UriError;
use std::io;

/// A scheme of addresses, and how they are written.
pub(crate) struct Scheme {
    /// The text before the colon.
    pub(crate) name: &'static str,
    /// How addresses are written, with `HOST`, `PORT`, `NAME` and `PATH` for what the user chooses. None if the scheme is not for users.
    pub(crate) forms: &'static [&'static str],
    /// Whether a name alone, without a scheme, stands for `scheme:NAME`: of a server in another process, for in this one it
    /// stands for `local:NAME`.
    pub(crate) has_names: bool,
    /// Takes what follows the colon apart.
    pub(crate) parse: fn(&str) -> Result<&str, &'static str>,
}

impl Scheme {
    /// Whether the address has this scheme.
    pub(crate) fn begins(&self, uri: &str) -> bool {
        uri.strip_prefix(self.name).is_some_and(|rest| rest.starts_with(':'))
    }

    /// The address of a host and port, or of a name or path, whichever the scheme has.
    pub(crate) fn address(&self, host_and_port: &str, name: &str) -> String {
        let wanted = if name.starts_with('/') { "/PATH" } else { "NAME" };
        let form = self.forms.iter().find(|form| form.ends_with("HOST:PORT") || form.ends_with(wanted));
        let Some(form) = form.or(self.forms.first()) else { return format!("{}:{name}", self.name) };
        form.replace("HOST:PORT", host_and_port).replace("/PATH", name).replace("NAME", name)
    }

    /// Whether it is in that list.
    pub(crate) fn is_one_of(&self, list: &[Self]) -> bool {
        list.iter().any(|scheme| scheme.name == self.name)
    }
}

/// An address as the user writes it, taken apart.
#[derive(Clone, Copy)]
pub(crate) enum Uri<'a> {
    /// `scheme:address`.
    Address(&'static Scheme, &'a str),
    /// `name`: a server on this machine, by the best transport.
    Name(&'a str),
}

impl<'a> Uri<'a> {
    /// Takes an address apart; it may have one of these schemes.
    ///
    /// # Errors
    /// It is no address; the error says what to write.
    pub(crate) fn parse<S: Iterator<Item = &'static Scheme>>(
        uri: &'a str,
        schemes: impl Fn() -> S,
    ) -> Result<Self, UriError> {
        let wrong = |why: String| Err(UriError { uri: uri.into(), why });
        let missing = |forms: String| wrong(format!("the transport is missing: write {forms}"));
        let is_name = |text: &str| !text.contains(|c: char| c == '/' || c == '@' || c.is_whitespace());
        match uri.split_once(':') {
            None if uri.starts_with('/') => missing(list(schemes(), ":/PATH", " or ")),
            None if !uri.is_empty() && is_name(uri) => Ok(Self::Name(uri)),
            Some((name, rest)) => match schemes().find(|scheme| scheme.name == name) {
                Some(scheme) => match (scheme.parse)(rest) {
                    Ok(address) => Ok(Self::Address(scheme, address)),
                    Err(why) => wrong(why.into()),
                },
                None if !uri.contains('/') && has_port(rest) => missing(list(schemes(), "HOST:PORT", " or ")),
                None => wrong(unknown(name, schemes())),
            },
            None => wrong(forms(schemes())),
        }
    }
}

/// The advice to a user whose address begins with a scheme that is not one of these.
fn unknown(scheme: &str, schemes: impl Iterator<Item = &'static Scheme>) -> String {
    if let Some(why) = without_feature(scheme) {
        return why;
    }
    // Servers and typed clients of Sun RPC take such an address apart by themselves.
    if matches!(scheme, "onc+udp" | "onc+tcp" | "onc+unix") {
        return "only interfaces with `#[stoop::interface(program = N, version = N)]`, which have no pipes, are called by Sun RPC; write \
                an address of another transport at which the server listens (`rpcinfo` asks servers of Sun RPC whether they answer)"
            .into();
    }
    let is_word =
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+');
    let why = if is_word { format!("no transport is called `{scheme}`; ") } else { String::new() };
    why + &forms(schemes)
}

/// The advice to a user whose program was built without the cargo feature of the scheme.
fn without_feature(scheme: &str) -> Option<String> {
    let feature = match scheme {
        "ether" if !cfg!(feature = "ether") => "ether",
        "onc+udp" | "onc+tcp" | "onc+unix" if !cfg!(feature = "onc") => "onc",
        _ => return None,
    };
    Some(format!(
        "this program was built without the cargo feature `{feature}` of stoop, which such addresses need"
    ))
}

fn has_port(text: &str) -> bool {
    text.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok())
}

/// The forms that end so.
fn list(schemes: impl Iterator<Item = &'static Scheme>, end: &str, between: &str) -> String {
    let forms = schemes.flat_map(|scheme| scheme.forms).copied();
    forms.filter(|form| form.ends_with(end)).collect::<Vec<_>>().join(between)
}

/// All that can be written.
fn forms(schemes: impl Iterator<Item = &'static Scheme>) -> String {
    format!("write {}; or a NAME alone, of a server on this machine", list(schemes, "", ", "))
}

/// Takes `KEY@` off an address: the text of a public key, and the rest. A key has 43 characters; what is no longer than the name of an
/// interface, which may have an `@`, is none.
pub(crate) fn split_key(address: &str) -> (Option<&str>, &str) {
    const INTERFACE_NAME_MAX: usize = 15;
    match address.split_once('@') {
        Some((key, rest)) if key.len() > INTERFACE_NAME_MAX => (Some(key), rest),
        _ => (None, address),
    }
}

/// The address without the key of a server that may be in it.
///
/// # Errors
/// There is a key, and this program can make no sealed bindings.
pub(crate) fn without_key(address: &str) -> io::Result<&str> {
    match split_key(address) {
        (Some(_), _) if !cfg!(feature = "seal") => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the key in the address means a sealed binding, and this program was built without the cargo feature `seal` of stoop",
        )),
        (_, address) => Ok(address),
    }
}

/// Takes `//HOST:PORT` apart.
pub(crate) fn host_and_port(rest: &str) -> Result<&str, &'static str> {
    let Some(authority) = rest.strip_prefix("//") else {
        return Err("two slashes are missing: write udp://HOST:PORT or tcp://HOST:PORT");
    };
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    // A public key may stand before the host.
    let (_, server) = split_key(authority);
    match server.rsplit_once(':') {
        None | Some((_, "")) => Err("the port is missing: write HOST:PORT"),
        Some(("", _)) => {
            Err("the host is missing: write HOST:PORT; to listen at all addresses, 0.0.0.0:PORT")
        }
        Some((_, port)) if port.parse::<u16>().is_err() => {
            Err("the port is no number from 0 to 65535; an IPv6 address goes in brackets: [::1]:PORT")
        }
        Some((host, _)) if host.contains(':') && !host.starts_with('[') => {
            Err("an IPv6 address goes in brackets: [::1]:PORT")
        }
        Some(_) => Ok(authority),
    }
}
