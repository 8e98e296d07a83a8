/// Greets people.
#[stoop::interface]
pub trait Greeter {
    /// Greets the person of that name.
    fn greet(&self, name: &str) -> String;
}
