//! The callers of a sealed address, by what they have shown in their handshakes.

use crate::context::peer::Peer;
use crate::security::Keys;
use crate::security::keys::PublicKey;
use crate::security::tls::ServerHandshake;

/// The caller of a handshake, if its key or certificate has a name.
pub(crate) fn peer(keys: &Keys, tls: &ServerHandshake) -> Option<Peer> {
    if let Some(name) = tls.certified_name() {
        return Some(Peer::new(name, None));
    }
    let key = tls.caller()?;
    Some(Peer::new(keys.name_of(&key)?, Some(key.to_string().into())))
}

/// Tells which callers are served now, for those that have bindings. All are while the file of callers is being written.
pub(crate) fn served(keys: &Keys) -> impl Fn(Option<PublicKey>) -> bool {
    // Read once, for there may be many bindings.
    let listed = keys.callers.as_ref().map(|callers| callers.settled_names());
    move |caller| {
        let is_listed = |key: &PublicKey| match &listed {
            Some(Some(listed)) => listed.contains_key(key),
            Some(None) => true,
            None => false,
        };
        caller.is_none_or(|key| keys.admits_unlisted(&key) || is_listed(&key))
    }
}
