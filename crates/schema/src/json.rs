//! Values as JSON, for people and programs that do not have their types.
//!
//! | native | JSON |
//! |---|---|
//! | integers to 64 bits, floats | numbers; an integer of 128 bits, an infinity, NaN: a string |
//! | text, `char`, times, addresses | strings: `"1.5s"`, `"2026-11-27T03:00:00Z"`, `"[::1]:7400"` |
//! | `[u8]`, `[u8; N]` | a string if they are printable UTF-8, otherwise `{"base64": "…"}`; an array is taken, too |
//! | structs with names for their fields | objects: no name may be missing, but that of an `Option` |
//! | tuples, sequences, arrays, sets | arrays; a struct of one field without a name is that field |
//! | enums | `"Dot"`, `{"Line": 7}`, `{"Line": [1, 2]}`, `{"Line": {"x": 1}}` |
//! | `Option` | null or the value; of something that may be null, `[]` or `[value]` |
//! | `Result` | `{"ok": …}`, `{"err": …}` |
//! | maps | objects if their keys are texts, otherwise arrays of pairs |
//! | shared values that the message has already | `{"$shared": n}` |
//!
//! What is printed is accepted, and gives the same bytes.

mod base64;
mod from_value;
mod parse;
mod scalar;
mod text;
mod time;
mod to_value;
mod write;

#[cfg(feature = "x")]
pub(crate) use from_value::simple as of_simple;
pub use parse::JsonError;
#[cfg(feature = "x")]
pub(crate) use scalar::{range, simple};
pub use text::ReadFile;
#[cfg(feature = "x")]
pub(crate) use text::{Words, json_of_words, of_text};
pub use to_value::{Fault, nearest};
#[cfg(feature = "x")]
pub(crate) use to_value::{fault, shortened, to_bytes, unknown};
pub use write::is_harmless;

/// A JSON text as a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as it is written.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    Array(Vec<Json>),
    /// An object: its members in their order, no two with one name.
    Object(Vec<(String, Json)>),
}

/// The member of an object that stands for a value which the message has already.
pub(crate) const SHARED: &str = "$shared";

impl Json {
    /// The member of an object.
    pub fn member(&self, name: &str) -> Option<&Json> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(of, _)| of == name).map(|(_, value)| value)
    }

    /// The part at a path of names and numbers, as `entry.tags.0`. The empty path is all.
    pub fn at(&self, path: &str) -> Option<&Json> {
        let names = path.split('.').filter(|name| !name.is_empty());
        names.into_iter().try_fold(self, |json, name| match json {
            Self::Array(values) => values.get(name.parse::<usize>().ok()?),
            json => json.member(name),
        })
    }

    /// The bytes that a string or `{"base64": …}` stands for.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            json => match json.member("base64")? {
                Self::Text(text) => base64::decode(text),
                _ => None,
            },
        }
    }

    /// An object of these members.
    pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
        Self::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// A string.
    pub fn text(text: impl Into<String>) -> Json {
        Self::Text(text.into())
    }
}
