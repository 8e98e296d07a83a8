//! Names of Rust for names of interface files.

use crate::model::{Kind, Model};
use proc_macro2::{Ident, Span};
use std::collections::{HashMap, HashSet};

/// Types and traits that emitted code uses, or that Rust has without an import.
const TAKEN_TYPES: [&str; 47] = [
    "AsMut",
    "AsRef",
    "Box",
    "Chain",
    "Clone",
    "Copy",
    "Debug",
    "Decode",
    "DecodeError",
    "Default",
    "Drop",
    "Encode",
    "Eq",
    "Err",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Hash",
    "Into",
    "IntoIterator",
    "Iterator",
    "Layout",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Quadruple",
    "Reader",
    "Result",
    "Self",
    "Send",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Vec",
    "Writer",
    "Xdr",
];

/// Words that stand after capitals in names such as `GETATTR3args`.
const SMALL_WORDS: [&str; 11] =
    ["arg", "args", "cb", "data", "desc", "info", "res", "resfail", "resok", "result", "s"];

/// The Rust names of a model's types and constants, each used once.
pub(super) struct Names {
    types: HashMap<String, Ident>,
    constants: HashMap<String, Ident>,
    taken_types: Taken,
    taken_constants: Taken,
}

impl Names {
    pub(super) fn new(model: &Model) -> Self {
        let taken_types = Taken { names: TAKEN_TYPES.map(str::to_owned).into() };
        let taken_constants = Taken { names: [String::from("UNBOUNDED")].into() };
        let (types, constants) = (HashMap::new(), HashMap::new());
        let mut names = Names { types, constants, taken_types, taken_constants };
        for definition in &model.definitions {
            match definition.kind {
                Kind::Number(_) | Kind::Text(_) => {
                    let name = names.new_constant(&definition.name);
                    names.constants.insert(definition.name.clone(), name);
                }
                Kind::Program(_) => {}
                _ => {
                    let name = names.new_type(&definition.name, "");
                    names.types.insert(definition.name.clone(), name);
                }
            }
        }
        names
    }

    /// The names of all types.
    pub(super) fn types(&self) -> HashMap<String, String> {
        self.types.iter().map(|(name, ident)| (name.clone(), ident.to_string())).collect()
    }

    pub(super) fn ty(&self, name: &str) -> &Ident {
        &self.types[name]
    }

    pub(super) fn constant(&self, name: &str) -> &Ident {
        &self.constants[name]
    }

    /// A name for another type or trait.
    pub(super) fn new_type(&mut self, name: &str, suffix: &str) -> Ident {
        self.taken_types.unique(&format!("{}{suffix}", camel(name)), "Type")
    }

    /// A name for an interface, whose client, its asynchronous form, server half and begun calls have names that begin with it.
    pub(super) fn new_interface(&mut self, name: &str) -> Ident {
        const OTHERS: [&str; 4] = ["Client", "Server", "Begin", "Async"];
        let camel = camel(name);
        let is_free = |name: &str| {
            let others = OTHERS.iter().map(|other| format!("{name}{other}"));
            others.chain([name.to_owned()]).all(|name| !self.taken_types.names.contains(&name))
        };
        let candidates = [camel.clone(), format!("{camel}Interface")].into_iter();
        let candidates = candidates.chain((2..).map(|number| format!("{camel}Interface{number}")));
        let free = candidates.into_iter().find(|name| is_free(name)).expect("some number is free");
        for other in OTHERS {
            self.taken_types.names.insert(format!("{free}{other}"));
        }
        self.taken_types.unique(&free, "")
    }

    /// A name for another constant.
    pub(super) fn new_constant(&mut self, name: &str) -> Ident {
        self.taken_constants.constant(name)
    }
}

/// The names that are used in one place.
#[derive(Default)]
pub(super) struct Taken {
    names: HashSet<String>,
}

/// The methods of a client that are not procedures.
const CLIENT_METHODS: [&str; 9] =
    ["bind", "bind_with", "with_timeout", "begin", "binding", "interface", "in_place", "close", "over"];

impl Taken {
    /// The names that every client of an interface uses.
    pub(super) fn by_clients() -> Self {
        Taken { names: CLIENT_METHODS.map(str::to_owned).into() }
    }

    /// The names that emitted code has beside the arguments of a call.
    pub(super) fn beside_arguments() -> Self {
        Taken { names: ["server", "writer"].map(str::to_owned).into() }
    }

    /// The name itself, or with something after it.
    fn unique(&mut self, name: &str, suffix: &str) -> Ident {
        let mut unique = name.to_owned();
        let mut number = 1;
        while !self.names.insert(unique.clone()) {
            unique = if number == 1 { format!("{name}{suffix}") } else { format!("{name}{suffix}{number}") };
            number += 1;
        }
        ident(&unique)
    }

    /// The name of a constant.
    pub(super) fn constant(&mut self, name: &str) -> Ident {
        self.unique(&shouting(name), "_VALUE")
    }

