// @generated from bytes.x by stoop-x: change that file instead.
//
// A directory entry: the name can have any encoding.

use stoop_xdr::{Decode, DecodeError, Encode, Layout, Reader, UNBOUNDED, Writer, Xdr};

/// A directory entry: the name can have any encoding.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// `string name<255>`
    pub name: Vec<u8>,
    /// `opaque handle[HANDLE_LEN]`
    pub handle: [u8; 16],
    /// `gid_t group`
    pub group: u32,
    /// `gid_t others<>`
    pub others: Vec<u32>,
}

impl Xdr for Entry {
    const LAYOUT: Layout = Layout::record(
        &[Layout::variable(4), Layout::opaque(16), <u32>::LAYOUT, Layout::variable(4)],
    );
}

impl Encode for Entry {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.string(&self.name, 255);
        writer.opaque_fixed(&self.handle, 16);
        writer.value(&self.group);
        writer.sequence(&self.others, UNBOUNDED);
    }
}

impl Decode<'_> for Entry {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: reader.string(255)?.to_vec(),
            handle: *reader.opaque_fixed()?,
            group: reader.value()?,
            others: reader.sequence(UNBOUNDED)?,
        })
    }
}

/// `typedef string path<>`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path(pub Vec<u8>);

impl From<Vec<u8>> for Path {
    fn from(value: Vec<u8>) -> Self {
        Self(value)
    }
}

impl Xdr for Path {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Path {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.string(&self.0, UNBOUNDED);
    }
}

impl Decode<'_> for Path {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.string(UNBOUNDED)?.to_vec()))
    }
}
