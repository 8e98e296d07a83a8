//! Base64 (RFC 4648): of keys in addresses and files of peers by the alphabet for URLs, and of files of keys by that of PEM.

const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The text of these bytes, without padding, by the alphabet for URLs.
pub(crate) fn encode_url(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = (0..3).fold(0_u32, |word, at| word << 8 | u32::from(*chunk.get(at).unwrap_or(&0)));
        let letters = (0..=chunk.len()).map(|at| URL[(word >> (18 - 6 * at) & 63) as usize]);
        text.extend(letters.map(char::from));
    }
    text
}

/// The text of these bytes, with padding, by the alphabet of PEM.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = encode_url(bytes).replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// The bytes of a text by either alphabet, with padding or without. `None`: it is no such text.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let letters = text.trim_end_matches('=').bytes().map(|letter| match letter {
        b'+' => Some(62),
        b'/' => Some(63),
        letter => URL.iter().position(|of| *of == letter),
    });
    let (mut bytes, mut word, mut bits) = (Vec::new(), 0_usize, 0);
    for value in letters {
        (word, bits) = (word << 6 | value?, bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
            word &= (1 << bits) - 1;
        }
    }
    (bits < 6 && word == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(encode_url(bytes.as_bytes()), text.trim_end_matches('='));
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(encode_url(&[0xfb, 0xff]), "-_8");
        assert_eq!(decode("+/8"), decode("-_8"));
    }

    #[test]
    fn a_text_that_no_bytes_have_is_not_decoded() {
        for wrong in ["Z", "Zh", "Z!", "Zm9=v", "Zm 9v"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
