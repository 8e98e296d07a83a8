//! Signatures that a one-way procedure cannot have.

#[stoop::interface]
trait OneWay {
    #[one_way]
    fn number(&self) -> u32;
    #[one_way]
    fn fallible(&self) -> Result<(), String>;
    #[one_way]
    fn filled(&self, #[out] bytes: &mut [u8]);
    #[one_way]
    fn changed(&self, text: &mut String, numbers: &mut [u64; 2]);
    #[one_way(fast)]
    fn with_options(&self);
    #[idempotent]
    #[one_way]
    fn both(&self) -> u8;
}

#[stoop::interface]
trait Misspelled {
    #[oneway]
    fn log(&self, line: &str);
    #[idempotant]
    fn read(&self) -> u32;
}

fn main() {}
