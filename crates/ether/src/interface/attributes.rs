//! Attributes of a netlink message (netlink(7)): length, type and value, each aligned to four bytes.

/// Attributes one behind the other.
#[derive(Clone, Copy)]
pub(super) struct Attributes<'a> {
    bytes: &'a [u8],
}

impl<'a> Attributes<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The value of the first attribute of this type.
    pub(super) fn find(mut self, wanted: u16) -> Option<&'a [u8]> {
        self.find_map(|(kind, value)| (kind == wanted).then_some(value))
    }

    pub(super) fn find_u32(self, wanted: u16) -> Option<u32> {
        self.find(wanted)?.try_into().ok().map(u32::from_ne_bytes)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        /// The bits of the type field that are flags (NLA_F_NESTED, NLA_F_NET_BYTEORDER).
        const FLAGS: u16 = 0xc000;
        let (&[l0, l1, k0, k1], _) = self.bytes.split_first_chunk()?;
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = self.bytes.get(4..len)?;
        self.bytes = self.bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & !FLAGS, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_end_where_a_length_is_wrong() {
        let attribute =
            |len: u16, kind: u16, value: &[u8]| [&len.to_ne_bytes(), &kind.to_ne_bytes(), value].concat();
        let bytes = [attribute(5, 1, &[7, 0, 0, 0]), attribute(8, 0x8002, &[1, 2, 3, 4])].concat();
        let all: Vec<_> = Attributes::of(&bytes).collect();
        assert_eq!(all, [(1, &[7][..]), (2, &[1, 2, 3, 4])]);
        assert_eq!(Attributes::of(&bytes).find_u32(2), Some(u32::from_ne_bytes([1, 2, 3, 4])));
        assert_eq!(Attributes::of(&bytes).find_u32(1), None, "of another size");
        for len in [0, 3, 9] {
            assert_eq!(Attributes::of(&attribute(len, 1, &[0; 4])).count(), 0);
        }
    }
}
