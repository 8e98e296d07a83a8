//! The smallest interface.

/// Greets people.
#[stoop::interface]
pub trait Greeter {
    /// Greets whoever is named.
    fn greet(&self, name: &str) -> String;
}
