//! OUT arguments that cannot be filled.

#[stoop::interface]
trait Out {
    fn value(&self, #[out] count: u32);
    fn shared(&self, #[out] count: &u32);
    fn shared_slice(&self, #[out] bytes: &[u8]);
    fn with_options(&self, #[out(all)] count: &mut u32);
    fn text(&self, #[out] text: &mut str);
    fn changed_text(&self, text: &mut str);
    fn perhaps(&self, count: Option<&mut u32>);
}

fn main() {}
