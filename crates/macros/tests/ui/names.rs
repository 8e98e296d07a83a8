//! Names that are taken.

#[stoop::interface]
trait Names {
    fn place(&self);
    fn place(&self, at: u32);
    fn bind(&self);
    fn with_timeout(&self);
    fn begin(&self);
}

fn main() {}
