//! A `Result` that is returned under another name.

type Answer<T> = Result<T, u8>;
type Plain = u32;

#[stoop::interface]
trait Hidden {
    fn hidden(&self) -> Answer<u32>;
    fn fine(&self) -> Plain;
    fn also_fine(&self) -> Option<Result<u32, u8>>;
}

fn main() {}
