//! What came with a later revision, and cannot.

#[derive(PartialEq, stoop::Data)]
struct Fields {
    #[stoop(since = 0)]
    first: u32,
    #[stoop(default = 7)]
    early: u32,
    #[stoop(drop)]
    hint: u32,
    #[stoop(since = 4294967295)]
    late: u32,
}

#[derive(stoop::Data)]
enum Variants {
    One,
    #[stoop(since = 1, otherwise)]
    Two,
    #[stoop(otherwise)]
    Three(u32),
    #[stoop(default = 1)]
    Four,
}

#[stoop::interface(oldest = 1)]
trait NoRevision {}

#[stoop::interface(revision = 1, oldest = 2)]
trait Older {}

#[stoop::interface]
trait Unrevised {
    #[since(1)]
    fn later(&self);
    fn given(&self, #[since(1)] number: u32);
}

#[stoop::interface(revision = 2, callback = Guest)]
trait Revised {
    #[since(3)]
    fn later(&self);
    #[since(1, default = 3)]
    fn by_default(&self);
    fn back(&self, #[since(1)] number: &mut u32, #[since(1)] #[out] bytes: &mut [u8]);
    fn array(&self, #[since(1)] bytes: &[u8; 4]);
    fn slice(&self, #[since(1, default = &[1])] bytes: &[u8]);
    fn optional(&self, #[since(1, default = None)] number: Option<&u32>);
    fn misspelled(&self, #[since(1, dropped)] number: u32);
    fn piped(&self, #[since(1)] items: stoop::Sender<u8>);
    fn buffered(&self, #[since(1)] bytes: &stoop::InPlace<u8>);
    fn offered(&self, #[since(1)] #[callback] guest: GuestClient);
}

#[stoop::interface(revision = 2, program = 0x2000_0001, version = 1)]
trait Both {}

fn main() {}
