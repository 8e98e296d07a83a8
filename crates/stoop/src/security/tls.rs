//! The handshakes of sealed bindings and of connections of Sun RPC: TLS 1.3 with raw public keys (RFC 7250) or certificates. A driver
//! carries their bytes.
//!
//! All of `rustls` is in this file, in `raw_keys`, `certificates`, `provider`, `session` and `key_log`.

use crate::security::Keys;
use crate::security::certificates::{self, Certificates};
use crate::security::cipher::{PacketSuite, expand};
use crate::security::key_log::KeyLog;
use crate::security::keys::{OwnKey, PublicKey};
use crate::security::provider::provider;
use crate::security::raw_keys::{Callers, Pinned, certified, public_key};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ResolvesServerCert};
use rustls::sign::SingleCertAndKey;
use rustls::{
    AlertDescription, CertificateError, CipherSuite, ClientConfig, ClientConnection, ConnectionCommon, Error,
    NoKeyLog, PeerIncompatible, ServerConfig, ServerConnection, version,
};
use std::io::{Read, Write};
use std::sync::{Arc, OnceLock};
use stoop_seal::{Seal, Secret, Side};
use stoop_wire::BindingId;

/// The protocol that follows a handshake. That of Sun RPC is in `session`.
#[derive(Clone, Copy)]
pub(crate) struct Purpose {
    /// The name by which both ends agree on the protocol and its version.
    pub(super) protocol: &'static [u8],
    pub(super) provider: fn() -> Arc<CryptoProvider>,
    /// Where `rustls` logs its secrets.
    pub(super) log: fn(&Keys) -> Arc<dyn rustls::KeyLog>,
}

impl Purpose {
    /// A sealed binding: both ends derive the keys of its packets.
    pub(crate) const BINDING: Self = Self { protocol: b"stoop/1", provider, log: |_| Arc::new(NoKeyLog {}) };
}

/// The label by which the secret of a binding is exported.
const EXPORTER: &[u8] = b"EXPORTER-stoop-1";

/// The end of a handshake without a binding.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The server has another key than those that the client takes.
    OtherServer(PublicKey),
    /// The server does not take the caller's key, or takes no caller without one.
    UnknownCaller,
    /// One end has certificates and the other keys.
    OtherKind,
    /// One of the two certificates is not taken, for this reason.
    Certificate(String),
    /// The two do not agree on a protocol, or what came is no handshake.
    Protocol(String),
}

/// Why a server has ended a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusedCaller {
    /// It does not take the caller's key, or the caller has none.
    Unknown,
    /// It does not take the caller's certificate.
    Certificate,
    /// One end has certificates and the other keys.
    OtherKind,
    /// The caller does not take the server.
    ByCaller,
    /// What came is no handshake that it knows.
    Protocol,
}

impl RefusedCaller {
    fn of(why: &Error) -> Self {
        match why {
            Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
            | Error::NoCertificatesPresented => Self::Unknown,
            Error::InvalidCertificate(_) => Self::Certificate,
            Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension) => Self::OtherKind,
            Error::AlertReceived(_) => Self::ByCaller,
            _ => Self::Protocol,
        }
    }
}

/// The cipher of a binding, and the secrets of its two directions.
pub(crate) struct BindingKeys {
    pub(crate) suite: PacketSuite,
    pub(crate) of_caller: Secret,
    pub(crate) of_server: Secret,
}

impl BindingKeys {
    /// One end of the binding, for packets.
    pub(crate) fn seal(&self, side: Side, now_ns: u64) -> Seal<PacketSuite> {
        Seal::new(self.suite, side, self.of_caller, self.of_server, now_ns)
    }
}

/// The caller's end of a handshake.
pub(crate) struct CallerHandshake {
    pub(super) connection: ClientConnection,
    pinned: Arc<Pinned>,
    certificates: Option<Arc<Certificates>>,
    log: Option<Arc<KeyLog>>,
}

/// The server's end of a handshake.
pub(crate) struct ServerHandshake(pub(super) ServerConnection, Option<Arc<KeyLog>>);

/// What a server needs for handshakes.
pub(crate) struct Acceptor {
    /// With keys. With certificates each handshake looks for their files.
    config: Option<Arc<ServerConfig>>,
    pub(crate) keys: Arc<Keys>,
    purpose: Purpose,
}

