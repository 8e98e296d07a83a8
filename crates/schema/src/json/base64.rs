//! Bytes as text (RFC 4648 §4).

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let number = (0..3).fold(0_u32, |number, at| number << 8 | u32::from(*group.get(at).unwrap_or(&0)));
        for digit in 0..4 {
            match digit <= group.len() {
                true => text.push(char::from(DIGITS[(number >> (18 - 6 * digit) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

/// The bytes of a text; `None` if it is not in the one form that each sequence of bytes has.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    for group in digits.as_bytes().chunks(4) {
        let mut number = 0;
        for digit in group {
            number = number << 6 | DIGITS.iter().position(|of| of == digit)?;
        }
        let (count, unused) = match group.len() {
            4 => (3, 0),
            3 => (2, 2),
            2 => (1, 4),
            _ => return None,
        };
        if number & ((1 << unused) - 1) != 0 {
            return None;
        }
        let number = (number >> unused) as u32;
        bytes.extend_from_slice(&number.to_be_bytes()[4 - count..]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_one_text_and_come_back() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        for wrong in ["Z", "Zg", "Zh==", "Zm9=", "====", "Zg=a", "Z===", "Zm 9"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
