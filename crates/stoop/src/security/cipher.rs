//! The ciphers of sealed packets, and how their keys are derived (RFC 5869, with SHA-256).

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use std::sync::OnceLock;
use stoop_seal::{Cipher, NONCE_LEN, Secret, Suite, TAG_LEN};

/// The cipher of a binding's packets, as the handshake has chosen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketSuite {
    Aes256Gcm,
    ChaCha20Poly1305,
}

/// A cipher with a key. What it needs to encrypt, 600 bytes, is made at its first use: an idle binding has three keys, and uses that of the
/// next phase hardly ever.
pub(crate) struct PacketCipher {
    made: OnceLock<LessSafeKey>,
    suite: PacketSuite,
    key: [u8; 32],
}

impl PacketCipher {
    #[inline]
    fn made(&self) -> &LessSafeKey {
        self.made.get_or_init(|| self.make())
    }

    #[cold]
    fn make(&self) -> LessSafeKey {
        let algorithm = match self.suite {
            PacketSuite::Aes256Gcm => &AES_256_GCM,
            PacketSuite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        LessSafeKey::new(UnboundKey::new(algorithm, &self.key).expect("both ciphers have keys of 32 bytes"))
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand of a secret, with these labels one behind the other.
pub(crate) fn expand<const LEN: usize>(secret: &Secret, label: &[&[u8]]) -> [u8; LEN] {
    let (prk, mut out) = (Prk::new_less_safe(HKDF_SHA256, secret), [0; LEN]);
    let filled = prk.expand(label, Length(LEN)).and_then(|derived| derived.fill(&mut out));
    filled.expect("less than 255 hashes are asked for");
    out
}

impl Cipher for PacketCipher {
    #[inline]
    fn seal(&self, nonce: [u8; NONCE_LEN], associated: &[u8], data: &mut [u8]) -> [u8; TAG_LEN] {
        let (nonce, mut tag) = (Nonce::assume_unique_for_key(nonce), [0; TAG_LEN]);
        let sealed = self.made().seal_in_place_scatter(nonce, Aad::from(associated), data, &[], &mut tag);
        sealed.expect("a packet is shorter than what the cipher takes");
        tag
    }

    fn seal_from(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        data: &[u8],
        out: &mut [u8],
    ) -> [u8; TAG_LEN] {
        let (nonce, mut tag) = (Nonce::assume_unique_for_key(nonce), [0; TAG_LEN]);
        let sealed =
            self.made().seal_out_of_place_scatter(nonce, Aad::from(associated), data, out, &[], &mut tag);
        sealed.expect("a packet is shorter than what the cipher takes");
        tag
    }

    #[inline]
    fn open(&self, nonce: [u8; NONCE_LEN], associated: &[u8], data: &mut [u8], tag: &[u8; TAG_LEN]) -> bool {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.made().open_in_place_separate_tag(nonce, Aad::from(associated), tag, data).is_ok()
    }

    fn open_to(
        &self,
        nonce: [u8; NONCE_LEN],
        associated: &[u8],
        (data, tag): (&[u8], &[u8; TAG_LEN]),
        out: &mut [u8],
    ) -> bool {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.made().open_separate_gather(nonce, Aad::from(associated), data, tag, out).is_ok()
    }
}

impl Suite for PacketSuite {
    type Cipher = PacketCipher;

    fn cipher(&self, secret: &Secret) -> (PacketCipher, [u8; NONCE_LEN]) {
        let cipher =
            PacketCipher { made: OnceLock::new(), suite: *self, key: expand(secret, &[b"stoop key"]) };
        (cipher, expand(secret, &[b"stoop iv"]))
    }

    fn next(&self, secret: &Secret) -> Secret {
        expand(secret, &[b"stoop ku"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoop_seal::{Numbers, Opened, RecordSealer, Seal, Side};
    use stoop_wire::{Bundle, HEADER_LEN, Kind, SEAL_LEN};

    const DOCUMENT: &str = include_str!("../../../../docs/protocol.md");

    /// Bytes as the document has them: two digits each, eight bytes in a group.
    fn hex(bytes: &[u8]) -> String {
        let digits = |group: &[u8]| group.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        bytes.chunks(8).map(digits).collect::<Vec<_>>().join(" ")
    }

    fn assert_documented(bytes: &[u8]) {
        let line = format!("    {}", hex(bytes));
        assert!(DOCUMENT.lines().any(|there| there == line), "docs/protocol.md lacks:\n{line}");
    }

    /// The vectors were made by another implementation, in Python.
    #[test]
    fn documented_keys_and_packets_are_those_that_are_used() {
        let exported: Secret = std::array::from_fn(|at| at as u8);
        let binding = 0x5122_3344_5566_7788_u64.to_le_bytes();
        let [of_caller, of_server]: [Secret; 2] =
            [b"caller", b"server"].map(|side| expand(&exported, &[b"stoop ", side, &binding]));
        assert_documented(&of_caller);
        assert_documented(&expand::<32>(&of_caller, &[b"stoop key"]));
        assert_documented(&expand::<12>(&of_caller, &[b"stoop iv"]));
        let end = |side| Seal::new(PacketSuite::Aes256Gcm, side, of_caller, of_server, 0);
        let (caller, mut server, caller_again) = (end(Side::Caller), end(Side::Server), end(Side::Caller));
        let packet = |kind: u8| {
            let header =
                [&[0xd7, 1, kind, 0, 5, 0, 2, 0], &binding[..], &[7, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]];
            [&header.concat()[..], &50_000_u32.to_le_bytes(), b"a secret", &[0; 24]].concat()
        };
        let fourth = |end: &Seal<PacketSuite>, kind| {
            let mut numbers = Numbers::default();
            (0..3).for_each(|_| assert!(end.seal(&mut numbers, &mut packet(kind), 40)));
            let mut packet = packet(kind);
            assert!(end.seal(&mut numbers, &mut packet, 40));
            packet
        };
        let mut call = fourth(&caller, 3);
        assert_documented(&call);
        assert_eq!(server.open(0, &mut call, 40), Opened::Yes);
        server = server.next(0, false);
        assert_documented(&fourth(&server, 4));
        let mut other = packet(3);
        (other[4], other[16]) = (6, 1);
        other[HEADER_LEN..40].copy_from_slice(b"another ");
        let packets = [&packet(3)[..40], &other[..40]].concat();
        let mut bundle = [&Bundle::header(Kind::Call, &packets, 40)[..], &packets, &[0; SEAL_LEN]].concat();
        let mut numbers = Numbers::default();
        (0..4).for_each(|_| assert!(caller_again.seal(&mut numbers, &mut packet(3), 40)));
        assert!(caller_again.seal(&mut numbers, &mut bundle, HEADER_LEN + packets.len()));
        assert_documented(&bundle);
        let hour_ns = 3_600_000_000_000;
        let mut sealer = RecordSealer::new(PacketSuite::Aes256Gcm, of_caller, 0);
        let mut record = || {
            let mut record = *b"\0\0\0\0a secret\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
            // The fifth is the first of an hour later.
            sealer.look(sealer.numbers() / 4 * hour_ns);
            sealer.seal(&mut record);
            record
        };
        for _ in 0..3 {
            record();
        }
        assert_documented(&record());
        assert_documented(&record());
    }
}
