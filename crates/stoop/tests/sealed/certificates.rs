//! Certificates of an organisation: which servers and callers take each other, their names, and what the others are told.

use crate::harness::ethernet;
use crate::harness::transports::address;
use crate::{Counting, Folder, VaultClient, VaultServer, over};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose,
    PKCS_ED25519, PublicKeyData, SanType, SerialNumber, SignatureAlgorithm, SigningKey, date_time_ymd,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stoop::{BindError, BindOptions, Ran, RunningServer, Security, Server};

/// A private key.
struct Key(Ed25519KeyPair);

impl Key {
    fn new() -> Self {
        Self(Ed25519KeyPair::generate().unwrap())
    }

    /// Writes it as PEM that only this user reads.
    fn write(&self, path: &Path) {
        let der = self.0.to_pkcs8v1().unwrap();
        let text = pem::encode(&pem::Pem::new("PRIVATE KEY", der.as_ref()));
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ED25519
    }
}

impl SigningKey for Key {
    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.0.sign(bytes).as_ref().to_vec())
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.serial_number = Some(SerialNumber::from(7));
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2090, 1, 1);
    params
}

/// An organisation, whose certificates are in a folder.
pub(crate) struct Organisation {
    pub(crate) folder: Folder,
    issuer: Issuer<'static, Key>,
}

/// The names and the days of a certificate.
pub(crate) struct Wanted<'a> {
    pub(crate) names: &'a [SanType],
    pub(crate) from: i32,
    pub(crate) until: i32,
}

pub(crate) fn dns(name: &str) -> SanType {
    SanType::DnsName(name.try_into().unwrap())
}

pub(crate) fn uri(name: &str) -> SanType {
    SanType::URI(name.try_into().unwrap())
}

pub(crate) fn with(names: &[SanType]) -> Wanted<'_> {
    Wanted { names, from: 2020, until: 2090 }
}

impl Organisation {
    pub(crate) fn new() -> Self {
        Self::named("An organisation")
    }

