//! Pipes that cannot be.

use stoop::{InPlace, Receiver, Sender};

#[stoop::interface]
trait Pipes {
    fn twice(&self, one: Sender<u32>, other: Sender<u64>);
    fn both_in(&self, one: Receiver<u32>, other: Receiver<u32>);
    fn returned(&self) -> Sender<u32>;
    fn in_a_result(&self) -> Result<Receiver<u32>, u32>;
    fn in_a_value(&self, all: Vec<Sender<u32>>);
    fn borrowed(&self, items: &Sender<u32>);
    fn of_pipes(&self, items: Sender<Receiver<u32>>);
    fn of_references(&self, items: Sender<&str>);
    #[one_way]
    fn unheard(&self, items: Sender<u32>);
    fn fills(&self, items: Sender<u32>, #[out] bytes: &mut [u8]);
    fn lent(&self, items: Sender<u32>, pixels: &InPlace<u8>);
    fn with_window(&self);
}

#[derive(stoop::Data)]
struct Holds {
    items: Sender<u32>,
}

#[stoop::interface(program = 0x2000_0001, version = 1)]
trait Program {
    fn tail(&self, lines: Sender<u32>);
}

fn main() {}
