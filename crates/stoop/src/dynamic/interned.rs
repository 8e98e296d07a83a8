//! Interfaces that are known at run time only. Each is kept as long as the process runs, like those of emitted stubs.

use crate::interface;
use crate::locked::locked;
use crate::options::BindOptions;
use crate::pipes::contract::Pipes;
use crate::reflection::{self, AskError};
use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex};
use stoop_exchange::FORMS;

/// An interface that is known at run time only.
///
/// ```
/// use stoop::dynamic::{Interface, Procedure};
///
/// let store = Interface::new(
///     "Store",
///     [Procedure::new("get(key: String) -> Option<u32>").idempotent(), Procedure::new("one_way touch(key: String)")],
/// )?;
/// assert_eq!(store.procedures().collect::<Vec<_>>(), ["get", "touch"]);
/// assert_eq!(store.number_of("touch"), Some(1));
/// # Ok::<(), stoop::dynamic::InterfaceError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Interface(pub(crate) &'static interface::Interface);

/// A procedure of such an interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Procedure {
    signature: String,
    idempotent: bool,
}

/// Why an interface cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InterfaceError {
    /// A text does not begin like a signature: `name(`, or `one_way name(`.
    NoSignature(String),
    /// The process has so many different interfaces, or so many bytes of their texts, that it may keep no other.
    TooMany,
}

impl fmt::Display for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSignature(text) => {
                write!(f, "{text:?} is no signature of a procedure: it begins with `name(`")
            }
            Self::TooMany => write!(
                f,
                "the process has {INTERFACES_MAX} different interfaces that are known at run time only, or {} MiB of their texts, \
                 and keeps no more",
                TEXT_MAX >> 20
            ),
        }
    }
}

impl std::error::Error for InterfaceError {}

/// Most interfaces that a process keeps.
const INTERFACES_MAX: usize = 1024;

/// Most bytes of their texts.
const TEXT_MAX: usize = 16 << 20;

impl Procedure {
    /// The procedure with that [signature](https://docs.rs/stoop): `get(name: String) -> Option<u32>`.
    ///
    /// ```
    /// use stoop::dynamic::{Interface, InterfaceError, Procedure};
    ///
    /// let get = Procedure::new("get(key: String) -> Option<u32>");
    /// assert_eq!(get.signature(), "get(key: String) -> Option<u32>");
    /// // Whether it is a signature is found out when an interface is made of it.
    /// assert!(matches!(Interface::new("Store", [Procedure::new("get")]), Err(InterfaceError::NoSignature(_))));
    /// ```
    pub fn new(signature: impl Into<String>) -> Self {
        Self { signature: signature.into(), idempotent: false }
    }

    /// It may run more than once for a call, like one that is marked `#[idempotent]`.
    ///
    /// ```
    /// use stoop::dynamic::Procedure;
    ///
    /// // A call of it that may have run at a server that was lost is made again, at the next one.
    /// let get = Procedure::new("get(key: String) -> Option<u32>").idempotent();
    /// ```
    #[must_use]
    pub fn idempotent(self) -> Self {
        Self { idempotent: true, ..self }
    }

    /// Its signature.
    pub fn signature(&self) -> &str {
        &self.signature
    }

    /// Its name, and whether its callers do not wait.
    fn name(&self) -> Option<(&str, bool)> {
        let (named, one_way) = match self.signature.strip_prefix("one_way ") {
            Some(named) => (named, true),
            None => (self.signature.as_str(), false),
        };
        let (name, _) = named.split_once('(')?;
        let is_name = !name.is_empty() && name.chars().all(|each| each.is_alphanumeric() || each == '_');
        is_name.then_some((name, one_way))
    }
}

/// The interfaces that the process keeps.
#[derive(Default)]
struct Interned {
    all: HashMap<(String, Vec<Procedure>), Interface>,
    text_len: usize,
}

static INTERNED: LazyLock<Mutex<Interned>> = LazyLock::new(Mutex::default);

