// @generated from everything.x by stoop-x: change that file instead.
//
// Everything that the language has: a title, which is not about the first definition.
//
// How long a name may be.

use stoop_xdr::{Chain, Decode, DecodeError, Encode, Layout, Reader, UNBOUNDED, Writer, Xdr};

/// How long a name may be.
pub const NAME_MAX: u32 = 255;
/// `const MASK = 0x00ff`
pub const MASK: u32 = 0x00ff;
/// `const LARGE = 0xFFFFFFFFFFFFFFFF`
pub const LARGE: u64 = 0xffffffffffffffff;
/// below zero
pub const NEGATIVE: i32 = -7;
/// `const GREETING = "hello, \"world\""`
pub const GREETING: &str = "hello, \"world\"";
/// `const MODE = 0644`
pub const MODE: u32 = 0o644;
/// `const DOUBLE_MAX = (NAME_MAX + 1) *2`
pub const DOUBLE_MAX: u32 = 512;

/// `enum colour`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Colour {
    /// like blood
    Red = 1,
    /// like grass
    Green = 2,
    /// `BLUE = 0x10`
    Blue = 16,
}

impl Colour {
    /// The colour of the sky,
    /// another name of blue.
    pub const AZURE: Self = Self::Blue;
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
            2 => Ok(Self::Green),
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

/// `typedef string name<NAME_MAX>`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

/// `typedef opaque handle[32]`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub [u8; 32]);

impl From<[u8; 32]> for Handle {
    fn from(value: [u8; 32]) -> Self {
        Self(value)
    }
}

impl Xdr for Handle {
    const LAYOUT: Layout = Layout::opaque(32);
}

impl Encode for Handle {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque_fixed(&self.0, 32);
    }
}

impl Decode<'_> for Handle {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(*reader.opaque_fixed()?))
    }
}

/// `typedef opaque data<>`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Data(pub Vec<u8>);

impl From<Vec<u8>> for Data {
    fn from(value: Vec<u8>) -> Self {
        Self(value)
    }
}

impl Xdr for Data {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Data {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(&self.0, UNBOUNDED);
    }
}

impl Decode<'_> for Data {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.opaque(UNBOUNDED)?.to_vec()))
    }
}

/// `typedef unsigned hyper offset`
pub type Offset = u64;

/// `typedef int triangle[3]`
pub type Triangle = [i32; 3];

/// `typedef name names<>`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Names(pub Vec<Name>);

impl From<Vec<Name>> for Names {
    fn from(value: Vec<Name>) -> Self {
        Self(value)
    }
}

impl Xdr for Names {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Names {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.sequence(&self.0, UNBOUNDED);
    }
}

impl Decode<'_> for Names {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.sequence(UNBOUNDED)?))
    }
}

/// `typedef char letters[4]`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Letters(pub [i8; 4]);

impl From<[i8; 4]> for Letters {
    fn from(value: [i8; 4]) -> Self {
        Self(value)
    }
}

impl Xdr for Letters {
    const LAYOUT: Layout = i8::LAYOUT.array(4);
}

impl Encode for Letters {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.array(&self.0, 4);
    }
}

impl Decode<'_> for Letters {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.array_of()?))
    }
}

/// `typedef short heights<8>`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Heights(pub Vec<i16>);

impl From<Vec<i16>> for Heights {
    fn from(value: Vec<i16>) -> Self {
        Self(value)
    }
}

impl Xdr for Heights {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Heights {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.sequence(&self.0, 8);
    }
}

impl Decode<'_> for Heights {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.sequence(8)?))
    }
}

