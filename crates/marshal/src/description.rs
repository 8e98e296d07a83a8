//! The structure of types as text.

use core::any::TypeId;
use std::collections::HashMap;
use std::fmt::Write;

/// Collects the signature of a procedure: `place(p: Point{x: f64, y: f64}) -> Option<u32>`.
///
/// A user type is spelled out where it first occurs and only named after that, which also ends types that contain
/// themselves. Two types of one name are told apart by a number.
#[derive(Default)]
pub struct Description {
    text: String,
    /// Names of the types spelled out so far.
    names: HashMap<TypeId, String>,
    /// Number of types that have had each name.
    namesakes: HashMap<&'static str, usize>,
}

impl Description {
    /// An empty description.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text as it is.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds the user type `T`: its name, and what `structure` adds if `T` has not occurred before.
    pub fn named<T: 'static>(&mut self, name: &'static str, structure: impl FnOnce(&mut Self)) {
        if let Some(name) = self.names.get(&TypeId::of::<T>()) {
            self.text.push_str(name);
            return;
        }
        let namesakes = self.namesakes.entry(name).or_insert(0);
        *namesakes += 1;
        let begin = self.text.len();
        self.text.push_str(name);
        if *namesakes > 1 {
            write!(self.text, "#{namesakes}").expect("a String takes any text");
        }
        self.names.insert(TypeId::of::<T>(), self.text[begin..].to_owned());
        structure(self);
    }

    /// The text collected.
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_types_of_one_name_stay_apart() {
        let mut description = Description::new();
        for _ in 0..2 {
            description.named::<u8>("P", |d| _ = d.text("{a} "));
            description.named::<u16>("P", |d| _ = d.text("{b} "));
        }
        assert_eq!(description.finish(), "P{a} P#2{b} PP#2");
    }
}
