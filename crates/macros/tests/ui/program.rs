//! What Sun RPC has no counterpart of.

use std::collections::BTreeMap;

#[stoop::interface(program = 0x2000_0001, version = 1)]
pub trait Types {
    fn wide(&self, number: u128) -> usize;
    fn maps(&self, map: &BTreeMap<u32, String>) -> (u32, u32);
    fn room(&self, #[out] data: &mut [u8]);
    fn buffer(&self, data: &stoop::InPlace<u8>);
    #[one_way]
    fn log(&self, line: &str);
    fn bound(&self, #[xdr(max = 7)] number: u32);
    fn unknown(&self, #[xdr(longest = 7)] text: &str);
    #[xdr(max = 7)]
    fn nothing(&self);
}

#[stoop::interface(program = 0x2000_0001, version = 1)]
pub trait Numbers {
    fn first(&self);
    #[procedure(1)]
    fn second(&self);
    #[procedure("three")]
    fn third(&self);
}

#[stoop::interface(program = 0x2000_0001)]
pub trait NoVersion {}

#[stoop::interface(version = 1)]
pub trait NoProgram {}

#[stoop::interface]
pub trait Native {
    #[procedure(1)]
    fn first(&self, #[xdr(max = 7)] text: &str);
}

#[derive(stoop::Xdr)]
pub enum Twice {
    One = 1,
    Uno = 1,
    Far = 5_000_000_000,
}

#[derive(stoop::Xdr)]
pub struct Borrowed<'a> {
    text: &'a str,
}

#[derive(stoop::Xdr)]
pub struct Unknown {
    at: std::time::Instant,
}

fn main() {}