/// All kinds of fields.
///
/// Look at \<https://www.rfc-editor.org/rfc/rfc4506\> for what they mean.
#[derive(Clone, Debug, PartialEq)]
pub struct Everything {
    /// `int i`
    pub i: i32,
    /// `unsigned u`
    pub u: u32,
    /// `unsigned int ui`
    pub ui: u32,
    /// `long l`
    pub l: i32,
    /// `unsigned long int ul`
    pub ul: u32,
    /// `short s`
    pub s: i16,
    /// `unsigned short us`
    pub us: u16,
    /// `char c`
    pub c: i8,
    /// `unsigned char uc`
    pub uc: u8,
    /// `hyper h`
    pub h: i64,
    /// `unsigned hyper uh`
    pub uh: u64,
    /// `float f`
    pub f: f32,
    /// `double d`
    pub d: f64,
    /// `quadruple q`
    pub q: stoop_xdr::Quadruple,
    /// `bool b`
    pub b: bool,
    /// `bool_t b2`
    pub b2: bool,
    /// `uint64_t c64`
    pub c64: u64,
    /// `u_int old`
    pub old: u32,
    /// `colour hue`
    pub hue: Colour,
    /// `struct point at`
    pub at: Point,
    /// `handle whole`
    pub whole: Handle,
    /// `opaque cookie[8]`
    pub cookie: [u8; 8],
    /// `opaque long_cookie[4096]`
    pub long_cookie: Vec<u8>,
    /// `opaque body<100>`
    pub body: Vec<u8>,
    /// `string title<>`
    pub title: String,
    /// `string first_name<NAME_MAX>`
    pub first_name: String,
    /// `int numbers[3]`
    pub numbers: [i32; 3],
    /// `int many[2000]`
    pub many: Vec<i32>,
    /// `hyper some<DOUBLE_MAX>`
    pub some: Vec<i64>,
    /// `point polygon<>`
    pub polygon: Vec<Point>,
    /// `point *maybe`
    pub maybe: Option<Point>,
    /// `triangle corner`
    pub corner: Triangle,
    /// `letters abc`
    pub abc: Letters,
    /// `char more_letters<5>`
    pub more_letters: Vec<i8>,
    /// names that Rust has for itself
    pub r#type: i32,
    /// `int self`
    pub self_: i32,
    /// `int match`
    pub r#match: i32,
    /// `int gen`
    pub r#gen: i32,
    /// `int Self`
    pub self__: i32,
    /// `int super`
    pub super_: i32,
    /// `int crate`
    pub crate_: i32,
    /// `int try`
    pub r#try: i32,
    /// `int async`
    pub r#async: i32,
    /// `int dyn`
    pub r#dyn: i32,
}

impl Xdr for Everything {
    const LAYOUT: Layout = Layout::record(
        &[
            i32::LAYOUT,
            u32::LAYOUT,
            u32::LAYOUT,
            i32::LAYOUT,
            u32::LAYOUT,
            i16::LAYOUT,
            u16::LAYOUT,
            i8::LAYOUT,
            u8::LAYOUT,
            i64::LAYOUT,
            u64::LAYOUT,
            f32::LAYOUT,
            f64::LAYOUT,
            stoop_xdr::Quadruple::LAYOUT,
            bool::LAYOUT,
            bool::LAYOUT,
            u64::LAYOUT,
            u32::LAYOUT,
            Colour::LAYOUT,
            Point::LAYOUT,
            Handle::LAYOUT,
            Layout::opaque(8),
            Layout::opaque(4096),
            Layout::variable(4),
            Layout::variable(4),
            Layout::variable(4),
            i32::LAYOUT.array(3),
            i32::LAYOUT.array(2000),
            Layout::variable(4),
            Layout::variable(4),
            Layout::variable(4),
            Triangle::LAYOUT,
            Letters::LAYOUT,
            Layout::variable(4),
            i32::LAYOUT,
            i32::LAYOUT,
            i32::LAYOUT,
            i32::LAYOUT,
            i32::LAYOUT,
            i32::LAYOUT,
            i32::LAYOUT,
            i32::LAYOUT,
            i32::LAYOUT,
            i32::LAYOUT,
        ],
    );
}

