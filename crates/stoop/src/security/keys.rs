//! Ed25519 keys: the own one, in a file, and public ones as text.

use crate::security::base64;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use stoop_net::host;

/// A public key (Ed25519). Its text has 43 characters: base64 by the alphabet for URLs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey(pub(crate) [u8; 32]);

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64::encode_url(&self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let bytes = base64::decode(text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or("a public key has 43 letters, digits, - or _, as `stoop keygen` prints it")
    }
}

/// A server, by the key or the certificate that it has shown.
pub(crate) fn in_words(key: Option<PublicKey>) -> String {
    key.map_or("the server that its certificate names".into(), |key| format!("the server of the key {key}"))
}

/// The key of this end.
#[derive(Clone)]
pub(crate) struct OwnKey {
    seed: [u8; 32],
    pub(crate) public: PublicKey,
}

impl fmt::Debug for OwnKey {
    /// Nothing of the private part.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnKey").field(&self.public).finish()
    }
}

/// The form of a private key (PKCS #8, RFC 8410) up to its 32 bytes.
const PKCS8_BEGIN: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// The form of a public key (SubjectPublicKeyInfo, RFC 8410) up to its 32 bytes.
pub(crate) const SPKI_BEGIN: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

pub(crate) fn wrong(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()))
}

/// The text of a file that only its user may read.
pub(crate) fn read_private(path: &Path) -> io::Result<String> {
    let named = |cause: io::Error| {
        let cure = if cause.kind() == io::ErrorKind::NotFound { "; `stoop keygen` makes a key" } else { "" };
        io::Error::new(cause.kind(), format!("{}: {cause}{cure}", path.display()))
    };
    let file = File::open(path).map_err(named)?;
    if file.metadata().map_err(named)?.mode() & 0o077 != 0 {
        return Err(wrong(path, "other users can read this key; make it unreadable for them (chmod 600)"));
    }
    io::read_to_string(file).map_err(named)
}

/// Opens a file that says which peers an end trusts.
///
/// # Errors
/// It cannot be read, or every user can write it.
pub(crate) fn open_trusted(path: &Path) -> io::Result<File> {
    let named = |cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", path.display()));
    let file = File::open(path).map_err(named)?;
    let found = file.metadata().map_err(named)?;
    if found.is_file() && found.mode() & 0o002 != 0 {
        return Err(wrong(
            path,
            "every user can write this file, and so say who is trusted; take that right away (chmod o-w)",
        ));
    }
    Ok(file)
}

impl OwnKey {
    /// A key that nobody has had before.
    pub(crate) fn random() -> Self {
        Self::of_seed(host::random_bytes())
    }

    /// The key with these private bytes.
    pub(crate) fn of_seed(seed: [u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("any 32 bytes are a seed");
        let public = pair.public_key().as_ref().try_into().expect("a public key has 32 bytes");
        Self { seed, public: PublicKey(public) }
    }

    /// Reads the key in a file.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let text = read_private(path)?;
        let body = text.split_once(PEM_BEGIN).and_then(|(_, rest)| rest.split_once(PEM_END));
        let body: Option<String> = body.map(|(body, _)| body.split_whitespace().collect());
        let der = body.and_then(|body| base64::decode(&body));
        let seed = der
            .as_deref()
            .and_then(|der| der.strip_prefix(&PKCS8_BEGIN))
            .and_then(|rest| rest.try_into().ok());
        seed.map(Self::of_seed)
            .ok_or_else(|| wrong(path, "it has no Ed25519 key in PKCS #8 and PEM; `stoop keygen` makes one"))
    }

    /// The key that the shared secret in a file stands for.
    pub(crate) fn of_group(path: &Path) -> io::Result<Self> {
        let secret =
            base64::decode(read_private(path)?.trim()).and_then(|secret| <[u8; 32]>::try_from(secret).ok());
        let secret = secret
            .ok_or_else(|| wrong(path, "it has no 32 bytes in base64; `stoop keygen --secret` makes some"))?;
        Ok(Self::of_seed(crate::security::cipher::expand(&secret, &[b"stoop group"])))
    }

    /// Makes a key and writes it to a new file.
    pub(crate) fn generate(path: &Path) -> io::Result<PublicKey> {
        let key = Self::random();
        write_private(path, &format!("{PEM_BEGIN}\n{}\n{PEM_END}\n", base64::encode(&key.pkcs8())))?;
        Ok(key.public)
    }

    /// Makes the secret of a group and writes it to a new file.
    pub(crate) fn generate_secret(path: &Path) -> io::Result<()> {
        write_private(path, &format!("{}\n", base64::encode_url(&host::random_bytes::<32>())))
    }

    /// The private key in PKCS #8.
    pub(crate) fn pkcs8(&self) -> Vec<u8> {
        [&PKCS8_BEGIN[..], &self.seed].concat()
    }
}

/// Writes text to a new file that only this user can read.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let named = |cause: io::Error| {
        let exists = cause.kind() == io::ErrorKind::AlreadyExists;
        let cure = if exists { "; `stoop key` and its path print the public key of a key" } else { "" };
        io::Error::new(cause.kind(), format!("{}: {cause}{cure}", path.display()))
    };
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(named)
}

/// The file of this user's key.
pub(crate) fn default_path() -> io::Result<PathBuf> {
    let of = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configuration = || of("XDG_CONFIG_HOME").or_else(|| of("HOME").map(|home| home.join(".config")));
    of("STOOP_KEY").or_else(|| configuration().map(|folder| folder.join("stoop/key"))).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "there is no user's directory; name the file of the key in STOOP_KEY",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_made_and_is_not_overwritten() {
        let folder = std::env::temp_dir().join(format!("stoop-keys-{}", std::process::id()));
        let path = folder.join("key");
        let public = OwnKey::generate(&path).unwrap();
        assert_eq!(OwnKey::read(&path).unwrap().public, public);
        assert_eq!(OwnKey::generate(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(public.to_string().parse(), Ok(public));
        assert_eq!(public.to_string().len(), 43);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_public_key_of_a_seed_is_that_of_rfc_8032() {
        let seed = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4,
            0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ];
        let public = OwnKey::of_seed(seed).public.0;
        assert_eq!(public[..4], [0xd7, 0x5a, 0x98, 0x01]);
    }
}
