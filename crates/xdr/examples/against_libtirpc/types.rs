// @generated from crates/xdr/examples/against_libtirpc/types.x by stoop-x: change that file instead.
//
// An array of small structs, and the shape of NFSv3's READDIRPLUS result (RFC 1813, section 3.3.17).

use stoop_xdr::{Chain, Decode, DecodeError, Encode, Layout, Reader, UNBOUNDED, Writer, Xdr};

/// An array of small structs, and the shape of NFSv3's READDIRPLUS result (RFC 1813, section 3.3.17).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// `unsigned int a`
    pub a: u32,
    /// `int b`
    pub b: i32,
    /// `hyper c`
    pub c: i64,
}

impl Xdr for Point {
    const LAYOUT: Layout = Layout::record(&[u32::LAYOUT, i32::LAYOUT, i64::LAYOUT]);
}

impl Encode for Point {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.a);
        writer.value(&self.b);
        writer.value(&self.c);
    }
}

impl Decode<'_> for Point {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            a: reader.value()?,
            b: reader.value()?,
            c: reader.value()?,
        })
    }
}

/// `typedef point points<>`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Points(pub Vec<Point>);

impl From<Vec<Point>> for Points {
    fn from(value: Vec<Point>) -> Self {
        Self(value)
    }
}

impl Xdr for Points {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Points {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.sequence(&self.0, UNBOUNDED);
    }
}

impl Decode<'_> for Points {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.sequence(UNBOUNDED)?))
    }
}

/// `enum file_type`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum FileType {
    /// `REGULAR = 1`
    Regular = 1,
    /// `DIRECTORY = 2`
    Directory = 2,
}

impl From<FileType> for i32 {
    fn from(value: FileType) -> i32 {
        value as i32
    }
}

impl TryFrom<i32> for FileType {
    type Error = i32;

    fn try_from(number: i32) -> Result<Self, i32> {
        match number {
            1 => Ok(Self::Regular),
            2 => Ok(Self::Directory),
            other => Err(other),
        }
    }
}

impl Xdr for FileType {
    const LAYOUT: Layout = Layout::fixed(4);
}

impl Encode for FileType {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.i32(*self as i32);
    }
}

impl Decode<'_> for FileType {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.i32()?;
        Self::try_from(number)
            .map_err(|number| reader.unknown_value("file_type", number))
    }
}

/// `struct moment`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    /// `unsigned int seconds`
    pub seconds: u32,
    /// `unsigned int nanos`
    pub nanos: u32,
}

impl Xdr for Moment {
    const LAYOUT: Layout = Layout::record(&[u32::LAYOUT, u32::LAYOUT]);
}

impl Encode for Moment {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.seconds);
        writer.value(&self.nanos);
    }
}

impl Decode<'_> for Moment {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            seconds: reader.value()?,
            nanos: reader.value()?,
        })
    }
}

/// `struct device`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Device {
    /// `unsigned int major`
    pub major: u32,
    /// `unsigned int minor`
    pub minor: u32,
}

impl Xdr for Device {
    const LAYOUT: Layout = Layout::record(&[u32::LAYOUT, u32::LAYOUT]);
}

impl Encode for Device {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.major);
        writer.value(&self.minor);
    }
}

impl Decode<'_> for Device {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            major: reader.value()?,
            minor: reader.value()?,
        })
    }
}

/// `struct attributes`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// `file_type kind`
    pub kind: FileType,
    /// `unsigned int mode`
    pub mode: u32,
    /// `unsigned int links`
    pub links: u32,
    /// `unsigned int uid`
    pub uid: u32,
    /// `unsigned int gid`
    pub gid: u32,
    /// `unsigned hyper size`
    pub size: u64,
    /// `unsigned hyper used`
    pub used: u64,
    /// `device device`
    pub device: Device,
    /// `unsigned hyper file_system`
    pub file_system: u64,
    /// `unsigned hyper file`
    pub file: u64,
    /// `moment read`
    pub read: Moment,
    /// `moment written`
    pub written: Moment,
    /// `moment changed`
    pub changed: Moment,
}

impl Xdr for Attributes {
    const LAYOUT: Layout = Layout::record(
        &[
            FileType::LAYOUT,
            u32::LAYOUT,
            u32::LAYOUT,
            u32::LAYOUT,
            u32::LAYOUT,
            u64::LAYOUT,
            u64::LAYOUT,
            Device::LAYOUT,
            u64::LAYOUT,
            u64::LAYOUT,
            Moment::LAYOUT,
            Moment::LAYOUT,
            Moment::LAYOUT,
        ],
    );
}