impl Encode for Everything {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.i);
        writer.value(&self.u);
        writer.value(&self.ui);
        writer.value(&self.l);
        writer.value(&self.ul);
        writer.value(&self.s);
        writer.value(&self.us);
        writer.value(&self.c);
        writer.value(&self.uc);
        writer.value(&self.h);
        writer.value(&self.uh);
        writer.value(&self.f);
        writer.value(&self.d);
        writer.value(&self.q);
        writer.value(&self.b);
        writer.value(&self.b2);
        writer.value(&self.c64);
        writer.value(&self.old);
        writer.value(&self.hue);
        writer.value(&self.at);
        writer.value(&self.whole);
        writer.opaque_fixed(&self.cookie, 8);
        writer.opaque_fixed(&self.long_cookie, 4096);
        writer.opaque(&self.body, 100);
        writer.string(&self.title, UNBOUNDED);
        writer.string(&self.first_name, NAME_MAX as usize);
        writer.value(&self.numbers);
        writer.array(&self.many, 2000);
        writer.sequence(&self.some, DOUBLE_MAX as usize);
        writer.sequence(&self.polygon, UNBOUNDED);
        writer.value(&self.maybe);
        writer.value(&self.corner);
        writer.value(&self.abc);
        writer.sequence(&self.more_letters, 5);
        writer.value(&self.r#type);
        writer.value(&self.self_);
        writer.value(&self.r#match);
        writer.value(&self.r#gen);
        writer.value(&self.self__);
        writer.value(&self.super_);
        writer.value(&self.crate_);
        writer.value(&self.r#try);
        writer.value(&self.r#async);
        writer.value(&self.r#dyn);
    }
}

impl Decode<'_> for Everything {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            i: reader.value()?,
            u: reader.value()?,
            ui: reader.value()?,
            l: reader.value()?,
            ul: reader.value()?,
            s: reader.value()?,
            us: reader.value()?,
            c: reader.value()?,
            uc: reader.value()?,
            h: reader.value()?,
            uh: reader.value()?,
            f: reader.value()?,
            d: reader.value()?,
            q: reader.value()?,
            b: reader.value()?,
            b2: reader.value()?,
            c64: reader.value()?,
            old: reader.value()?,
            hue: reader.value()?,
            at: reader.value()?,
            whole: reader.value()?,
            cookie: *reader.opaque_fixed()?,
            long_cookie: reader.opaque_fixed::<4096>()?.to_vec(),
            body: reader.opaque(100)?.to_vec(),
            title: reader.text(UNBOUNDED)?.to_owned(),
            first_name: reader.text(NAME_MAX as usize)?.to_owned(),
            numbers: reader.value()?,
            many: reader.array(2000)?,
            some: reader.sequence(DOUBLE_MAX as usize)?,
            polygon: reader.sequence(UNBOUNDED)?,
            maybe: reader.value()?,
            corner: reader.value()?,
            abc: reader.value()?,
            more_letters: reader.sequence(5)?,
            r#type: reader.value()?,
            self_: reader.value()?,
            r#match: reader.value()?,
            r#gen: reader.value()?,
            self__: reader.value()?,
            super_: reader.value()?,
            crate_: reader.value()?,
            r#try: reader.value()?,
            r#async: reader.value()?,
            r#dyn: reader.value()?,
        })
    }
}

/// `struct point`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// to the right
    pub x: i32,
    /// up
    pub y: i32,
}

impl Xdr for Point {
    const LAYOUT: Layout = Layout::record(&[i32::LAYOUT, i32::LAYOUT]);
}

impl Encode for Point {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.x);
        writer.value(&self.y);
    }
}

impl Decode<'_> for Point {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            x: reader.value()?,
            y: reader.value()?,
        })
    }
}

/// `struct nothing`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nothing {}

impl Xdr for Nothing {
    const LAYOUT: Layout = Layout::record(&[]);
}

impl Encode for Nothing {
    #[inline]
    fn encode(&self, _: &mut Writer<'_>) {}
}

impl Decode<'_> for Nothing {
    #[inline]
    fn decode(_: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {})
    }
}

/// A list, link by link.
///
/// A node of a linked list, without the link to the next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// `name label`
    pub label: Name,
}

impl Xdr for Node {
    const LAYOUT: Layout = Layout::record(&[Name::LAYOUT]);
}

impl Encode for Node {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.label);
    }
}

impl Decode<'_> for Node {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { label: reader.value()? })
    }
}

/// `struct tree`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tree {
    /// `int value`
    pub value: i32,
    /// `tree *left`
    pub left: Option<Box<Tree>>,
    /// `tree *right`
    pub right: Option<Box<Tree>>,
    /// `int leaves`
    pub leaves: i32,
}

impl Xdr for Tree {
    const LAYOUT: Layout = Layout::record(
        &[i32::LAYOUT, Layout::variable(4), Layout::variable(4), i32::LAYOUT],
    );
}

impl Encode for Tree {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.value);
        writer.value(&self.left);
        writer.value(&self.right);
        writer.value(&self.leaves);
    }
}

impl Decode<'_> for Tree {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            value: reader.value()?,
            left: reader.value()?,
            right: reader.value()?,
            leaves: reader.value()?,
        })
    }
}

/// `struct forest`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forest {
    /// `node *list`
    pub list: Chain<Node>,
    /// `node_list other`
    pub other: NodeList,
    /// `tree *first`
    pub first: Option<Box<Tree>>,
    /// `tree trees<>`
    pub trees: Vec<Tree>,
}

