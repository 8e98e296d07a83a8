//! A cipher with its key, and the nonces of numbers.

use crate::NUMBER_LEN;
use crate::suite::{NONCE_LEN, Secret, Suite};

/// A cipher with a key, and the mask of its nonces.
pub(crate) struct Keyed<C> {
    pub(crate) cipher: C,
    mask: [u8; NONCE_LEN],
}

impl<C> Keyed<C> {
    pub(crate) fn of<S: Suite<Cipher = C>>(suite: &S, secret: &Secret) -> Self {
        let (cipher, mask) = suite.cipher(secret);
        Self { cipher, mask }
    }

    /// The nonce of a number, as TLS makes it (RFC 8446 §5.3).
    pub(crate) fn nonce(&self, number: u64) -> [u8; NONCE_LEN] {
        let mut nonce = self.mask;
        let low = nonce[NONCE_LEN - NUMBER_LEN..].iter_mut();
        low.zip(number.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
        nonce
    }
}
