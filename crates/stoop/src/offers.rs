//! The other addresses of a server, as it tells them to callers on its own machine.
//!
//! A text in its bind replies: addresses with spaces between, that of shared memory followed by `#` and the number by which the
//! caller recognises the server when it binds there.

use std::fmt;

/// Bytes of the longest text; a bind reply must be no longer than its request.
const TEXT_MAX: usize = 256;

/// An address at which a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) uri: String,
    /// The number of the server's start, for shared memory; 0 for other transports.
    pub(crate) incarnation: u64,
}

impl Offer {
    /// An address in the form in which callers on the same machine reach it.
    pub(crate) fn to(uri: &str) -> Self {
        Self { uri: uri.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:"), incarnation: 0 }
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri)?;
        if self.incarnation != 0 {
            write!(f, "#{:x}", self.incarnation)?;
        }
        Ok(())
    }
}

/// The text for these offers, as many as fit. It is empty for a single one: the caller has reached that already.
pub(crate) fn text(offers: impl Iterator<Item = Offer>) -> String {
    let mut text = String::new();
    let mut count = 0;
    for offer in offers {
        let offer = offer.to_string();
        let is_one_word = !offer.contains(char::is_whitespace);
        if is_one_word && text.len() + 1 + offer.len() <= TEXT_MAX {
            if count > 0 {
                text.push(' ');
            }
            text.push_str(&offer);
            count += 1;
        }
    }
    if count > 1 { text } else { String::new() }
}

/// The offers in such a text.
pub(crate) fn parse(text: &str) -> impl Iterator<Item = Offer> + '_ {
    text.split_whitespace().map(|offer| match offer.rsplit_once('#') {
        Some((uri, number)) => {
            Offer { uri: uri.into(), incarnation: u64::from_str_radix(number, 16).unwrap_or(0) }
        }
        None => Offer { uri: offer.into(), incarnation: 0 },
    })
}

#[cfg(test)]
mod tests {
    use crate::offers::*;

    #[test]
    fn what_is_told_is_understood() {
        let offers = [
            Offer { uri: "shm:greeter".into(), incarnation: 0xabc },
            Offer::to("udp://0.0.0.0:7400"),
            Offer::to("tcp://[::]:7400"),
        ];
        let told = text(offers.clone().into_iter());
        assert_eq!(told, "shm:greeter#abc udp://127.0.0.1:7400 tcp://[::1]:7400");
        assert!(parse(&told).eq(offers));
    }

    #[test]
    fn one_place_alone_needs_no_telling_and_too_many_are_cut() {
        assert_eq!(text(std::iter::once(Offer::to("udp://1.2.3.4:5"))), "");
        let many = text((0..100).map(|port| Offer::to(&format!("udp://10.0.0.1:{port}"))));
        assert!(many.len() <= TEXT_MAX && parse(&many).count() > 10);
    }
}
