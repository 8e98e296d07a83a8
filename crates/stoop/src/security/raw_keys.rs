//! Raw public keys in the handshake (RFC 7250): how an end shows its own, and which ones it takes of the other.

use crate::security::Keys;
use crate::security::keys::{OwnKey, PublicKey, SPKI_BEGIN};
use crate::security::provider::{provider, unknown};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::verify_tls13_signature_with_raw_key;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::sync::{Arc, OnceLock};

/// The own key, as an end shows it.
pub(super) fn certified(own: &OwnKey) -> Arc<CertifiedKey> {
    let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.pkcs8()));
    let key = provider().key_provider.load_private_key(der).expect("it is an Ed25519 key");
    let public = [&SPKI_BEGIN[..], &own.public.0].concat();
    Arc::new(CertifiedKey::new(vec![CertificateDer::from(public)], key))
}

/// The public key that a peer has shown.
pub(super) fn public_key(shown: &CertificateDer<'_>) -> Result<PublicKey, Error> {
    let key = shown.strip_prefix(&SPKI_BEGIN).and_then(|key| key.try_into().ok());
    key.map(PublicKey).ok_or(Error::InvalidCertificate(CertificateError::BadEncoding))
}

/// The part that both verifiers have in common: the other end proves that it has its key, by TLS 1.3.
macro_rules! proof_of_raw_key {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(unknown())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            shown: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = SubjectPublicKeyInfoDer::from(&shown[..]);
            let algorithms = &provider().signature_verification_algorithms;
            verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

/// Which servers a client takes, and the key that the last one has shown.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) servers: Vec<PublicKey>,
    pub(super) shown: OnceLock<PublicKey>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let key = public_key(shown)?;
        let _ = self.shown.set(key);
        if self.servers.contains(&key) { Ok(ServerCertVerified::assertion()) } else { Err(unknown()) }
    }

    proof_of_raw_key!();
}

/// Which callers a server serves.
#[derive(Debug)]
pub(super) struct Callers(pub(super) Arc<Keys>);

impl ClientCertVerifier for Callers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let key = public_key(shown)?;
        if self.0.admits(&key) { Ok(ClientCertVerified::assertion()) } else { Err(unknown()) }
    }

    proof_of_raw_key!();
}

impl Keys {
    /// Whether a server with these keys serves the caller with that key.
    pub(crate) fn admits(&self, key: &PublicKey) -> bool {
        self.admits_unlisted(key) || self.name_of(key).is_some()
    }

    /// Whether it does, whatever its file of callers has.
    pub(crate) fn admits_unlisted(&self, key: &PublicKey) -> bool {
        self.anonymous || self.is_own(key)
    }

    /// The name of the caller with that key: as its file of callers says, or the own key. `None`: it is unknown, and so anonymous.
    pub(crate) fn name_of(&self, key: &PublicKey) -> Option<Arc<str>> {
        let listed = self.callers.as_ref().and_then(|callers| callers.name_of(key));
        listed.or_else(|| self.is_own(key).then(|| key.to_string().into()))
    }

    fn is_own(&self, key: &PublicKey) -> bool {
        self.own.as_ref().is_some_and(|own| own.public == *key)
    }

    /// The servers to which a client with these keys binds if the address names none.
    pub(crate) fn known_servers(&self) -> Vec<PublicKey> {
        let listed = self.servers.iter().flat_map(|servers| servers.keys());
        listed.chain(self.own.iter().map(|own| own.public)).collect()
    }
}
