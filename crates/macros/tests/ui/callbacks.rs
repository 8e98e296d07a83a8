//! Objects that callers offer, where they cannot be.

#[stoop::interface]
trait Guest {
    fn said(&self, text: &str);
}

#[stoop::interface]
trait Undeclared {
    fn join(&self, #[callback] guest: GuestClient);
}

#[stoop::interface(callback = Guest)]
trait Wrong {
    fn callback(&self);
    fn twice(&self, #[callback] guest: GuestClient, #[callback] again: GuestClient);
    fn fills(&self, #[callback] guest: GuestClient, #[out] filled: &mut u64);
    fn marked(&self, #[callback(Guest)] guest: GuestClient);
}

#[stoop::interface(callback = Guest)]
trait Other {
    fn join(&self, #[callback] guest: OtherClient);
}

#[stoop::interface(callback = "Guest")]
trait Quoted {}

fn main() {}
