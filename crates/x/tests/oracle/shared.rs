//! A trait and its types, of which the printed interface file is compared with this code. The test reads this text, too.

pub(crate) const KEY_LEN: usize = 5;

#[derive(stoop::Data, stoop::Xdr)]
pub(crate) enum Colour {
    Red = 1,
    Green,
    Blue = -5,
}

#[derive(stoop::Data, stoop::Xdr)]
pub(crate) struct Scalars {
    yes: bool,
    i8: i8,
    u8: u8,
    i16: i16,
    u16: u16,
    i32: i32,
    u32: u32,
    i64: i64,
    u64: u64,
    f32: f32,
    f64: f64,
}

#[derive(stoop::Data, stoop::Xdr)]
pub(crate) struct Pair(i32, u64);

#[derive(stoop::Data, stoop::Xdr)]
pub(crate) struct Entry {
    #[xdr(max = 255)]
    name: String,
    key: [u8; KEY_LEN],
    default: Vec<u8>,
    #[xdr(max = 4)]
    few: Vec<u8>,
    #[xdr(chars)]
    letters: Vec<u8>,
    numbers: [u32; 3],
    parent: Option<Box<Entry>>,
    others: Vec<Entry>,
    texts: Vec<String>,
    colour: Option<Colour>,
    pair: Pair,
}

#[derive(stoop::Data, stoop::Xdr)]
pub(crate) enum Shape {
    Nothing,
    Dot(i64),
    Line { from: f64, to: f64 },
    Group(Vec<Shape>),
    Named(#[xdr(max = 7)] String),
}

#[derive(stoop::Data, stoop::Xdr)]
pub(crate) struct Linked {
    value: i32,
    next: Option<Box<Linked>>,
}

#[derive(stoop::Data, stoop::Xdr)]
pub(crate) struct List {
    first: Option<Box<Linked>>,
    #[xdr(max = 3)]
    pairs: Vec<Pair>,
}

#[stoop::interface(program = 0x2000_0043, version = 2)]
pub(crate) trait Shared {
    fn get(&self, name: &str, maybe: Option<&Entry>) -> Result<Entry, Colour>;
    fn put(&self, scalars: &Scalars, shapes: &[Shape], list: &List);
}
