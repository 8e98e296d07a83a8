//! The addresses that a binding's caller had before its present one.
//!
//! A caller with two ways to the server may send from two addresses in turn. Without these, each change would cost a challenge and
//! one more transmission.

use super::peer::Peer;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Most earlier addresses of a caller. A caller that has more proves its address again when it comes back to one of them.
const MOST: usize = 3;

/// Addresses at which a caller has proved that it receives, or from which it bound; the oldest first. Nearly all callers have none.
// The box makes the binding of all other callers smaller.
#[derive(Debug, Default)]
#[expect(clippy::box_collection, reason = "one word while there are none")]
pub(super) struct EarlierHosts(Option<Box<Vec<[u8; 16]>>>);

impl EarlierHosts {
    /// Whether one of them is that of `peer`.
    #[inline]
    pub(super) fn contain<P: Peer>(&self, peer: &P) -> bool {
        match &self.0 {
            None => false,
            Some(hosts) => is_among(peer, hosts),
        }
    }

    /// Adds the address `before` of a caller that is now at `present`.
    #[cold]
    pub(super) fn add(&mut self, before: [u8; 16], present: [u8; 16]) {
        let hosts = self.0.get_or_insert_default();
        hosts.retain(|host| *host != present && *host != before);
        if before != present {
            hosts.push(before);
        }
        if hosts.len() > MOST {
            hosts.remove(0);
        }
    }

    /// Bytes of memory that they take.
    pub(super) fn bytes_held(&self) -> usize {
        self.0
            .as_ref()
            .map_or(0, |hosts| size_of::<Vec<[u8; 16]>>() + hosts.capacity() * size_of::<[u8; 16]>())
    }
}

#[cold]
fn is_among<P: Peer>(peer: &P, hosts: &[[u8; 16]]) -> bool {
    hosts.iter().any(|host| peer.is_at(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct At(u8);

    impl Peer for At {
        fn host(&self) -> [u8; 16] {
            [self.0; 16]
        }

        fn port(&self) -> u16 {
            0
        }
    }

    /// Moves a caller from address 0 through these; returns the addresses below ten that are known as earlier ones.
    fn known_after(moves: &[u8]) -> Vec<u8> {
        let (mut hosts, mut present) = (EarlierHosts::default(), 0);
        for &next in moves {
            hosts.add([present; 16], [next; 16]);
            present = next;
        }
        (0..10).filter(|host| hosts.contain(&At(*host))).collect()
    }

    #[test]
    fn the_latest_three_are_known() {
        assert_eq!(known_after(&[]), []);
        assert_eq!(known_after(&[1]), [0]);
        assert_eq!(known_after(&[1, 2, 3]), [0, 1, 2]);
        assert_eq!(known_after(&[1, 2, 3, 4, 5]), [2, 3, 4]);
    }

    #[test]
    fn the_present_address_takes_no_place() {
        assert_eq!(known_after(&[1, 0, 1, 0]), [1]);
        assert_eq!(known_after(&[1, 1]), [0]);
        assert_eq!(known_after(&[1, 2, 1, 3]), [0, 1, 2]);
    }
}
