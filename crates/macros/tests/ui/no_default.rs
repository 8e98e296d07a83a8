//! An OUT argument begins as a default value.

#[derive(stoop::Data)]
struct Point {
    x: f64,
}

#[stoop::interface]
trait Map {
    fn place(&self, #[out] at: &mut Point);
    fn places(&self, #[out] at: &mut [Point]);
}

fn main() {}
