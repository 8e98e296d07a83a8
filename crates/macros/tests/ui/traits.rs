//! Traits that cannot be interfaces.

#[stoop::interface]
trait Parameters<T> {
    fn get(&self) -> u8;
}

#[stoop::interface]
trait Bound: Clone {
    fn get(&self) -> u8;
}

#[stoop::interface]
unsafe trait Unsafe {
    fn get(&self) -> u8;
}

#[stoop::interface]
trait Items {
    const LIMIT: u32;
    type Error;
}

#[stoop::interface(name = "other")]
trait Options {
    fn get(&self) -> u8;
}

fn main() {}
