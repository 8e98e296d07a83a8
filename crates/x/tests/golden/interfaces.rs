// @generated from interfaces.x by stoop-x: change that file instead.
//
// A version of a program as an interface with stubs.

use stoop::xdr::{Chain, Decode, DecodeError, Encode, Layout, Reader, Writer, Xdr};

/// `const NAME_MAX = 255`
pub const NAME_MAX: u32 = 255;

/// `typedef string name<NAME_MAX>`
#[derive(Clone, Debug, PartialEq, Eq, Hash, stoop::Data)]
pub struct Name(pub String);

impl From<String> for Name {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl From<&str> for Name {
    fn from(value: &str) -> Self {
        Self(value.to_owned())
    }
}

impl Xdr for Name {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Name {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.string(&self.0, NAME_MAX as usize);
    }
}

impl Decode<'_> for Name {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.text(NAME_MAX as usize)?.to_owned()))
    }
}

/// `typedef unsigned char letter`
pub type Letter = u8;

/// `enum colour`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, stoop::Data)]
#[repr(i32)]
pub enum Colour {
    /// `RED = 1`
    Red = 1,
    /// `BLUE = 0x10`
    Blue = 16,
}

impl From<Colour> for i32 {
    fn from(value: Colour) -> i32 {
        value as i32
    }
}

impl TryFrom<i32> for Colour {
    type Error = i32;

    fn try_from(number: i32) -> Result<Self, i32> {
        match number {
            1 => Ok(Self::Red),
            16 => Ok(Self::Blue),
            other => Err(other),
        }
    }
}

impl Xdr for Colour {
    const LAYOUT: Layout = Layout::fixed(4);
}

impl Encode for Colour {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.i32(*self as i32);
    }
}

impl Decode<'_> for Colour {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.i32()?;
        Self::try_from(number).map_err(|number| reader.unknown_value("colour", number))
    }
}

/// `struct node`
///
/// A node of a linked list, without the link to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash, stoop::Data)]
pub struct Node {
    /// `name label`
    pub label: Name,
    /// `quadruple weight`
    pub weight: stoop::xdr::Quadruple,
}

impl Xdr for Node {
    const LAYOUT: Layout = Layout::record(
        &[Name::LAYOUT, stoop::xdr::Quadruple::LAYOUT],
    );
}

impl Encode for Node {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.label);
        writer.value(&self.weight);
    }
}

impl Decode<'_> for Node {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            label: reader.value()?,
            weight: reader.value()?,
        })
    }
}

/// `typedef node *list`
pub type List = Chain<Node>;

/// `union found`
#[derive(Clone, Debug, PartialEq, Eq, Hash, stoop::Data)]
pub enum Found {
    /// `case 0: list nodes`
    Case0(List),
    /// `default: colour hue`
    Default(i32, Colour),
}

impl Xdr for Found {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Found {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Case0(content) => {
                writer.value(&0i32);
                writer.value(content);
            }
            Self::Default(selector, content) => {
                if matches!(selector, 0) {
                    writer.fail_arm("found", *selector);
                }
                writer.value(selector);
                writer.value(content);
            }
        }
    }
}

impl Decode<'_> for Found {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.value::<i32>()? {
            0 => Ok(Self::Case0(reader.value()?)),
            selector => Ok(Self::Default(selector, reader.value()?)),
        }
    }
}

/// Finds things.
pub const FINDPROG: u32 = 536870915;
/// `version FINDVERS`
pub const FINDVERS: u32 = 2;
/// The number of `NULLPROC`.
pub const NULLPROC: u32 = 0;
/// The number of `LOOK`.
pub const LOOK: u32 = 1;
/// The number of `bind`.
pub const BIND: u32 = 3;
/// The number of `DATA`.
pub const DATA: u32 = 4;

/// The procedures of version `FINDVERS`, as a client calls them. A server implements those that it has (others: PROC_UNAVAIL).
#[allow(unused_variables)]
#[stoop::interface(program = FINDPROG, version = FINDVERS)]
pub trait FindversInterface {
    /// `void NULLPROC(void) = 0`
    #[procedure(NULLPROC)]
    fn nullproc(&self) {
        stoop::onc::unavailable()
    }

    /// Looks for a name.
    ///
    /// `found LOOK(name, string<NAME_MAX>, opaque key<16>) = 1`
    #[procedure(LOOK)]
    fn look(
        &self,
        arg1: &Name,
        #[xdr(max = NAME_MAX)]
        arg2: &str,
        #[xdr(max = 16)]
        key: &[u8],
    ) -> Found {
        stoop::onc::unavailable()
    }

    /// `colour bind(colour c, struct node *start, letter<>, unsigned char<4>, hyper) = 3`
    #[procedure(BIND)]
    fn bind_(
        &self,
        c: Colour,
        start: &Chain<Node>,
        arg3: &[Letter],
        #[xdr(max = 4, chars)]
        arg4: &[u8],
        arg5: i64,
    ) -> Colour {
        stoop::onc::unavailable()
    }

    /// `list DATA(opaque block[2000], unsigned char few[3]) = 4`
    #[procedure(DATA)]
    fn data(&self, block: &[u8; 2000], #[xdr(chars)] few: &[u8; 3]) -> List {
        stoop::onc::unavailable()
    }
}

/// `struct findvers_client`
#[derive(Clone, Debug, PartialEq, Eq, Hash, stoop::Data)]
pub struct FindversClient {
    /// `int x`
    pub x: i32,
}

impl Xdr for FindversClient {
    const LAYOUT: Layout = Layout::record(&[i32::LAYOUT]);
}

impl Encode for FindversClient {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.x);
    }
}

impl Decode<'_> for FindversClient {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { x: reader.value()? })
    }
}
