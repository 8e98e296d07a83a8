//! The types of `oracle/types.x`, as a compiler of interface files would emit them.

use stoop_xdr::{Chain, Decode, DecodeError, Encode, Layout, Reader, UNBOUNDED, Writer, Xdr};

/// Implements the traits of a struct whose fields are written and read as `value`.
macro_rules! structure {
    ($name:ident { $($field:ident: $type:ty),* }) => {
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $(pub $field: $type),* }

        impl Xdr for $name {
            const LAYOUT: Layout = Layout::record(&[$(<$type as Xdr>::LAYOUT),*]);
        }

        impl Encode for $name {
            #[inline]
            fn encode(&self, writer: &mut Writer<'_>) {
                $(writer.value(&self.$field);)*
            }
        }

        impl<'a> Decode<'a> for $name {
            #[inline]
            fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                Ok(Self { $($field: reader.value()?),* })
            }
        }
    };
}

structure! { Numbers { i: i32, u: u32, h: i64, uh: u64, f: f32, d: f64, b: bool } }
structure! { Narrow { c: i8, uc: u8, s: i16, us: u16 } }
structure! { Stamp { seconds: u32, nanos: u32 } }
structure! { Node { name: Name, id: u32 } }
structure! { Tree { value: i32, left: Option<Box<Tree>>, right: Option<Box<Tree>> } }

pub type Nodes = Chain<Node>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Colour {
    Red = 0,
    Green = -5,
    Blue = 2_147_483_647,
}

impl Xdr for Colour {
    const LAYOUT: Layout = Layout::fixed(4);
}

impl Encode for Colour {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.i32(*self as i32);
    }
}

impl<'a> Decode<'a> for Colour {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.i32()? {
            0 => Ok(Self::Red),
            -5 => Ok(Self::Green),
            2_147_483_647 => Ok(Self::Blue),
            found => Err(reader.unknown_value("colour", found)),
        }
    }
}

/// A `string<12>` of any bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Name(pub Vec<u8>);

impl Xdr for Name {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Name {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.string(&self.0, 12);
    }
}

impl<'a> Decode<'a> for Name {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self(reader.string(12)?.into()))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Blobs {
    pub fixed: [u8; 5],
    pub bounded: Vec<u8>,
    pub any: Vec<u8>,
    pub text: String,
    pub anytext: Vec<u8>,
}

impl Xdr for Blobs {
    const LAYOUT: Layout = Layout::variable(24);
}

impl Encode for Blobs {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque_fixed(&self.fixed, 5);
        writer.opaque(&self.bounded, 6);
        writer.opaque(&self.any, UNBOUNDED);
        writer.string(&self.text, 7);
        writer.string(&self.anytext, UNBOUNDED);
    }
}

impl<'a> Decode<'a> for Blobs {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            fixed: *reader.opaque_fixed()?,
            bounded: reader.opaque(6)?.into(),
            any: reader.opaque(UNBOUNDED)?.into(),
            text: reader.text(7)?.into(),
            anytext: reader.string(UNBOUNDED)?.into(),
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Arrays {
    pub fixed: [i32; 3],
    pub pair: Vec<Stamp>,
    pub bounded: Vec<i32>,
    pub any: Vec<Stamp>,
    pub colours: Vec<Colour>,
    pub chars: Vec<u8>,
}

impl Xdr for Arrays {
    const LAYOUT: Layout = Layout::variable(44);
}

impl Encode for Arrays {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.fixed);
        writer.array(&self.pair, 2);
        writer.sequence(&self.bounded, 4);
        writer.value(&self.any);
        writer.value(&self.colours);
        writer.sequence(&self.chars, 5);
    }
}

impl<'a> Decode<'a> for Arrays {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            fixed: reader.value()?,
            pair: reader.array(2)?,
            bounded: reader.sequence(4)?,
            any: reader.value()?,
            colours: reader.value()?,
            chars: reader.sequence(5)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    Red(Stamp),
    Green(Name),
    Blue,
}

impl Xdr for Entry {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Entry {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Red(changed) => {
                writer.value(&Colour::Red);
                writer.value(changed);
            }
            Self::Green(target) => {
                writer.value(&Colour::Green);
                writer.value(target);
            }
            Self::Blue => writer.value(&Colour::Blue),
        }
    }
}

impl<'a> Decode<'a> for Entry {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.value()? {
            Colour::Red => reader.value().map(Self::Red),
            Colour::Green => reader.value().map(Self::Green),
            Colour::Blue => Ok(Self::Blue),
        }
    }
}

/// Its default arm has any discriminant but 0, 1 and 2.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    Value(i64),
    One(Entry),
    Two(Entry),
    Other(i32),
}

impl Xdr for Status {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Status {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Value(value) => {
                writer.i32(0);
                writer.value(value);
            }
            Self::One(entry) => {
                writer.i32(1);
                writer.value(entry);
            }
            Self::Two(entry) => {
                writer.i32(2);
                writer.value(entry);
            }
            Self::Other(code @ 0..=2) => writer.fail_arm("status", *code),
            Self::Other(code) => writer.i32(*code),
        }
    }
}

impl<'a> Decode<'a> for Status {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        match reader.i32()? {
            0 => reader.value().map(Self::Value),
            1 => reader.value().map(Self::One),
            2 => reader.value().map(Self::Two),
            code => Ok(Self::Other(code)),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Perhaps(pub Option<Vec<u8>>);

impl Xdr for Perhaps {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Perhaps {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.0.is_some());
        if let Some(handle) = &self.0 {
            writer.opaque(handle, 64);
        }
    }
}

impl<'a> Decode<'a> for Perhaps {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self(match reader.value()? {
            true => Some(reader.opaque(64)?.into()),
            false => None,
        }))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct All {
    pub numbers: Numbers,
    pub maybe: Perhaps,
    pub list: Nodes,
    pub tree: Option<Box<Tree>>,
    pub stamp: Option<Stamp>,
    pub results: Vec<Status>,
}

impl Xdr for All {
    const LAYOUT: Layout = Layout::variable(60);
}

impl Encode for All {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.numbers);
        writer.value(&self.maybe);
        writer.value(&self.list);
        writer.value(&self.tree);
        writer.value(&self.stamp);
        writer.sequence(&self.results, 3);
    }
}

impl<'a> Decode<'a> for All {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            numbers: reader.value()?,
            maybe: reader.value()?,
            list: reader.value()?,
            tree: reader.value()?,
            stamp: reader.value()?,
            results: reader.sequence(3)?,
        })
    }
}