impl Encode for Attributes {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.kind);
        writer.value(&self.mode);
        writer.value(&self.links);
        writer.value(&self.uid);
        writer.value(&self.gid);
        writer.value(&self.size);
        writer.value(&self.used);
        writer.value(&self.device);
        writer.value(&self.file_system);
        writer.value(&self.file);
        writer.value(&self.read);
        writer.value(&self.written);
        writer.value(&self.changed);
    }
}

impl Decode<'_> for Attributes {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            kind: reader.value()?,
            mode: reader.value()?,
            links: reader.value()?,
            uid: reader.value()?,
            gid: reader.value()?,
            size: reader.value()?,
            used: reader.value()?,
            device: reader.value()?,
            file_system: reader.value()?,
            file: reader.value()?,
            read: reader.value()?,
            written: reader.value()?,
            changed: reader.value()?,
        })
    }
}

/// `union maybe_attributes`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MaybeAttributes {
    /// `case TRUE: attributes attributes`
    True(Attributes),
    /// `case FALSE: void`
    False,
}

impl Xdr for MaybeAttributes {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for MaybeAttributes {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::True(content) => {
                writer.value(&true);
                writer.value(content);
            }
            Self::False => writer.value(&false),
        }
    }
}

impl Decode<'_> for MaybeAttributes {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.value::<bool>()? {
            true => Ok(Self::True(reader.value()?)),
            false => Ok(Self::False),
        }
    }
}

/// `struct handle`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    /// `opaque data<64>`
    pub data: Vec<u8>,
}

impl Xdr for Handle {
    const LAYOUT: Layout = Layout::record(&[Layout::variable(4)]);
}

impl Encode for Handle {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(&self.data, 64);
    }
}

impl Decode<'_> for Handle {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            data: reader.opaque(64)?.to_vec(),
        })
    }
}

/// `union maybe_handle`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MaybeHandle {
    /// `case TRUE: handle handle`
    True(Handle),
    /// `case FALSE: void`
    False,
}

impl Xdr for MaybeHandle {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for MaybeHandle {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::True(content) => {
                writer.value(&true);
                writer.value(content);
            }
            Self::False => writer.value(&false),
        }
    }
}

impl Decode<'_> for MaybeHandle {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.value::<bool>()? {
            true => Ok(Self::True(reader.value()?)),
            false => Ok(Self::False),
        }
    }
}

/// `struct entry`
///
/// A node of a linked list, without the link to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// `unsigned hyper file`
    pub file: u64,
    /// `string name<>`
    pub name: String,
    /// `unsigned hyper cookie`
    pub cookie: u64,
    /// `maybe_attributes attributes`
    pub attributes: MaybeAttributes,
    /// `maybe_handle handle`
    pub handle: MaybeHandle,
}

impl Xdr for Entry {
    const LAYOUT: Layout = Layout::record(
        &[
            u64::LAYOUT,
            Layout::variable(4),
            u64::LAYOUT,
            MaybeAttributes::LAYOUT,
            MaybeHandle::LAYOUT,
        ],
    );
}

impl Encode for Entry {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.file);
        writer.string(&self.name, UNBOUNDED);
        writer.value(&self.cookie);
        writer.value(&self.attributes);
        writer.value(&self.handle);
    }
}

impl Decode<'_> for Entry {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            file: reader.value()?,
            name: reader.text(UNBOUNDED)?.to_owned(),
            cookie: reader.value()?,
            attributes: reader.value()?,
            handle: reader.value()?,
        })
    }
}

/// `struct listing`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listing {
    /// `maybe_attributes directory`
    pub directory: MaybeAttributes,
    /// `opaque verifier[8]`
    pub verifier: [u8; 8],
    /// `entry *entries`
    pub entries: Chain<Entry>,
    /// `bool is_complete`
    pub is_complete: bool,
}

impl Xdr for Listing {
    const LAYOUT: Layout = Layout::record(
        &[MaybeAttributes::LAYOUT, Layout::opaque(8), Layout::variable(4), bool::LAYOUT],
    );
}

impl Encode for Listing {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.directory);
        writer.opaque_fixed(&self.verifier, 8);
        writer.value(&self.entries);
        writer.value(&self.is_complete);
    }
}

impl Decode<'_> for Listing {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            directory: reader.value()?,
            verifier: *reader.opaque_fixed()?,
            entries: reader.value()?,
            is_complete: reader.value()?,
        })
    }
}