    pub(crate) fn named(name: &str) -> Self {
        let (folder, key, mut params) = (Folder::new(), Key::new(), params(name));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        std::fs::write(folder.file("roots.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn roots(&self) -> PathBuf {
        self.folder.file("roots.pem")
    }

    /// Issues a certificate to the holder of that name, in place of the one before. Returns its file and that of its key.
    pub(crate) fn issue(&self, holder: &str, wanted: &Wanted<'_>) -> (PathBuf, PathBuf) {
        let (mut params, key) = (params(holder), Key::new());
        params.subject_alt_names = wanted.names.to_vec();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = date_time_ymd(wanted.from, 1, 1);
        params.not_after = date_time_ymd(wanted.until, 1, 1);
        let files = (self.folder.file(&format!("{holder}.pem")), self.folder.file(&format!("{holder}.key")));
        key.write(&files.1);
        std::fs::write(&files.0, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        files
    }

    /// The security of a holder of such a certificate.
    pub(crate) fn security(&self, holder: &str, wanted: &Wanted<'_>) -> Security {
        let (chain, key) = self.issue(holder, wanted);
        Security::certificates(chain, key, self.roots()).unwrap()
    }
}

fn serve(security: Security, transport: &str) -> RunningServer {
    let server = Server::new().security(security).export(VaultServer::new(Counting::default()));
    ethernet::at_servers(|| server.listen(&address(transport))).unwrap().start().unwrap()
}

/// A server with a certificate for its host, and its address.
fn usual(organisation: &Organisation, transport: &str) -> (RunningServer, String) {
    let server = serve(organisation.security("vault", &with(&[dns("vault.example")])), transport);
    let uri = server.uris()[0].clone();
    assert!(!uri.contains('@'), "{uri}");
    (server, uri)
}

fn options(security: Security) -> BindOptions {
    BindOptions::new().security(security.server_name("vault.example")).timeout(Duration::from_secs(20))
}

fn bind(uri: &str, security: Security) -> Result<VaultClient, BindError> {
    VaultClient::bind_with(uri, &options(security))
}

fn refused(uri: &str, security: Security) -> String {
    match bind(uri, security) {
        Err(why @ BindError::Security { .. }) => why.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it is bound"),
    }
}

over! { udp ether tcp: [the_name_in_a_certificate_is_the_callers servers_that_serve_everybody_serve_callers_without_a_certificate a_caller_that_the_server_does_not_take_is_told_why a_server_whose_certificate_is_not_right_is_not_called lists_have_names_of_certificates a_renewed_certificate_is_shown_without_a_restart] }

fn the_name_in_a_certificate_is_the_callers(transport: &str) {
    let organisation = Organisation::new();
    let (_server, at) = usual(&organisation, transport);
    let cases: [(&[SanType], &str); 3] = [
        (&[dns("shop.example"), uri("spiffe://example.org/shop")], "spiffe://example.org/shop"),
        (&[dns("shop.example"), dns("other.example")], "shop.example"),
        (&[uri("urn:shop:1")], "urn:shop:1"),
    ];
    for (names, name) in cases {
        let client = bind(&at, organisation.security("shop", &with(names))).unwrap();
        assert_eq!(client.caller().unwrap().as_deref(), Some(name));
        assert!(client.binding().describe().contains("sealed, with the server that its certificate names"));
    }
}

fn lists_have_names_of_certificates(transport: &str) {
    let organisation = Organisation::new();
    let security = organisation.security("vault", &with(&[dns("vault.example")]));
    let server = Server::new().security(security).export(VaultServer::new(Counting::default()));
    let server = server.callers("Vault.count", ["spiffe://example.org/*"]);
    let server = ethernet::at_servers(|| server.listen(&address(transport))).unwrap().start().unwrap();
    let bound =
        |name: &str| bind(&server.uris()[0], organisation.security("shop", &with(&[uri(name)]))).unwrap();
    assert_eq!(bound("spiffe://example.org/shop").count().unwrap(), 1);
    assert_eq!(bound("spiffe://example.com/shop").count().unwrap_err().ran(), Ran::No);
}

fn servers_that_serve_everybody_serve_callers_without_a_certificate(transport: &str) {
    let organisation = Organisation::new();
    let security = organisation.security("vault", &with(&[dns("vault.example")]));
    let server = serve(security.anonymous(), transport);
    let client = bind(&server.uris()[0], Security::roots(organisation.roots()).unwrap()).unwrap();
    assert_eq!((client.count().unwrap(), client.caller().unwrap()), (1, None));
    let named = organisation.security("shop", &with(&[uri("urn:shop")]));
    let named = bind(&server.uris()[0], named).unwrap();
    assert_eq!(named.caller().unwrap().as_deref(), Some("urn:shop"));
}

fn a_caller_that_the_server_does_not_take_is_told_why(transport: &str) {
    let (organisation, other) = (Organisation::new(), Organisation::new());
    let (server, at) = usual(&organisation, transport);
    let shop = [uri("urn:shop")];
    let told = |security, what: &str, cure: &str| {
        let why = refused(&at, security);
        assert!(why.contains(what) && why.contains(cure), "{why}");
    };
    let old = organisation.security("old", &Wanted { names: &shop, from: 2020, until: 2021 });
    told(old, "expired", "renew it");
    let early = organisation.security("early", &Wanted { names: &shop, from: 2080, until: 2090 });
    told(early, "not valid yet", "renew it");
    let (chain, key) = other.issue("stranger", &with(&shop));
    let stranger = Security::certificates(chain, key, organisation.roots()).unwrap();
    told(stranger, "none of the server's roots has issued it", "have it issued");
    let another = Organisation::named("Another");
    let (chain, key) = another.issue("stranger", &with(&shop));
    let stranger = Security::certificates(chain, key, organisation.roots()).unwrap();
    told(stranger, "none of the server's roots has issued it", "have it issued");
    told(organisation.security("nameless", &with(&[])), "it has no name", "subject alternative names");
    // A name of the kernel's is no organisation's to give.
    told(organisation.security("root", &with(&[uri("uid:0")])), "it has no name", "a URI or a DNS name");
    let without = Security::roots(organisation.roots()).unwrap();
    told(without, "serves callers with certificates only", "Security::certificates");
    let (with_key, _) = organisation.folder.key("key");
    told(with_key, "has keys where", "Security::certificates");
    assert_eq!(server.counters().calls, 0);
    let counted = server.counters().handshakes;
    assert_eq!((counted.certificate, counted.unknown_caller, counted.other_kind), (4, 3, 1), "{counted:?}");
}

fn a_server_whose_certificate_is_not_right_is_not_called(transport: &str) {
    let (organisation, other) = (Organisation::new(), Organisation::named("Another"));
    let vault = [dns("vault.example")];
    let caller = || organisation.security("shop", &with(&[uri("urn:shop")]));
    let told = |security, caller, what: &str, cure: &str| {
        let server = serve(security, transport);
        let why = refused(&server.uris()[0], caller);
        assert!(why.contains(what) && why.contains(cure), "{why}");
        assert_eq!(server.counters().calls, 0);
    };
    let old = organisation.security("old", &Wanted { names: &vault, from: 2020, until: 2021 });
    told(old, caller(), "was valid until 2021-01-01", "its administrator renews it");
    let early = organisation.security("early", &Wanted { names: &vault, from: 2080, until: 2090 });
    told(early, caller(), "is valid from 2080-01-01", "clock");
    told(other.security("vault", &with(&vault)), caller(), "none of the roots", "roots.pem");
    let elsewhere = organisation.security("vault", &with(&[dns("bank.example")]));
    told(elsewhere, caller(), "is not for vault.example", "bank.example");
    let (with_key, _) = organisation.folder.key("key");
    let server = serve(with_key, transport);
    let (scheme, rest) =
        server.uris()[0].split_once("://").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let why = refused(&format!("{scheme}://{}", rest.split_once('@').unwrap().1), caller());
    assert!(why.contains("has keys where this caller has certificates"), "{why}");
    let why = refused(&server.uris()[0], caller());
    assert!(why.contains("leave KEY@ out of the address"), "{why}");
}

fn a_renewed_certificate_is_shown_without_a_restart(transport: &str) {
    let organisation = Organisation::new();
    let (names, caller) = ([dns("vault.example")], [uri("urn:shop")]);
    let old = organisation.security("vault", &Wanted { names: &names, from: 2020, until: 2021 });
    let expired = organisation.security("shop", &Wanted { names: &caller, from: 2020, until: 2021 });
    let server = serve(old, transport);
    let at = &server.uris()[0];
    assert!(refused(at, expired.clone()).contains("was valid until"));
    organisation.issue("vault", &with(&names));
    assert!(refused(at, expired.clone()).contains("does not take this caller's certificate"));
    organisation.issue("shop", &with(&caller));
    let client = bind(at, expired).unwrap();
    assert_eq!(client.count().unwrap(), 1);
    // What becomes of the files later changes nothing for a binding that is made.
    organisation.issue("vault", &Wanted { names: &names, from: 2020, until: 2021 });
    assert_eq!(client.count().unwrap(), 2);
}

#[test]
fn the_host_in_the_address_is_the_name_that_the_certificate_has_to_have() {
    let organisation = Organisation::new();
    let (_server, at) = usual(&organisation, "udp");
    let options = BindOptions::new().security(organisation.security("shop", &with(&[uri("urn:shop")])));
    let (host, port) = at.strip_prefix("udp://").unwrap().split_once(':').unwrap();
    let why = VaultClient::bind_with(&at, &options).map(drop).unwrap_err().to_string();
    assert!(why.contains(&format!("is not for {host}, but for")) && why.contains("vault.example"), "{why}");
    organisation.issue("vault", &with(&[SanType::IpAddress(host.parse().unwrap())]));
    assert_eq!(VaultClient::bind_with(&at, &options).unwrap().count().unwrap(), 1);
    organisation.issue("vault", &with(&[dns("localhost")]));
    let named = VaultClient::bind_with(&format!("udp://localhost:{port}"), &options);
    assert_eq!(named.is_ok(), host == "127.0.0.1", "{at}");
}

#[test]
fn files_that_are_no_certificates_are_an_error_that_names_them() {
    let (organisation, other) = (Organisation::new(), Organisation::new());
    let (chain, key) = organisation.issue("shop", &with(&[uri("urn:shop")]));
    let said = |chain: &Path, key: &Path, roots: &Path| {
        Security::certificates(chain, key, roots).map(drop).unwrap_err().to_string()
    };
    let roots = organisation.roots();
    assert!(said(&chain, &key, Path::new("/not-there/roots.pem")).contains("/not-there/roots.pem"));
    assert!(said(&key, &key, &roots).contains("no certificate in PEM"));
    assert!(said(&chain, &chain, &roots).contains("other users can read"));
    let (_, of_other) = other.issue("shop", &with(&[]));
    assert!(said(&chain, &of_other, &roots).contains("it is not the key of the first certificate"));
    let security = Security::certificates(&chain, &key, &roots).unwrap();
    assert!(security.callers(&chain).unwrap_err().to_string().contains("leave the file of keys out"));
    let without = Server::new().security(Security::roots(roots).unwrap());
    let why = without.listen("udp://127.0.0.1:0").map(drop).unwrap_err().to_string();
    assert!(why.contains("a server needs a key of its own"), "{why}");
}
