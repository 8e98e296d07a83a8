//! Types that cannot derive `Data`.

use std::sync::Arc;

#[derive(stoop::Data)]
union Either {
    a: u8,
    b: i8,
}

#[derive(stoop::Data)]
struct Borrowed<'a> {
    text: &'a str,
    count: u32,
}

#[derive(stoop::Data)]
struct Pointers {
    at: *mut u8,
    callback: fn(),
    any: Box<dyn Send>,
}

#[derive(stoop::Data)]
struct Options {
    #[stoop(skip)]
    count: u32,
}

#[derive(stoop::Data)]
#[stoop(evolving)]
struct TypeOptions {
    count: u32,
}

#[derive(stoop::Data)]
struct Shares {
    #[stoop(shared)]
    count: Box<u32>,
}

#[derive(stoop::Data)]
struct Contains {
    #[stoop(shared)]
    node: Arc<u32>,
    mutex: std::sync::Mutex<u32>,
}

fn main() {}