impl CallerHandshake {
    /// Begins a handshake with a server that has one of these keys, or, with certificates, the name of that host.
    ///
    /// # Errors
    /// No certificate has such a name.
    pub(crate) fn begin(
        keys: &Keys,
        servers: Vec<PublicKey>,
        host: &str,
        purpose: Purpose,
    ) -> Result<Self, Failed> {
        let pinned = Arc::new(Pinned { servers, shown: OnceLock::new() });
        let builder = ClientConfig::builder_with_provider((purpose.provider)())
            .with_protocol_versions(&[&version::TLS13])
            .expect("the provider has suites of TLS 1.3")
            .dangerous();
        let (mut config, name) = match &keys.certificates {
            Some(certificates) => {
                let loaded = certificates.present();
                let verifier = certificates::verifier_of_servers(&loaded);
                let builder = builder.with_custom_certificate_verifier(verifier);
                let config = match &loaded.own {
                    Some(own) => {
                        builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(own))))
                    }
                    None => builder.with_no_client_auth(),
                };
                (config, host)
            }
            None => {
                // Both ends show raw keys in every handshake: an anonymous caller shows one that it has made for this one.
                let own = keys.own.as_ref().map_or_else(|| certified(&OwnKey::random()), certified);
                let verifier = Arc::clone(&pinned);
                let builder = builder.with_custom_certificate_verifier(verifier);
                let resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(own));
                (builder.with_client_cert_resolver(resolver), "stoop.invalid")
            }
        };
        config.alpn_protocols = vec![purpose.protocol.into()];
        config.key_log = (purpose.log)(keys);
        config.enable_sni = false;
        config.resumption = Resumption::disabled();
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            Failed::Certificate(format!(
                "has no name that a certificate has (`{name}`): give Security::server_name"
            ))
        })?;
        let connection =
            ClientConnection::new(Arc::new(config), name).expect("the configuration is complete");
        Ok(Self { connection, pinned, certificates: keys.certificates.clone(), log: keys.log.clone() })
    }

    /// The bytes for the server.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        output(&mut self.connection)
    }

    /// Takes bytes of the server.
    ///
    /// # Errors
    /// The handshake has failed.
    pub(crate) fn input(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let outcome = input(&mut self.connection, bytes);
        outcome.map_err(|why| match (why, self.pinned.shown.get(), &self.certificates) {
            (Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension), ..)
            | (Error::AlertReceived(AlertDescription::HandshakeFailure), ..) => Failed::OtherKind,
            (Error::InvalidCertificate(why), _, Some(certificates)) => {
                Failed::Certificate(certificates.refused(&why))
            }
            (Error::AlertReceived(alert), _, Some(_)) => Failed::Certificate(certificates::not_taken(alert)),
            (Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure), Some(other), _) => {
                Failed::OtherServer(*other)
            }
            (
                Error::AlertReceived(AlertDescription::AccessDenied | AlertDescription::CertificateRequired),
                ..,
            ) => Failed::UnknownCaller,
            (why, ..) => Failed::Protocol(why.to_string()),
        })
    }

    /// Whether bytes of the server are missing.
    pub(crate) fn is_going_on(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Encrypts a message for the server.
    pub(crate) fn write(&mut self, message: &[u8]) {
        write(&mut self.connection, message);
    }

    /// The message of the server that has come, if one has.
    pub(crate) fn read(&mut self) -> Vec<u8> {
        read(&mut self.connection)
    }

    /// The keys of the binding that the server has granted.
    pub(crate) fn keys(&self, binding: BindingId) -> Option<BindingKeys> {
        keys(&self.connection, binding, self.log.as_deref())
    }

    /// The server's key.
    pub(crate) fn server(&self) -> Option<PublicKey> {
        self.pinned.shown.get().copied()
    }
}