impl Xdr for Forest {
    const LAYOUT: Layout = Layout::record(
        &[
            Layout::variable(4),
            NodeList::LAYOUT,
            Layout::variable(4),
            Layout::variable(4),
        ],
    );
}

impl Encode for Forest {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.list);
        writer.value(&self.other);
        writer.value(&self.first);
        writer.sequence(&self.trees, UNBOUNDED);
    }
}

impl Decode<'_> for Forest {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            list: reader.value()?,
            other: reader.value()?,
            first: reader.value()?,
            trees: reader.sequence(UNBOUNDED)?,
        })
    }
}

/// `typedef node *node_list`
pub type NodeList = Chain<Node>;

/// Two that hold each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Husband {
    /// `wife *spouse`
    pub spouse: Option<Box<Wife>>,
    /// `int age`
    pub age: i32,
}

impl Xdr for Husband {
    const LAYOUT: Layout = Layout::record(&[Layout::variable(4), i32::LAYOUT]);
}

impl Encode for Husband {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.spouse);
        writer.value(&self.age);
    }
}

impl Decode<'_> for Husband {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            spouse: reader.value()?,
            age: reader.value()?,
        })
    }
}

/// `struct wife`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wife {
    /// `int age`
    pub age: i32,
    /// `husband *spouse`
    pub spouse: Option<Box<Husband>>,
}

impl Xdr for Wife {
    const LAYOUT: Layout = Layout::record(&[i32::LAYOUT, Layout::variable(4)]);
}

impl Encode for Wife {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.age);
        writer.value(&self.spouse);
    }
}

impl Decode<'_> for Wife {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            age: reader.value()?,
            spouse: reader.value()?,
        })
    }
}

/// `union shape`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// `case RED: point dot`
    Red(Point),
    /// a line has two ends
    Green(Vec<Point>),
    /// `default: void`
    Default(Colour),
}

impl Xdr for Shape {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Shape {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Red(content) => {
                writer.value(&Colour::Red);
                writer.value(content);
            }
            Self::Green(content) => {
                writer.value(&Colour::Green);
                writer.sequence(content, 2);
            }
            Self::Default(selector) => {
                if matches!(selector, Colour::Red | Colour::Green) {
                    writer.fail_arm("shape", *selector as i32);
                }
                writer.value(selector);
            }
        }
    }
}

impl Decode<'_> for Shape {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.value::<Colour>()? {
            Colour::Red => Ok(Self::Red(reader.value()?)),
            Colour::Green => Ok(Self::Green(reader.sequence(2)?)),
            selector => Ok(Self::Default(selector)),
        }
    }
}

/// `union result`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ResultType {
    /// `case 0: case 5: string text<>`
    Case0(String),
    /// `case 0: case 5: string text<>`
    Case5(String),
    /// what went wrong
    Default(u32, i32),
}

impl Xdr for ResultType {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for ResultType {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Case0(content) => {
                writer.value(&0u32);
                writer.string(content, UNBOUNDED);
            }
            Self::Case5(content) => {
                writer.value(&5u32);
                writer.string(content, UNBOUNDED);
            }
            Self::Default(selector, content) => {
                if matches!(selector, 0 | 5) {
                    writer.fail_arm("result", *selector);
                }
                writer.value(selector);
                writer.value(content);
            }
        }
    }
}

impl Decode<'_> for ResultType {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.value::<u32>()? {
            0 => Ok(Self::Case0(reader.text(UNBOUNDED)?.to_owned())),
            5 => Ok(Self::Case5(reader.text(UNBOUNDED)?.to_owned())),
            selector => Ok(Self::Default(selector, reader.value()?)),
        }
    }
}

/// `union signed_choice`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SignedChoice {
    /// `case -1: void`
    CaseMinus1,
    /// `case 1: hyper value`
    Case1(i64),
    /// `case 0xffff: opaque bytes[4]`
    Case65535([u8; 4]),
}

impl Xdr for SignedChoice {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for SignedChoice {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::CaseMinus1 => writer.value(&-1i32),
            Self::Case1(content) => {
                writer.value(&1i32);
                writer.value(content);
            }
            Self::Case65535(content) => {
                writer.value(&65535i32);
                writer.opaque_fixed(content, 4);
            }
        }
    }
}

impl Decode<'_> for SignedChoice {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.value::<i32>()? {
            -1 => Ok(Self::CaseMinus1),
            1 => Ok(Self::Case1(reader.value()?)),
            65535 => Ok(Self::Case65535(*reader.opaque_fixed()?)),
            selector => Err(reader.unknown_arm("signed_choice", selector)),
        }
    }
}

