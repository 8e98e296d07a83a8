//! A type that does not say how it travels.

struct Point {
    x: f64,
}

#[stoop::interface]
trait Map {
    fn place(&self, at: Point) -> bool;
    fn near(&self, at: &Point, others: &[Point]) -> Option<Point>;
}

fn main() {}