impl Acceptor {
    /// For the server with these keys. `None`: it has neither a key nor a certificate of its own.
    pub(crate) fn new(keys: &Arc<Keys>, purpose: Purpose) -> Option<Self> {
        let mut acceptor = Self { config: None, keys: Arc::clone(keys), purpose };
        match &keys.certificates {
            Some(certificates) => certificates.has_own().then_some(())?,
            None => {
                let own = Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified(keys.own.as_ref()?)));
                acceptor.config = Some(acceptor.configuration(Arc::new(Callers(Arc::clone(keys))), own));
            }
        }
        Some(acceptor)
    }

    /// Begins a handshake.
    pub(crate) fn begin(&self) -> ServerHandshake {
        let connection = ServerConnection::new(self.config.clone().unwrap_or_else(|| self.certified()));
        ServerHandshake(connection.expect("the configuration is complete"), self.keys.log.clone())
    }

    /// The configuration with the certificates as they are now.
    fn certified(&self) -> Arc<ServerConfig> {
        let loaded = self.keys.certificates.as_ref().expect("it has no key").present();
        let own = Arc::clone(loaded.own.as_ref().expect("a server has its own"));
        let verifier = certificates::verifier(&loaded, self.keys.anonymous);
        self.configuration(verifier, Arc::new(SingleCertAndKey::from(own)))
    }

    fn configuration(
        &self,
        callers: Arc<dyn ClientCertVerifier>,
        own: Arc<dyn ResolvesServerCert>,
    ) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider((self.purpose.provider)())
            .with_protocol_versions(&[&version::TLS13])
            .expect("the provider has suites of TLS 1.3")
            .with_client_cert_verifier(callers)
            .with_cert_resolver(own);
        config.alpn_protocols = vec![self.purpose.protocol.into()];
        config.key_log = (self.purpose.log)(&self.keys);
        config.send_tls13_tickets = 0;
        Arc::new(config)
    }
}

impl ServerHandshake {
    /// Takes bytes of the caller.
    ///
    /// # Errors
    /// The handshake has failed, and the [output](Self::output) tells the caller why.
    pub(crate) fn input(&mut self, bytes: &[u8]) -> Result<(), RefusedCaller> {
        input(&mut self.0, bytes).map_err(|why| RefusedCaller::of(&why))
    }

    /// The bytes for the caller.
    pub(crate) fn output(&mut self) -> Vec<u8> {
        output(&mut self.0)
    }

    /// The message of the caller that has come, once the caller has proved that it has its key.
    pub(crate) fn read(&mut self) -> Vec<u8> {
        if self.0.is_handshaking() { Vec::new() } else { read(&mut self.0) }
    }

    /// Encrypts a message for the caller.
    pub(crate) fn write(&mut self, message: &[u8]) {
        write(&mut self.0, message);
    }

    /// The name in the caller's certificate, if it has shown one.
    pub(crate) fn certified_name(&self) -> Option<Arc<str>> {
        let shown = self.0.peer_certificates()?.first()?;
        if public_key(shown).is_ok() { None } else { certificates::name_of(shown) }
    }

    /// The caller's key.
    pub(crate) fn caller(&self) -> Option<PublicKey> {
        self.0.peer_certificates()?.first().and_then(|shown| public_key(shown).ok())
    }

    /// The keys of a binding that the server grants.
    pub(crate) fn keys(&self, binding: BindingId) -> Option<BindingKeys> {
        keys(&self.0, binding, self.1.as_deref())
    }
}

fn output<T>(connection: &mut ConnectionCommon<T>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes).expect("a vector takes all bytes");
    }
    bytes
}

fn input<T>(connection: &mut ConnectionCommon<T>, mut bytes: &[u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        match connection.read_tls(&mut bytes) {
            Ok(0) | Err(_) => return Err(Error::General("more bytes than a handshake has".into())),
            Ok(_) => connection.process_new_packets()?,
        };
    }
    Ok(())
}

fn write<T>(connection: &mut ConnectionCommon<T>, message: &[u8]) {
    connection.writer().write_all(message).expect("a message is shorter than the buffer");
}

fn read<T>(connection: &mut ConnectionCommon<T>) -> Vec<u8> {
    let mut message = Vec::new();
    // It ends with an error when there is no more yet.
    let _ = connection.reader().read_to_end(&mut message);
    message
}

/// The keys of a binding whose handshake this is; `None`: the handshake has not ended, or not with this protocol.
fn keys<T>(
    connection: &ConnectionCommon<T>,
    binding: BindingId,
    log: Option<&KeyLog>,
) -> Option<BindingKeys> {
    if connection.alpn_protocol() != Some(Purpose::BINDING.protocol) {
        return None;
    }
    let suite = match connection.negotiated_cipher_suite()?.suite() {
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => PacketSuite::ChaCha20Poly1305,
        _ => PacketSuite::Aes256Gcm,
    };
    let secret = connection.export_keying_material([0; 32], EXPORTER, None).ok()?;
    let of = |direction: &[u8]| expand(&secret, &[b"stoop ", direction, &binding.0.to_le_bytes()]);
    let keys = BindingKeys { suite, of_caller: of(b"caller"), of_server: of(b"server") };
    if let Some(log) = log {
        log.note(binding, &keys.of_caller, &keys.of_server);
    }
    Some(keys)
}

#[cfg(test)]
mod tests;
