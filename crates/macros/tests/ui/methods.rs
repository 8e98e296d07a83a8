//! Methods that cannot be procedures.

#[stoop::interface]
trait Methods {
    fn generic<T: Copy>(&self, value: u32);
    fn lifetime<'a>(&self, text: &str);
    fn constant<const N: usize>(&self);
    fn bounded(&self) where u8: Copy;
    unsafe fn trusts(&self);
    extern "C" fn foreign(&self);
    fn by_value(self);
    fn by_unique_reference(&mut self);
    fn by_box(self: Box<Self>);
    fn without_receiver(value: u32);
    fn pattern(&self, (a, b): (u8, u8));
    fn ignored(&self, _: u8);
    #[cfg(unix)]
    fn sometimes(&self);
    #[idempotent(always)]
    fn again(&self);
}

fn main() {}