/// `union flag`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Flag {
    /// `case TRUE: int value`
    True(i32),
    /// `case FALSE: void`
    False,
}

impl Xdr for Flag {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Flag {
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

impl Decode<'_> for Flag {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.value::<bool>()? {
            true => Ok(Self::True(reader.value()?)),
            false => Ok(Self::False),
        }
    }
}

/// `union covered`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Covered {
    /// `case RED: case GREEN: case BLUE: void`
    Red,
    /// `case RED: case GREEN: case BLUE: void`
    Green,
    /// `case RED: case GREEN: case BLUE: void`
    Blue,
}

impl Xdr for Covered {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Covered {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Red => writer.value(&Colour::Red),
            Self::Green => writer.value(&Colour::Green),
            Self::Blue => writer.value(&Colour::Blue),
        }
    }
}

impl Decode<'_> for Covered {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.value::<Colour>()? {
            Colour::Red => Ok(Self::Red),
            Colour::Green => Ok(Self::Green),
            Colour::Blue => Ok(Self::Blue),
        }
    }
}

/// `struct nested`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nested {
    /// `union switch (int v) { case 0: void; case 1: struct { int deep; } content; } ext`
    pub ext: NestedExt,
    /// `enum { LOW, HIGH } level`
    pub level: NestedLevel,
    /// `struct { int a; } parts<4>`
    pub parts: Vec<NestedParts>,
}

impl Xdr for Nested {
    const LAYOUT: Layout = Layout::record(
        &[NestedExt::LAYOUT, NestedLevel::LAYOUT, Layout::variable(4)],
    );
}

impl Encode for Nested {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.ext);
        writer.value(&self.level);
        writer.sequence(&self.parts, 4);
    }
}

impl Decode<'_> for Nested {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            ext: reader.value()?,
            level: reader.value()?,
            parts: reader.sequence(4)?,
        })
    }
}

/// `union`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NestedExt {
    /// `case 0: void`
    Case0,
    /// `case 1: struct { int deep; } content`
    Case1(NestedExtContent),
}

impl Xdr for NestedExt {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for NestedExt {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Case0 => writer.value(&0i32),
            Self::Case1(content) => {
                writer.value(&1i32);
                writer.value(content);
            }
        }
    }
}

impl Decode<'_> for NestedExt {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.value::<i32>()? {
            0 => Ok(Self::Case0),
            1 => Ok(Self::Case1(reader.value()?)),
            selector => Err(reader.unknown_arm("nested_ext", selector)),
        }
    }
}

/// `struct`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NestedExtContent {
    /// `int deep`
    pub deep: i32,
}

impl Xdr for NestedExtContent {
    const LAYOUT: Layout = Layout::record(&[i32::LAYOUT]);
}

impl Encode for NestedExtContent {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.deep);
    }
}

impl Decode<'_> for NestedExtContent {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { deep: reader.value()? })
    }
}

/// `enum`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum NestedLevel {
    /// `LOW`
    Low = 0,
    /// `HIGH`
    High = 1,
}

impl From<NestedLevel> for i32 {
    fn from(value: NestedLevel) -> i32 {
        value as i32
    }
}

impl TryFrom<i32> for NestedLevel {
    type Error = i32;

    fn try_from(number: i32) -> Result<Self, i32> {
        match number {
            0 => Ok(Self::Low),
            1 => Ok(Self::High),
            other => Err(other),
        }
    }
}

impl Xdr for NestedLevel {
    const LAYOUT: Layout = Layout::fixed(4);
}

impl Encode for NestedLevel {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.i32(*self as i32);
    }
}

impl Decode<'_> for NestedLevel {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.i32()?;
        Self::try_from(number)
            .map_err(|number| reader.unknown_value("nested_level", number))
    }
}

/// `struct`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NestedParts {
    /// `int a`
    pub a: i32,
}

impl Xdr for NestedParts {
    const LAYOUT: Layout = Layout::record(&[i32::LAYOUT]);
}

impl Encode for NestedParts {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.a);
    }
}

impl Decode<'_> for NestedParts {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { a: reader.value()? })
    }
}

/// `struct`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Wrapped {
    /// `int only`
    pub only: i32,
}

impl Xdr for Wrapped {
    const LAYOUT: Layout = Layout::record(&[i32::LAYOUT]);
}

impl Encode for Wrapped {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.only);
    }
}

