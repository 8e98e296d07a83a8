//! The cryptography of handshakes.

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{CertificateError, CipherSuite, Error, SupportedCipherSuite};
use std::sync::{Arc, OnceLock};

/// Suites of TLS 1.3 for handshakes, the first that both ends have. Its cipher is that of the handshake's own messages. Processors compute SHA-256
/// several times as fast as SHA-384, which took a fifth of a server's time for a handshake.
const SUITES: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

/// The cryptography of both ends.
pub(super) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let make = || {
        let mut provider = aws_lc_rs::default_provider();
        let place = |suite: &SupportedCipherSuite| SUITES.iter().position(|it| *it == suite.suite());
        provider.cipher_suites.retain(|suite| place(suite).is_some());
        provider.cipher_suites.sort_by_key(place);
        Arc::new(provider)
    };
    Arc::clone(PROVIDER.get_or_init(make))
}

/// The error of an end that does not take the other.
pub(super) fn unknown() -> Error {
    Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)
}
