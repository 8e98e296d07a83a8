//! Certificates of an organisation (X.509): the own one, and the roots of those that an end trusts.

use crate::locked::locked;
use crate::security::keys::{open_trusted, read_private, wrong};
use crate::security::peers::{Stamp, stamp};
use crate::security::provider::{provider, unknown};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// The PEM files of an end, which are read again when they have changed.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// The chain, the own certificate first, and its private key. `None`: an anonymous caller.
    own: Option<(PathBuf, PathBuf)>,
    roots: PathBuf,
    present: Mutex<(Vec<Stamp>, Arc<Loaded>)>,
}

/// The content of the files.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) own: Option<Arc<CertifiedKey>>,
    roots: Arc<RootCertStore>,
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// One is missing, has not in it what it is for, or the key is not the certificate's.
    pub(crate) fn read(own: Option<(PathBuf, PathBuf)>, roots: PathBuf) -> io::Result<Self> {
        let present = (stamps(own.as_ref(), &roots)?, Arc::new(load(own.as_ref(), &roots)?));
        Ok(Self { own, roots, present: Mutex::new(present) })
    }

    /// Whether this end has a certificate.
    pub(crate) fn has_own(&self) -> bool {
        self.own.is_some()
    }

    /// The files as they are now. Those that cannot be read, or do not fit together, leave those of before: of a certificate and its key
    /// that are renewed one after the other, both count together.
    pub(super) fn present(&self) -> Arc<Loaded> {
        let mut present = locked(&self.present);
        if let Ok(now) = stamps(self.own.as_ref(), &self.roots)
            && now != present.0
            && let Ok(loaded) = load(self.own.as_ref(), &self.roots)
        {
            *present = (now, Arc::new(loaded));
        }
        Arc::clone(&present.1)
    }

    /// The error of a caller whose server has shown a certificate that it does not take.
    pub(super) fn refused(&self, why: &CertificateError) -> String {
        let why = match why {
            CertificateError::ExpiredContext { time, not_after } => format!(
                "was valid until {} (this machine's clock: {}); its administrator renews it, or this clock is to be set",
                date(*not_after),
                date(*time)
            ),
            CertificateError::NotValidYetContext { time, not_before } => format!(
                "is valid from {} on (this machine's clock: {}); this clock is to be set, or wait",
                date(*not_before),
                date(*time)
            ),
            // Of another root with the same name the signature is wrong.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
                "was issued by none of the roots in {}; check the address, or add the root of the server's organisation to that file",
                self.roots.display()
            ),
            CertificateError::NotValidForNameContext { expected, presented } => format!(
                "is not for {}, but for {}; write that name in the address, or give Security::server_name",
                expected.to_str(),
                presented.join(" and ")
            ),
            why => format!("is not accepted: {why}"),
        };
        format!("has a certificate that {why}")
    }
}

/// The error of a caller whose own certificate the server does not take.
pub(super) fn not_taken(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::CertificateRequired => {
            return "serves callers with certificates only, and this one has none; give it Security::certificates".into();
        }
        AlertDescription::CertificateExpired => {
            "by the server's clock it has expired, or is not valid yet; renew it in its file, no restart is needed"
        }
        AlertDescription::UnknownCA | AlertDescription::DecryptError => {
            "none of the server's roots has issued it; have it issued by the server's organisation, or let the server's administrator \
             add its root"
        }
        AlertDescription::AccessDenied => {
            "it has no name; have it issued with a URI or a DNS name among its subject alternative names"
        }
        other => return format!("does not take this caller's certificate: {other:?}"),
    };
    format!("does not take this caller's certificate: {why}")
}

/// What takes the callers that a server with these certificates serves.
pub(super) fn verifier(loaded: &Loaded, serves_anonymous: bool) -> Arc<dyn ClientCertVerifier> {
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::clone(&loaded.roots), provider());
    // Strangers are not told by whom callers are certified.
    let builder = builder.clear_root_hint_subjects();
    let builder = if serves_anonymous { builder.allow_unauthenticated() } else { builder };
    Arc::new(Named(builder.build().expect("there is a root")))
}

/// What takes the servers of a client with these certificates.
pub(super) fn verifier_of_servers(loaded: &Loaded) -> Arc<WebPkiServerVerifier> {
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::clone(&loaded.roots), provider());
    builder.build().expect("there is a root")
}

/// The name that a certificate gives: the first URI among its subject alternative names, else the first DNS name.
pub(super) fn name_of(certificate: &CertificateDer<'_>) -> Option<Arc<str>> {
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let name = parsed.valid_uri_names().next().or_else(|| parsed.valid_dns_names().next())?;
    // `uid:1000` is the kernel's word about a process of this machine, and no organisation's.
    let is_fit = !name.starts_with("uid:") && !name.contains(|c: char| c.is_whitespace() || c.is_control());
    is_fit.then(|| name.into())
}

/// Takes callers whose certificate has a name.
#[derive(Debug)]
struct Named(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Named {
    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.0.verify_client_cert(shown, between, now)?;
        name_of(shown).map(|_| verified).ok_or_else(unknown)
    }

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
        self.0.verify_tls13_signature(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn stamps(own: Option<&(PathBuf, PathBuf)>, roots: &PathBuf) -> io::Result<Vec<Stamp>> {
    let own = own.into_iter().flat_map(|(chain, key)| [chain, key]);
    own.chain([roots]).map(|path| stamp(path)).collect()
}

fn load(own: Option<&(PathBuf, PathBuf)>, roots: &Path) -> io::Result<Loaded> {
    let mut store = RootCertStore::empty();
    open_trusted(roots)?;
    for root in certificates_in(roots)? {
        store.add(root).map_err(|why| wrong(roots, &format!("it has a root that is none: {why}")))?;
    }
    let own = own.map(|(chain, key)| certified(chain, key)).transpose()?;
    Ok(Loaded { own, roots: Arc::new(store) })
}

fn certified(chain: &Path, key: &Path) -> io::Result<Arc<CertifiedKey>> {
    let text = read_private(key)?;
    let private = PrivateKeyDer::from_pem_slice(text.as_bytes())
        .map_err(|why| wrong(key, &format!("it has no private key in PEM: {why:?}")))?;
    let certified = CertifiedKey::from_der(certificates_in(chain)?, private, &provider());
    let certified = certified.map_err(|why| {
        wrong(key, &format!("it is not the key of the first certificate in {}: {why}", chain.display()))
    });
    certified.map(Arc::new)
}

/// The certificates in a file, of which there is one at least.
fn certificates_in(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let named = |cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", path.display()));
    let text = fs::read(path).map_err(named)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(wrong(path, "it has no certificate in PEM")),
        Err(why) => Err(wrong(path, &format!("it has no certificates in PEM: {why:?}"))),
    }
}

/// The day of a time (UTC), by the proleptic calendar: `2026-11-27`.
fn date(time: UnixTime) -> String {
    let days = time.as_secs() / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) =
        if month < 10 { (era * 400 + year, month + 3) } else { (era * 400 + year + 1, month - 9) };
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn days_are_those_of_the_calendar() {
        let told = [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_767_225_599, "2025-12-31"),
            (1_795_824_000, "2026-11-28"),
            (4_107_542_400, "2100-03-01"),
        ];
        for (seconds, day) in told {
            assert_eq!(date(UnixTime::since_unix_epoch(Duration::from_secs(seconds))), day);
        }
    }
}