impl Decode<'_> for Wrapped {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { only: reader.value()? })
    }
}

/// `program EVERYPROG`
pub const EVERYPROG: u32 = 536870913;
/// `version EVERYVERS_1`
pub const EVERYVERS_1: u32 = 1;
/// The number of `EVERY_NULL`.
pub const EVERY_NULL: u32 = 0;
/// The number of `EVERY_ADD`.
pub const EVERY_ADD: u32 = 1;
/// The number of `EVERY_NAME`.
pub const EVERY_NAME: u32 = 2;
/// The number of `EVERY_LOOKUP`.
pub const EVERY_LOOKUP: u32 = 3;

/// The procedures of version `EVERYVERS_1`, as a server implements them.
pub trait Everyvers1 {
    /// `void EVERY_NULL(void) = 0`
    fn every_null(&self);

    /// Adds two numbers.
    ///
    /// `int EVERY_ADD(int left, int right) = 1`
    fn every_add(&self, left: i32, right: i32) -> i32;

    /// `string EVERY_NAME(string) = 2`
    fn every_name(&self, arg1: &str) -> String;

    /// `name EVERY_LOOKUP(handle, name<>) = 3`
    fn every_lookup(&self, arg1: &Handle, arg2: &[Name]) -> Name;
}

/// A call of version `EVERYVERS_1`, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Everyvers1Call {
    /// `void EVERY_NULL(void) = 0`
    EveryNull,
    /// `int EVERY_ADD(int left, int right) = 1`
    EveryAdd(i32, i32),
    /// `string EVERY_NAME(string) = 2`
    EveryName(String),
    /// `name EVERY_LOOKUP(handle, name<>) = 3`
    EveryLookup(Handle, Vec<Name>),
}

impl Everyvers1Call {
    /// The number of the program.
    pub const PROGRAM: u32 = EVERYPROG;
    /// The number of the version.
    pub const VERSION: u32 = EVERYVERS_1;

    /// The number of the procedure.
    pub fn procedure(&self) -> u32 {
        match self {
            Self::EveryNull => EVERY_NULL,
            Self::EveryAdd(..) => EVERY_ADD,
            Self::EveryName(..) => EVERY_NAME,
            Self::EveryLookup(..) => EVERY_LOOKUP,
        }
    }

    /// Writes the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::EveryNull => {}
            Self::EveryAdd(left, right) => {
                writer.value(left);
                writer.value(right);
            }
            Self::EveryName(arg1) => {
                writer.string(arg1, UNBOUNDED);
            }
            Self::EveryLookup(arg1, arg2) => {
                writer.value(arg1);
                writer.sequence(arg2, UNBOUNDED);
            }
        }
    }

    /// Reads the arguments of a call; `None` if the version has no procedure of this number.
    pub fn decode(
        procedure: u32,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Self>, DecodeError> {
        let call = match procedure {
            EVERY_NULL => Self::EveryNull,
            EVERY_ADD => Self::EveryAdd(reader.value()?, reader.value()?),
            EVERY_NAME => Self::EveryName(reader.text(UNBOUNDED)?.to_owned()),
            EVERY_LOOKUP => {
                Self::EveryLookup(reader.value()?, reader.sequence(UNBOUNDED)?)
            }
            _ => return Ok(None),
        };
        Ok(Some(call))
    }

    /// Runs the procedure.
    pub fn run(&self, server: &impl Everyvers1) -> Everyvers1Results {
        match self {
            Self::EveryNull => {
                server.every_null();
                Everyvers1Results::EveryNull
            }
            Self::EveryAdd(left, right) => {
                Everyvers1Results::EveryAdd(server.every_add(*left, *right))
            }
            Self::EveryName(arg1) => {
                Everyvers1Results::EveryName(server.every_name(arg1))
            }
            Self::EveryLookup(arg1, arg2) => {
                Everyvers1Results::EveryLookup(server.every_lookup(arg1, arg2))
            }
        }
    }
}

/// What a procedure of version `EVERYVERS_1` returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Everyvers1Results {
    /// The result of `EVERY_NULL`.
    EveryNull,
    /// The result of `EVERY_ADD`.
    EveryAdd(i32),
    /// The result of `EVERY_NAME`.
    EveryName(String),
    /// The result of `EVERY_LOOKUP`.
    EveryLookup(Name),
}

