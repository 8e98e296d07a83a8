//! The structure of types as text.

use core::any::TypeId;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// Collects the signature of a procedure: `place(p: Point{x: f64, y: f64}) -> Option<u32>`.
///
/// A user type is spelled out where it first occurs and only named after that, which also ends types that contain
/// themselves. Two types of one name are told apart by a number.
pub struct Description {
    text: String,
    /// The revision as at which it describes.
    revision: u32,
    /// The revisions with which parts came, later ones too.
    since: BTreeSet<u32>,
    /// Number of such parts so far; a type that was spelled out before counts once more.
    later_parts: usize,
    /// Whether a key of a map or a member of a set has such parts.
    has_grown_key: bool,
    /// Names of the types spelled out so far, and whether they have parts that came later.
    names: HashMap<TypeId, (String, bool)>,
    /// Number of types that have had each name.
    namesakes: HashMap<&'static str, usize>,
    /// Documentation of types and their parts, if it is collected.
    docs: Option<Vec<Documented>>,
}

/// A type (`Point`), field (`Point.x`), variant (`Shape::Circle`) or field of a variant (`Shape::Circle.radius`), and its documentation.
pub type Documented = (&'static str, &'static str);

impl Default for Description {
    fn default() -> Self {
        Self::at(u32::MAX)
    }
}

impl Description {
    /// An empty description.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty description that collects documentation, too.
    pub fn with_docs() -> Self {
        Self { docs: Some(Vec::new()), ..Self::default() }
    }

    /// An empty description of what there was at that revision.
    pub fn at(revision: u32) -> Self {
        Self {
            text: String::new(),
            revision,
            since: BTreeSet::new(),
            later_parts: 0,
            has_grown_key: false,
            names: HashMap::new(),
            namesakes: HashMap::new(),
            docs: None,
        }
    }

    /// Whether it has a part that came with that revision.
    pub fn has(&mut self, since: u32) -> bool {
        self.since.insert(since);
        self.later_parts += 1;
        since <= self.revision
    }

    /// The revision as at which it describes.
    pub fn revision(&self) -> u32 {
        self.revision
    }

    /// The revisions with which parts came, those that it leaves out too.
    pub fn since(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.since.iter().copied()
    }

    /// Whether a key of a map or a member of a set has parts that came later: two of them could become one.
    pub fn has_grown_key(&self) -> bool {
        self.has_grown_key
    }

    /// Adds a key of a map, or a member of a set.
    pub(crate) fn as_key(&mut self, describe: impl FnOnce(&mut Self)) {
        let before = self.later_parts;
        describe(self);
        self.has_grown_key |= self.later_parts > before;
    }

    /// Notes the documentation of a part of the type that is being added.
    pub fn document(&mut self, item: &'static str, docs: &'static str) {
        if let Some(all) = &mut self.docs {
            all.push((item, docs));
        }
    }

    /// Adds the type of an argument that comes back, and that was not written as an array or slice of numbers. Its bytes may differ from
    /// those of one that was, though the types are alike: `whole` says that a sequence comes back with its count, `late` that an array or
    /// slice of numbers comes back after those whose places in the result are known.
    pub fn comes_back(&mut self, is_slice: bool, describe: impl FnOnce(&mut Self)) {
        let begin = self.text.len();
        describe(self);
        let Some(inside) = self.text[begin..].strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))
        else {
            return;
        };
        let without_digits = inside.trim_end_matches(|each: char| each.is_ascii_digit());
        let array_of = without_digits.strip_suffix("; ").filter(|_| without_digits.len() < inside.len());
        let is_number = Self::NUMBERS.contains(&array_of.unwrap_or(inside));
        let mark = match array_of {
            None if !is_slice => "whole ",
            _ if is_number => "late ",
            _ => return,
        };
        self.text.insert_str(begin, mark);
    }

    /// Types whose arrays and slices a procedure writes where they lie in the result.
    const NUMBERS: [&'static str; 12] =
        ["u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128", "f32", "f64"];

    /// Adds text as it is.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds the user type `T`: its name, and what `structure` adds if `T` has not occurred before.
    pub fn named<T: 'static>(&mut self, name: &'static str, structure: impl FnOnce(&mut Self)) {
        if let Some((name, has_grown)) = self.names.get(&TypeId::of::<T>()) {
            self.text.push_str(name);
            self.later_parts += usize::from(*has_grown);
            return;
        }
        let namesakes = self.namesakes.entry(name).or_insert(0);
        *namesakes += 1;
        let begin = self.text.len();
        self.text.push_str(name);
        if *namesakes > 1 {
            write!(self.text, "#{namesakes}").expect("a String takes any text");
        }
        self.names.insert(TypeId::of::<T>(), (self.text[begin..].to_owned(), false));
        let before = self.later_parts;
        structure(self);
        if self.later_parts > before
            && let Some((_, has_grown)) = self.names.get_mut(&TypeId::of::<T>())
        {
            *has_grown = true;
        }
    }

    /// The text collected.
    pub fn finish(self) -> String {
        self.text
    }

    /// The text and the documentation collected.
    pub fn finish_with_docs(self) -> (String, Vec<Documented>) {
        (self.text, self.docs.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_in_other_bytes_is_marked() {
        for (is_slice, ty, marked) in [
            (false, "[u8]", "whole [u8]"),
            (false, "[Point; 3]", "[Point; 3]"),
            (false, "[[u8; 4]]", "whole [[u8; 4]]"),
            (false, "[u8; 4]", "late [u8; 4]"),
            (false, "String", "String"),
            (true, "[u8]", "late [u8]"),
            (true, "[usize]", "[usize]"),
            (true, "[P4]", "[P4]"),
        ] {
            let mut description = Description::new();
            description.text("out ").comes_back(is_slice, |description| _ = description.text(ty));
            assert_eq!(description.finish(), format!("out {marked}"));
        }
    }

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
