//! Which servers a caller takes, the caller's own keys, and the errors of a caller that takes none of the servers it meets.

use crate::error::BindError;
use crate::security::keys::PublicKey;
use crate::security::tls::{CallerHandshake, Failed, Purpose};
use crate::security::{Keys, Security};
use std::sync::Arc;

/// The servers that a caller takes, and its own keys.
pub(crate) struct Trust {
    /// The address that the user has written.
    pub(crate) uri: String,
    /// The name that the server's certificate is to have.
    host: String,
    keys: Arc<Keys>,
    servers: Vec<PublicKey>,
}

pub(crate) fn not_secure(server: &str, why: impl Into<String>) -> BindError {
    BindError::Security { server: server.into(), why: why.into() }
}

impl Trust {
    /// That of a caller of an address which has that key and that host; `None`: neither the address nor `said` says that the binding is to
    /// be sealed.
    ///
    /// # Errors
    /// The key in the address is none.
    pub(crate) fn new(
        uri: &str,
        (key, host): (Option<&str>, &str),
        said: Security,
    ) -> Result<Option<Self>, BindError> {
        let named = key.map(str::parse::<PublicKey>);
        let security = match (said.keys(), &named) {
            (Some(_), _) => said,
            (None, Some(_)) => Security::of_address(),
            (None, None) => return Ok(None),
        };
        let keys = Arc::clone(security.keys().expect("it is with keys"));
        if named.is_some() && keys.certificates.is_some() {
            let why = "names a server's key, and this client has certificates; leave KEY@ out of the address, or Security::certificates";
            return Err(not_secure(uri, why));
        }
        let servers = match named {
            Some(Err(why)) => return Err(not_secure(uri, format!("names no key of a server: {why}"))),
            Some(Ok(key)) => vec![key],
            None => keys.known_servers(),
        };
        let host = keys.server_name.as_deref().unwrap_or(host).to_owned();
        Ok(Some(Self { uri: uri.into(), host, keys, servers }))
    }

    /// Begins a handshake with one of the servers.
    ///
    /// # Errors
    /// No certificate has the name that the server's is to have.
    pub(crate) fn begin(&self, purpose: Purpose) -> Result<CallerHandshake, BindError> {
        let begun = CallerHandshake::begin(&self.keys, self.servers.clone(), &self.host, purpose);
        begun.map_err(|failed| self.failed(failed))
    }

    /// The error of a caller whose handshake has failed.
    pub(crate) fn failed(&self, failed: Failed) -> BindError {
        let why = match failed {
            Failed::OtherServer(shown) => format!(
                "is not the server that this client takes: its key is {shown}. If its key was renewed, take the new address from its \
                 administrator"
            ),
            Failed::UnknownCaller => match &self.keys.own {
                Some(own) => format!(
                    "does not know this caller. Its administrator adds the line \"NAME {}\" to the file of callers; no restart is needed",
                    own.public
                ),
                None => {
                    "serves callers with keys only, and this one has none: `stoop keygen` makes one".into()
                }
            },
            Failed::OtherKind => "has keys where this caller has certificates, or certificates where this caller has keys; give both ends the \
                 same: KEY@ in the address, or Security::certificates or Security::roots"
                .into(),
            Failed::Certificate(why) => why,
            Failed::Protocol(why) => format!("does not agree on a handshake: {why}"),
        };
        not_secure(&self.uri, why)
    }
}