impl Everyvers1Results {
    /// Writes the result.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::EveryNull => {}
            Self::EveryAdd(result) => writer.value(result),
            Self::EveryName(result) => writer.string(result, UNBOUNDED),
            Self::EveryLookup(result) => writer.value(result),
        }
    }

    /// Reads the result of a call of this procedure; `None` if the version has none of this number.
    pub fn decode(
        procedure: u32,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Self>, DecodeError> {
        let results = match procedure {
            EVERY_NULL => Self::EveryNull,
            EVERY_ADD => Self::EveryAdd(reader.value()?),
            EVERY_NAME => Self::EveryName(reader.text(UNBOUNDED)?.to_owned()),
            EVERY_LOOKUP => Self::EveryLookup(reader.value()?),
            _ => return Ok(None),
        };
        Ok(Some(results))
    }
}

/// `version EVERYVERS_2`
pub const EVERYVERS_2: u32 = 2;
/// The number of `EVERY_LIST`.
pub const EVERY_LIST: u32 = 4;
/// The number of `EVERY_ADD`.
pub const EVERY_ADD_VALUE: u32 = 9;
/// The number of `gen`.
pub const GEN: u32 = 10;

/// The procedures of version `EVERYVERS_2`, as a server implements them.
pub trait Everyvers2 {
    /// `void EVERY_NULL() = 0`
    fn every_null(&self);

    /// `node_list EVERY_LIST(struct point *start) = 4`
    fn every_list(&self, start: &Option<Point>) -> NodeList;

    /// `colour EVERY_ADD(colour) = 9`
    fn every_add(&self, arg1: Colour) -> Colour;

    /// Names that Rust and the emitted code have for themselves.
    ///
    /// `int gen(int gen, int self, int writer, int reader, int server, int results) = 10`
    fn r#gen(
        &self,
        r#gen: i32,
        self_: i32,
        writer_: i32,
        reader: i32,
        server_: i32,
        results: i32,
    ) -> i32;
}

/// A call of version `EVERYVERS_2`, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Everyvers2Call {
    /// `void EVERY_NULL() = 0`
    EveryNull,
    /// `node_list EVERY_LIST(struct point *start) = 4`
    EveryList(Option<Point>),
    /// `colour EVERY_ADD(colour) = 9`
    EveryAdd(Colour),
    /// `int gen(int gen, int self, int writer, int reader, int server, int results) = 10`
    Gen(i32, i32, i32, i32, i32, i32),
}

impl Everyvers2Call {
    /// The number of the program.
    pub const PROGRAM: u32 = EVERYPROG;
    /// The number of the version.
    pub const VERSION: u32 = EVERYVERS_2;

    /// The number of the procedure.
    pub fn procedure(&self) -> u32 {
        match self {
            Self::EveryNull => EVERY_NULL,
            Self::EveryList(..) => EVERY_LIST,
            Self::EveryAdd(..) => EVERY_ADD_VALUE,
            Self::Gen(..) => GEN,
        }
    }

    /// Writes the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::EveryNull => {}
            Self::EveryList(start) => {
                writer.value(start);
            }
            Self::EveryAdd(arg1) => {
                writer.value(arg1);
            }
            Self::Gen(r#gen, self_, writer_, reader, server_, results) => {
                writer.value(r#gen);
                writer.value(self_);
                writer.value(writer_);
                writer.value(reader);
                writer.value(server_);
                writer.value(results);
            }
        }
    }

    /// Reads the arguments of a call; `None` if the version has no procedure of this number.
    pub fn decode(
        procedure: u32,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Self>, DecodeError> {
        let call = match procedure {
            EVERY_NULL => Self::EveryNull,
            EVERY_LIST => Self::EveryList(reader.value()?),
            EVERY_ADD_VALUE => Self::EveryAdd(reader.value()?),
            GEN => {
                Self::Gen(
                    reader.value()?,
                    reader.value()?,
                    reader.value()?,
                    reader.value()?,
                    reader.value()?,
                    reader.value()?,
                )
            }
            _ => return Ok(None),
        };
        Ok(Some(call))
    }

    /// Runs the procedure.
    pub fn run(&self, server: &impl Everyvers2) -> Everyvers2Results {
        match self {
            Self::EveryNull => {
                server.every_null();
                Everyvers2Results::EveryNull
            }
            Self::EveryList(start) => {
                Everyvers2Results::EveryList(server.every_list(start))
            }
            Self::EveryAdd(arg1) => Everyvers2Results::EveryAdd(server.every_add(*arg1)),
            Self::Gen(r#gen, self_, writer_, reader, server_, results) => {
                Everyvers2Results::Gen(
                    server.r#gen(*r#gen, *self_, *writer_, *reader, *server_, *results),
                )
            }
        }
    }
}

