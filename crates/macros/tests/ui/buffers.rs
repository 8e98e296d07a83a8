//! Buffers where they cannot be.

use stoop::InPlace;

#[stoop::interface]
trait Buffers {
    fn owned(&self, frame: InPlace<f32>);
    fn filled(&self, #[out] frame: &InPlace<f32>);
    fn perhaps(&self, frame: Option<&stoop::InPlace<u8>>);
    fn several(&self, frames: &[InPlace<f32>]);
    fn returned(&self) -> InPlace<u16>;
    fn inside(&self) -> Result<Vec<InPlace<u16>>, String>;
    #[one_way]
    fn changed(&self, frame: &mut InPlace<f32>);
    fn good(&self, frame: &InPlace<f32>, changed: &mut InPlace<u64>, #[out] filled: &mut InPlace<u8>);
    fn in_place(&self);
    fn flags(&self, flags: &InPlace<bool>);
    fn counts(&self, counts: &mut InPlace<[u8; 4]>);
}

#[derive(stoop::Data)]
struct Field {
    frame: InPlace<f32>,
}

/// Without buffers, the name is free.
#[stoop::interface]
trait NoBuffers {
    fn in_place(&self);
}

fn main() {}
