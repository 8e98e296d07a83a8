//! The addresses of a binding's caller other than its present one: those that it had before, and one that it has yet to prove.
//!
//! A caller with two ways to the server may send from two addresses in turn. Without the earlier ones, each change would cost a
//! challenge and one more transmission. If every packet takes another way, the proof of one address comes from another one: so the
//! server remembers the address that it has challenged.

use super::peer::Peer;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Most earlier addresses of a caller. A caller that has more proves its address again when it comes back to one of them.
const MOST: usize = 3;

/// Other addresses of a caller. Nearly all callers have none.
// The box makes the binding of all other callers smaller.
#[derive(Debug, Default)]
pub(super) struct OtherHosts(Option<Box<Hosts>>);

#[derive(Debug, Default)]
struct Hosts {
    /// Addresses at which the caller has proved that it receives, or from which it bound; the oldest first.
    earlier: Vec<[u8; 16]>,
    /// Host and port that were challenged last.
    challenged: Option<([u8; 16], u16)>,
}

impl OtherHosts {
    /// Whether the caller had the address of `peer` before.
    #[inline]
    pub(super) fn were_at<P: Peer>(&self, peer: &P) -> bool {
        match &self.0 {
            None => false,
            Some(hosts) => is_among(peer, &hosts.earlier),
        }
    }

    /// A packet came from this unproven address, and the server challenges it.
    #[cold]
    pub(super) fn challenge<P: Peer>(&mut self, peer: &P) {
        self.0.get_or_insert_default().challenged = Some((peer.host(), peer.port()));
    }

    /// Host and port that were challenged last, and are not proven.
    pub(super) fn challenged(&self) -> Option<([u8; 16], u16)> {
        self.0.as_ref()?.challenged
    }

    /// The caller, which was at the address `before`, has proved that it is at `present`.
    #[cold]
    pub(super) fn prove(&mut self, before: [u8; 16], present: [u8; 16]) {
        let hosts = self.0.get_or_insert_default();
        hosts.challenged.take_if(|(host, _)| *host == present);
        hosts.earlier.retain(|host| *host != present && *host != before);
        if before != present {
            hosts.earlier.push(before);
        }
        if hosts.earlier.len() > MOST {
            hosts.earlier.remove(0);
        }
    }

    /// Bytes of memory that they take.
    pub(super) fn bytes_held(&self) -> usize {
        self.0
            .as_ref()
            .map_or(0, |hosts| size_of::<Hosts>() + hosts.earlier.capacity() * size_of::<[u8; 16]>())
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
        let (mut hosts, mut present) = (OtherHosts::default(), 0);
        for &next in moves {
            hosts.prove([present; 16], [next; 16]);
            present = next;
        }
        (0..10).filter(|host| hosts.were_at(&At(*host))).collect()
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

    #[test]
    fn a_proven_address_is_no_longer_a_challenged_one() {
        let mut hosts = OtherHosts::default();
        hosts.challenge(&At(1));
        hosts.challenge(&At(2));
        hosts.prove([0; 16], [1; 16]);
        assert_eq!(hosts.challenged(), Some(([2; 16], 0)), "this one is challenged still");
        hosts.prove([1; 16], [2; 16]);
        assert_eq!(hosts.challenged(), None);
    }
}