    /// The name of a field or an argument.
    pub(super) fn field(&mut self, name: &str) -> Ident {
        match snake(name).as_str() {
            // These cannot be raw identifiers.
            word @ ("self" | "super" | "crate") => self.unique(&format!("{word}_"), "_"),
            word => self.unique(word, "_"),
        }
    }

    /// The name of a variant.
    pub(super) fn variant(&mut self, name: &str) -> Ident {
        let name = camel(name);
        self.unique(if name == "Self" { "SelfValue" } else { &name }, "Value")
    }
}

/// An identifier; a keyword gets the mark of a raw one.
fn ident(name: &str) -> Ident {
    match name {
        // Reserved in the edition of 2024, and not known to `syn`.
        "gen" => Ident::new_raw(name, Span::call_site()),
        _ => match syn::parse_str(name) {
            Ok(ident) => ident,
            Err(_) => Ident::new_raw(name, Span::call_site()),
        },
    }
}

/// `nfs_fh3` as `NfsFh3`.
pub(super) fn camel(name: &str) -> String {
    let mut camel = String::new();
    for word in words(name) {
        let is_between_digits =
            camel.ends_with(|c: char| c.is_ascii_digit()) && word.starts_with(|c: char| c.is_ascii_digit());
        if is_between_digits {
            camel.push('_');
        }
        let (first, rest) = word.split_at(1);
        camel.push_str(&first.to_ascii_uppercase());
        camel.push_str(rest);
    }
    if camel.starts_with(|c: char| c.is_ascii_alphabetic()) { camel } else { format!("X{camel}") }
}

/// `notNull` as `not_null`.
pub(super) fn snake(name: &str) -> String {
    let snake = words(name).join("_");
    if snake.starts_with(|c: char| c.is_ascii_alphabetic()) { snake } else { format!("x{snake}") }
}

/// `rpcb_highproc` as `RPCB_HIGHPROC`.
fn shouting(name: &str) -> String {
    // Names in capitals keep their words, with or without digits.
    let shouting = if name.contains(|c: char| c.is_ascii_lowercase()) {
        snake(name).to_ascii_uppercase()
    } else {
        name.to_owned()
    };
    if shouting.starts_with(|c: char| c.is_ascii_alphabetic()) { shouting } else { format!("X{shouting}") }
}

/// The words of a name, in small letters.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_').filter(|part| !part.is_empty()) {
        let part: Vec<char> = part.chars().collect();
        let mut start = 0;
        for at in 1..part.len() {
            if begins_word(&part, at) {
                words.push(part[start..at].iter().collect::<String>().to_ascii_lowercase());
                start = at;
            }
        }
        words.push(part[start..].iter().collect::<String>().to_ascii_lowercase());
    }
    words
}

/// Whether a new word begins at this letter of a name without underscores.
fn begins_word(part: &[char], at: usize) -> bool {
    let (before, here) = (part[at - 1], part[at]);
    let rest = || part[at..].iter().collect::<String>();
    if here.is_ascii_lowercase() {
        // GETATTR3args
        let rest = rest();
        // The plural of IDs is no word of its own.
        return !before.is_ascii_lowercase() && rest != "s" && SMALL_WORDS.contains(&rest.as_str());
    }
    if !here.is_ascii_uppercase() {
        return false;
    }
    // notNull, and the V of SCVal; but not the T of SETargs, after which a word of its own begins.
    let next = part.get(at + 1).copied().filter(char::is_ascii_lowercase);
    let is_last_capital = next.is_some() && !SMALL_WORDS.contains(&rest()[1..].to_owned().as_str());
    before.is_ascii_lowercase() || (before.is_ascii_uppercase() && is_last_capital)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_as_in_rust() {
        let types = [
            ("nfs_fh3", "NfsFh3"),
            ("GETATTR3args", "Getattr3Args"),
            ("PMAP2SETargs", "Pmap2setArgs"),
            ("SCVal", "ScVal"),
            ("AccountID", "AccountId"),
            ("rp__list", "RpList"),
            ("NFS4_1", "Nfs4_1"),
            ("_3com", "X3com"),
        ];
        for (name, expected) in types {
            assert_eq!(camel(name), expected, "{name}");
        }
        let fields =
            [("notNull", "not_null"), ("signerSponsoringIDs", "signer_sponsoring_ids"), ("arg1", "arg1")];
        for (name, expected) in fields {
            assert_eq!(snake(name), expected, "{name}");
        }
        assert_eq!(
            [shouting("rpcb_highproc_2"), shouting("NFS3_FHSIZE"), shouting("maxLen")],
            ["RPCB_HIGHPROC_2", "NFS3_FHSIZE", "MAX_LEN"]
        );
    }

    #[test]
    fn keywords_and_repeated_names_become_other_names() {
        let mut taken = Taken::default();
        let names = ["type", "self", "Self", "gen", "match", "a_b", "aB", "aB"]
            .map(|name| taken.field(name).to_string());
        assert_eq!(names, ["r#type", "self_", "self__", "r#gen", "r#match", "a_b", "a_b_", "a_b_2"]);
    }
}