impl Interface {
    /// The interface of that name with these procedures, whose positions are their numbers.
    ///
    /// # Errors
    /// A signature is none, or the process keeps 1,024 other interfaces already: they are never given back.
    ///
    /// # Panics
    /// There are more than 16,384 procedures.
    pub fn new(name: &str, procedures: impl IntoIterator<Item = Procedure>) -> Result<Self, InterfaceError> {
        let key = (name.to_owned(), procedures.into_iter().collect::<Vec<_>>());
        assert!(key.1.len() <= usize::from(FORMS), "procedures are numbered by 14 bits");
        if let Some(wrong) = key.1.iter().find(|procedure| procedure.name().is_none()) {
            return Err(InterfaceError::NoSignature(wrong.signature.clone()));
        }
        let mut interned = locked(&INTERNED);
        if let Some(interface) = interned.all.get(&key) {
            return Ok(*interface);
        }
        let text_len: usize = key.1.iter().map(|procedure| 2 * procedure.signature.len()).sum();
        if interned.all.len() >= INTERFACES_MAX || interned.text_len + text_len > TEXT_MAX {
            return Err(InterfaceError::TooMany);
        }
        let interface = Self(Box::leak(Box::new(interface::Interface {
            name: leaked(&key.0),
            docs: "",
            procedures: Box::leak(key.1.iter().map(kept).collect::<Box<[_]>>()),
            revisions: interface::Revisions::none(),
            callback: None,
        })));
        interned.text_len += text_len;
        interned.all.insert(key, interface);
        Ok(interface)
    }

    /// The interface of that name at the server at `uri`, [as that tells it](reflection).
    ///
    /// # Errors
    /// The server cannot be asked, does not export the interface, or tells what is none.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = server.uris()[0].clone();
    ///
    /// use stoop::BindOptions;
    /// use stoop::dynamic::Interface;
    ///
    /// let adder = Interface::ask(&uri, "Adder", &BindOptions::new())?;
    /// assert_eq!(adder.number_of("note"), Some(1));
    /// // What the server has is in the error: `Adder`.
    /// assert!(Interface::ask(&uri, "Ader", &BindOptions::new()).unwrap_err().to_string().contains("Adder"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn ask(uri: &str, name: &str, options: &BindOptions) -> Result<Self, AskError> {
        let described = reflection::ask(uri, name, options)?;
        let procedures = described.procedures.into_iter().map(|told| {
            let procedure = Procedure::new(told.signature);
            if told.idempotent { procedure.idempotent() } else { procedure }
        });
        Self::new(name, procedures).map_err(|why| AskError::NoInterface(why.to_string()))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// The names of its procedures, whose positions are their numbers.
    pub fn procedures(&self) -> impl ExactSizeIterator<Item = &'static str> {
        self.0.procedures.iter().map(|procedure| procedure.name)
    }

    /// The number of the procedure of that name.
    pub fn number_of(&self, procedure: &str) -> Option<u16> {
        self.procedures().position(|name| name == procedure).map(|number| number as u16)
    }

    /// A line for each procedure, as [`Server::names`](crate::Server::names) has them: the dissector for Wireshark shows procedures by
    /// their names with a file of such lines.
    pub fn names(&self) -> String {
        self.0.for_exchange().names()
    }

    /// The pipes of a procedure, as its signature has them.
    pub(crate) fn pipes(&self, procedure: u16) -> Pipes {
        let signature = self.0.procedures[usize::from(procedure)].signature();
        let has = |words| signature.contains(words);
        Pipes { to_procedure: has(": pipe in "), from_procedure: has(": pipe out ") }
    }

    /// Whether some procedure is one-way.
    pub(crate) fn has_order(&self) -> bool {
        self.0.procedures.iter().any(|procedure| procedure.one_way)
    }
}

impl fmt::Debug for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interface").field("name", &self.name()).finish_non_exhaustive()
    }
}

fn leaked(text: &str) -> &'static str {
    Box::leak(text.into())
}

fn kept(procedure: &Procedure) -> interface::Procedure {
    let (name, one_way) = procedure.name().expect("the signature has been checked");
    interface::Procedure {
        name: leaked(name),
        docs: "",
        signature: interface::Signature::Text(leaked(&procedure.signature)),
        idempotent: procedure.idempotent,
        one_way,
        in_place: None,
        buffers: false,
        since: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_interface_is_kept_once() {
        let new = |signature: &str| Interface::new("Once", [Procedure::new(signature)]);
        let (one, two) = (new("f(a: u8)").unwrap(), new("f(a: u8)").unwrap());
        assert!(std::ptr::eq(one.0, two.0));
        assert_ne!(one.0.procedures[0].signature(), new("f(a: u16)").unwrap().0.procedures[0].signature());
        assert_eq!(one.number_of("f"), Some(0));
        assert!(new("one_way f()").unwrap().has_order());
        assert_eq!(
            Interface::new("Test", [Procedure::new("null()")]).unwrap().names(),
            "c25a780961a0a498 Test 0 null()\n"
        );
    }

    #[test]
    fn texts_that_are_no_signatures_are_refused() {
        for wrong in ["", "f", "(", "a b()", "one_way ()", "\u{1b}()"] {
            let made = Interface::new("Wrong", [Procedure::new(wrong)]);
            assert_eq!(made.map(|_| ()), Err(InterfaceError::NoSignature(wrong.into())));
        }
    }
}
