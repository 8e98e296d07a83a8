//! Answers that cannot come later.

#[stoop::interface]
trait Later {
    async fn fills(&self, #[out] bytes: &mut [u8]);
    async fn changes(&self, values: &mut Vec<u8>) -> u32;
    fn keeps(&self, values: &mut [u8]) -> stoop::Deferred<u32>;
    async fn twice(&self) -> stoop::Deferred<u32>;
    async fn lent(&self, pixels: &stoop::InPlace<u8>);
    #[one_way]
    fn unheard(&self) -> stoop::Deferred<u32>;
    async fn borrowed(&self) -> &str;
    fn text(&self) -> stoop::Deferred<&str>;
}

fn main() {}
