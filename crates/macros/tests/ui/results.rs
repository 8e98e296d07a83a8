//! Results that cannot be returned.

#[stoop::interface]
trait Results {
    fn text(&self) -> &str;
    fn bytes(&self) -> &'static [u8];
    fn number(&self) -> &u64;
    fn perhaps(&self) -> Option<&str>;
    fn error(&self) -> Result<u8, &'static str>;
    fn one_parameter(&self) -> Result<u8>;
    fn of_io(&self) -> std::io::Result<()>;
    fn never(&self) -> !;
    fn any_error(&self) -> Result<u8, Box<dyn std::error::Error>>;
}

fn main() {}
