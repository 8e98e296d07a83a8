use super::*;
use crate::security::provider::unknown;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use stoop_seal::{Numbers, Opened};

fn key(first: u8) -> OwnKey {
    OwnKey::of_seed([first; 32])
}

fn keys(own: Option<OwnKey>) -> Keys {
    Keys { own, ..Keys::default() }
}

fn key_of_server() -> PublicKey {
    key(2).public
}

const N: BindingId = BindingId(BindingId::SEALED | 7);

/// A handshake that goes well up to the end of the caller.
fn ends(
    caller: &Keys,
    servers: Vec<PublicKey>,
    server: Keys,
) -> Result<(CallerHandshake, ServerHandshake), Failed> {
    let mut accepts = Acceptor::new(&Arc::new(server), Purpose::BINDING).unwrap().begin();
    let mut asks = CallerHandshake::begin(caller, servers, "", Purpose::BINDING)?;
    accepts.input(&asks.output()).unwrap();
    asks.input(&accepts.output())?;
    assert!(!asks.is_going_on());
    asks.write(b"bind");
    if accepts.input(&asks.output()).is_err() {
        asks.input(&accepts.output())?;
        panic!("the caller learns why");
    }
    Ok((asks, accepts))
}

#[test]
fn both_ends_know_each_other_and_have_the_same_keys() {
    let (caller, server) = (keys(Some(key(1))), Keys { anonymous: true, ..keys(Some(key(2))) });
    let (mut asks, mut accepts) = ends(&caller, vec![key(2).public], server).unwrap();
    assert_eq!(accepts.caller(), Some(key(1).public));
    assert_eq!(accepts.read(), b"bind");
    accepts.write(b"bound");
    asks.input(&accepts.output()).unwrap();
    assert_eq!(asks.read(), b"bound");
    assert_eq!(asks.server(), Some(key(2).public));
    let (seals, opens) =
        (asks.keys(N).unwrap().seal(Side::Caller, 0), accepts.keys(N).unwrap().seal(Side::Server, 0));
    let mut packet = [1; 32 + 4 + 24];
    packet[3] = 0;
    assert!(seals.seal(&mut Numbers::default(), &mut packet, 36));
    assert_ne!(packet[32..36], [1; 4]);
    assert_eq!(opens.open(0, &mut packet, 36), Opened::Yes);
    assert_eq!(packet[32..36], [1; 4]);
    assert_eq!(asks.keys(N).unwrap().suite, PacketSuite::Aes256Gcm);
    let other = asks.keys(BindingId(N.0 + 1)).unwrap().seal(Side::Caller, 0);
    assert!(other.seal(&mut Numbers::default(), &mut packet, 36));
    assert_eq!(opens.open(0, &mut packet, 36), Opened::No, "each binding has keys of its own");
}

#[test]
fn a_server_with_another_key_is_not_taken() {
    let failed = ends(&keys(None), vec![key(1).public], keys(Some(key(2)))).err();
    assert!(matches!(failed, Some(Failed::OtherServer(other)) if other == key(2).public));
}

#[test]
fn a_caller_with_another_key_or_none_is_not_served_and_learns_it() {
    for own in [Some(key(1)), None] {
        let failed = ends(&keys(own), vec![key(2).public], keys(Some(key(2)))).err();
        assert!(matches!(failed, Some(Failed::UnknownCaller)), "{failed:?}");
    }
}

#[test]
fn a_caller_with_the_key_of_the_server_is_served() {
    ends(&keys(Some(key(2))), vec![key(2).public], keys(Some(key(2)))).map(drop).unwrap();
}

#[test]
fn an_anonymous_caller_is_served_where_such_are() {
    let server = Keys { anonymous: true, ..keys(Some(key(2))) };
    let (_, accepts) = ends(&keys(None), vec![key(2).public], server).unwrap();
    assert!(accepts.caller().is_some_and(|key| key != key_of_server()));
}

