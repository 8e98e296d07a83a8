//! What a driver brings: ciphers, and how their keys are derived.

/// Bytes of a tag.
pub const TAG_LEN: usize = 16;

/// Bytes of a nonce.
pub const NONCE_LEN: usize = 12;

/// The secret of one direction in one phase, from which its key and the secret of the next phase are derived.
pub type Secret = [u8; 32];

/// An authenticated cipher with a key (AEAD, RFC 5116).
pub trait Cipher {
    /// Encrypts `data` where it lies, and returns the tag over it and `associated`. A nonce is used once.
    fn seal(&self, nonce: [u8; NONCE_LEN], associated: &[u8], data: &mut [u8]) -> [u8; TAG_LEN];

    /// The same, of data elsewhere: encrypts it to `out`, which is as long.
    fn seal_from(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        data: &[u8],
        out: &mut [u8],
    ) -> [u8; TAG_LEN] {
        out.copy_from_slice(data);
        self.seal(nonce, associated, out)
    }

    /// Decrypts `data` where it lies, if the tag is right. If not, the contents of `data` are arbitrary, and nothing of the clear text.
    fn open(&self, nonce: [u8; NONCE_LEN], associated: &[u8], data: &mut [u8], tag: &[u8; TAG_LEN]) -> bool;

    /// The same, to elsewhere: decrypts `data` to `out`, which is as long.
    fn open_to(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        (data, tag): (&[u8], &[u8; TAG_LEN]),
        out: &mut [u8],
    ) -> bool {
        out.copy_from_slice(data);
        self.open(nonce, associated, out, tag)
    }
}

/// A cipher, and how its keys are derived from secrets.
pub trait Suite {
    /// The cipher.
    type Cipher: Cipher;

    /// The cipher with the key of a secret, and the mask of its nonces.
    fn cipher(&self, secret: &Secret) -> (Self::Cipher, [u8; NONCE_LEN]);

    /// The secret of the next phase.
    fn next(&self, secret: &Secret) -> Secret;
}