/// What a procedure of version `EVERYVERS_2` returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Everyvers2Results {
    /// The result of `EVERY_NULL`.
    EveryNull,
    /// The result of `EVERY_LIST`.
    EveryList(NodeList),
    /// The result of `EVERY_ADD`.
    EveryAdd(Colour),
    /// The result of `gen`.
    Gen(i32),
}

impl Everyvers2Results {
    /// Writes the result.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::EveryNull => {}
            Self::EveryList(result) => writer.value(result),
            Self::EveryAdd(result) => writer.value(result),
            Self::Gen(result) => writer.value(result),
        }
    }

    /// Reads the result of a call of this procedure; `None` if the version has none of this number.
    pub fn decode(
        procedure: u32,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Self>, DecodeError> {
        let results = match procedure {
            EVERY_NULL => Self::EveryNull,
            EVERY_LIST => Self::EveryList(reader.value()?),
            EVERY_ADD_VALUE => Self::EveryAdd(reader.value()?),
            GEN => Self::Gen(reader.value()?),
            _ => return Ok(None),
        };
        Ok(Some(results))
    }
}

/// `program OTHERPROG`
pub const OTHERPROG: u32 = 536870914;
/// `version OTHERVERS`
pub const OTHERVERS: u32 = 1;
/// The number of `OTHER`.
pub const OTHER: u32 = 1;

/// The procedures of version `OTHERVERS`, as a server implements them.
pub trait Othervers {
    /// `netobj OTHER(netbuf) = 1`
    fn other(&self, arg1: &Netbuf) -> Netobj;
}

/// A call of version `OTHERVERS`, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OtherversCall {
    /// `netobj OTHER(netbuf) = 1`
    Other(Netbuf),
}

impl OtherversCall {
    /// The number of the program.
    pub const PROGRAM: u32 = OTHERPROG;
    /// The number of the version.
    pub const VERSION: u32 = OTHERVERS;

    /// The number of the procedure.
    pub fn procedure(&self) -> u32 {
        match self {
            Self::Other(..) => OTHER,
        }
    }

    /// Writes the arguments.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Other(arg1) => {
                writer.value(arg1);
            }
        }
    }

    /// Reads the arguments of a call; `None` if the version has no procedure of this number.
    pub fn decode(
        procedure: u32,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Self>, DecodeError> {
        let call = match procedure {
            OTHER => Self::Other(reader.value()?),
            _ => return Ok(None),
        };
        Ok(Some(call))
    }

    /// Runs the procedure.
    pub fn run(&self, server: &impl Othervers) -> OtherversResults {
        match self {
            Self::Other(arg1) => OtherversResults::Other(server.other(arg1)),
        }
    }
}

/// What a procedure of version `OTHERVERS` returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OtherversResults {
    /// The result of `OTHER`.
    Other(Netobj),
}

impl OtherversResults {
    /// Writes the result.
    pub fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Other(result) => writer.value(result),
        }
    }

    /// Reads the result of a call of this procedure; `None` if the version has none of this number.
    pub fn decode(
        procedure: u32,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Self>, DecodeError> {
        let results = match procedure {
            OTHER => Self::Other(reader.value()?),
            _ => return Ok(None),
        };
        Ok(Some(results))
    }
}

/// An object of any kind: a ticket, a public key.
///
/// `typedef opaque netobj<1024>`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Netobj(pub Vec<u8>);

impl From<Vec<u8>> for Netobj {
    fn from(value: Vec<u8>) -> Self {
        Self(value)
    }
}

impl Xdr for Netobj {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Netobj {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.opaque(&self.0, 1024);
    }
}

impl Decode<'_> for Netobj {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.opaque(1024)?.to_vec()))
    }
}

/// A transport address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Netbuf {
    /// the length of the buffer that holds it
    pub maxlen: u32,
    /// the address
    pub buf: Vec<u8>,
}

impl Xdr for Netbuf {
    const LAYOUT: Layout = Layout::record(&[u32::LAYOUT, Layout::variable(4)]);
}

impl Encode for Netbuf {
    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.maxlen);
        writer.opaque(&self.buf, UNBOUNDED);
    }
}

impl Decode<'_> for Netbuf {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            maxlen: reader.value()?,
            buf: reader.opaque(UNBOUNDED)?.to_vec(),
        })
    }
}