#[test]
fn bytes_that_are_no_handshake_are_refused() {
    let mut accepts = Acceptor::new(&Arc::new(keys(Some(key(2)))), Purpose::BINDING).unwrap().begin();
    assert_eq!(accepts.input(&[0x55; 1000]), Err(RefusedCaller::Protocol));
    assert!(accepts.read().is_empty() && accepts.keys(N).is_none());
}

#[test]
fn a_changed_byte_anywhere_in_a_handshake_leads_to_no_keys() {
    for message in 0..3 {
        for at in (0..2000).step_by(41) {
            let server = Arc::new(Keys { anonymous: true, ..keys(Some(key(2))) });
            let mut accepts = Acceptor::new(&server, Purpose::BINDING).unwrap().begin();
            let mut asks =
                CallerHandshake::begin(&keys(Some(key(1))), vec![key_of_server()], "", Purpose::BINDING)
                    .unwrap();
            let mut messages = 0;
            let mut passed = |mut bytes: Vec<u8>| {
                if messages == message && at < bytes.len() {
                    bytes[at] ^= 0x55;
                }
                messages += 1;
                bytes
            };
            let _ = accepts.input(&passed(asks.output()));
            if asks.input(&passed(accepts.output())).is_err() || asks.is_going_on() {
                continue;
            }
            asks.write(b"bind");
            let _ = accepts.input(&passed(asks.output()));
            let is_whole = accepts.read() == b"bind";
            assert!(!is_whole || accepts.keys(N).is_some());
            if is_whole {
                // The byte was behind the end of its message, or in a part that has no meaning.
                assert_eq!(accepts.keys(N).unwrap().of_caller, asks.keys(N).unwrap().of_caller);
            }
        }
    }
}

/// Takes every server.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
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
        let algorithms = &provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, shown, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// OpenSSL takes raw public keys from version 3.2 on; here it shows a certificate. The keys do not depend on that.
#[test]
fn the_keys_of_a_binding_are_those_that_openssl_exports() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    let folder = std::env::temp_dir().join(format!("stoop-openssl-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(&folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    };
    let made =
        openssl("req -x509 -newkey ed25519 -nodes -keyout key -out certificate -subj /CN=stoop").output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("SKIPPED: there is no openssl that makes an Ed25519 certificate");
        return;
    }
    let label = std::str::from_utf8(EXPORTER).unwrap();
    let arguments = format!(
        "s_server -accept 127.0.0.1:0 -key key -cert certificate -tls1_3 -alpn stoop/1 -naccept 1 -keymatexport {label} -keymatexportlen 32"
    );
    // It ends with its input.
    let mut server = openssl(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let address = lines.find_map(|line| line.strip_prefix("ACCEPT ").map(str::to_owned)).unwrap();
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth();
    config.alpn_protocols = vec![Purpose::BINDING.protocol.into()];
    let name = ServerName::try_from("stoop.invalid").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    while connection.is_handshaking() || connection.wants_write() {
        connection.complete_io(&mut stream).unwrap();
    }
    let is_material = |line: String| line.trim().strip_prefix("Keying material: ").map(str::to_owned);
    let material = lines.find_map(is_material).unwrap();
    let byte = |at: usize| u8::from_str_radix(&material[2 * at..2 * at + 2], 16).unwrap();
    let exported: Secret = std::array::from_fn(byte);
    let keys = super::keys(&connection, N, None).unwrap();
    assert_eq!(keys.of_caller, expand::<32>(&exported, &[b"stoop ", b"caller", &N.0.to_le_bytes()]));
    assert_eq!(keys.of_server, expand::<32>(&exported, &[b"stoop ", b"server", &N.0.to_le_bytes()]));
    connection.send_close_notify();
    let _ = connection.complete_io(&mut stream);
    drop(stream);
    let _ = server.kill();
    let _ = server.wait();
    let _ = std::fs::remove_dir_all(folder);
}
