//! Arguments from words of a command line.

use crate::json::{Fault, Json};
use crate::message::Argument;
use crate::tree::{Body, Fields, Signature, Style, Type};

/// Reads a file, or standard input for `-`.
pub type ReadFile<'f> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'f;

/// A procedure whose arguments words can stand for.
pub(crate) trait Words {
    /// The arguments that a caller gives, by their names.
    fn given(&self) -> Vec<&str>;

    /// The same in words.
    fn usage(&self) -> String;

    /// The JSON that a text stands for as the argument of that name, which is one of those.
    fn of_text(&self, name: &str, word: &str, read: &mut ReadFile<'_>) -> Result<Json, Fault>;
}

impl Signature {
    /// The arguments that words stand for:
    ///
    /// | word | meaning |
    /// |---|---|
    /// | `{…}`, `@FILE`, `-` | JSON of all arguments; from a file; from standard input |
    /// | `name=TEXT` | a text, number, or name of a variant, as the type of the parameter wants it |
    /// | `name=@FILE` | the bytes of a file |
    /// | `name:=JSON`, `name:=@FILE` | JSON; from a file |
    /// | `TEXT` | as `name=TEXT`, of the first parameter that has none yet |
    ///
    /// # Errors
    /// A word stands for no argument, or a file cannot be read.
    pub fn arguments_of_words(
        &self,
        words: &[String],
        read: &mut ReadFile<'_>,
    ) -> Result<Vec<Argument>, Fault> {
        self.arguments_of(&json_of_words(self, words, read)?)
    }
}

/// All arguments that words stand for: an object, unless a word is the JSON of all.
pub(crate) fn json_of_words(
    procedure: &dyn Words,
    words: &[String],
    read: &mut ReadFile<'_>,
) -> Result<Json, Fault> {
    let mut members: Vec<(String, Json)> = Vec::new();
    for word in words {
        let (name, json) = match of_word(procedure, word, words.len() == 1, read)? {
            Word::All(json) => return Ok(json),
            Word::One(name, json) => (name.to_owned(), json),
            Word::Next(word) => {
                let is_free = |name: &&str| !members.iter().any(|(given, _)| given == name);
                let Some(next) = procedure.given().into_iter().find(is_free) else {
                    return Err(Fault {
                        path: String::new(),
                        why: format!(
                            "{} is one word too many; the arguments are {}",
                            Json::text(word),
                            procedure.usage()
                        ),
                    });
                };
                (next.to_owned(), procedure.of_text(next, word, read)?)
            }
        };
        if members.iter().any(|(given, _)| *given == name) {
            return Err(Fault { path: name, why: "is given twice".into() });
        }
        members.push((name, json));
    }
    Ok(Json::Object(members))
}

fn of_word<'w>(
    procedure: &dyn Words,
    word: &'w str,
    is_alone: bool,
    read: &mut ReadFile<'_>,
) -> Result<Word<'w>, Fault> {
    if is_alone && word.starts_with('{') {
        return json("", word).map(Word::All);
    }
    if is_alone && (word == "-" || word.starts_with('@')) {
        return json("", &text("", read(word.trim_start_matches('@')))?).map(Word::All);
    }
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|each| each.is_alphanumeric() || each == '_');
    let Some((name, value)) = word.split_once('=') else { return Ok(Word::Next(word)) };
    let (name, is_json) = name.strip_suffix(':').map_or((name, false), |name| (name, true));
    if !is_name(name) {
        return Ok(Word::Next(word));
    }
    let json = match (is_json, value.strip_prefix('@')) {
        (true, Some(file)) => json(name, &text(name, read(file))?)?,
        (true, None) => json(name, value)?,
        (false, _) if procedure.given().contains(&name) => procedure.of_text(name, value, read)?,
        // Which is an error, and says what there is.
        (false, _) => Json::Null,
    };
    Ok(Word::One(name, json))
}

impl Words for Signature {
    fn given(&self) -> Vec<&str> {
        let given = self.parameters.iter().filter(|parameter| parameter.is_given());
        given.map(|parameter| parameter.name.as_str()).collect()
    }

    fn usage(&self) -> String {
        self.usage()
    }

    fn of_text(&self, name: &str, word: &str, read: &mut ReadFile<'_>) -> Result<Json, Fault> {
        let parameter = self.parameters.iter().find(|parameter| parameter.name == name);
        let parameter = parameter.expect("the argument is one of the signature");
        let ty = if parameter.has_length() && parameter.mode == crate::Mode::Out {
            &Type::Unit
        } else {
            self.core(&parameter.ty)
        };
        of_text(name, word, read, ty.is_bytes(), |word| self.is_text(ty, word))
    }
}

/// What a text means for an argument: `is_bytes` as which a file counts, `is_text` whether a word is no JSON.
pub(crate) fn of_text(
    name: &str,
    word: &str,
    read: &mut ReadFile<'_>,
    is_bytes: bool,
    is_text: impl Fn(&str) -> bool,
) -> Result<Json, Fault> {
    let plain = |word: &str| if is_text(word) { Ok(Json::text(word)) } else { json(name, word) };
    match word.strip_prefix('@') {
        Some(file) if is_bytes => Ok(Json::bytes(&bytes(name, read(file))?)),
        Some(file) => plain(&text(name, read(file))?),
        None => plain(word),
    }
}

impl Signature {
    /// Whether a word is a text for a type, and no JSON.
    fn is_text(&self, ty: &Type, word: &str) -> bool {
        match ty {
            Type::Number(_) | Type::NonZero(_) => Json::parse(word).is_err(),
            Type::Text | Type::Char | Type::Duration | Type::SystemTime => true,
            Type::IpAddr | Type::Ipv4Addr | Type::Ipv6Addr => true,
            Type::SocketAddr | Type::SocketAddrV4 | Type::SocketAddrV6 => true,
            Type::Named(place) => {
                matches!(self.types[*place].body, Body::Enum(_)) && !word.starts_with(['{', '"'])
            }
            ty => ty.is_bytes(),
        }
    }

    /// A type without what is not seen of it in JSON: pointers, `Option` around what is never null, structs of one field without a name.
    fn core<'t>(&'t self, ty: &'t Type) -> &'t Type {
        let mut core = ty;
        for _ in 0..=self.types.len() + crate::limits::NESTING_MAX {
            core = match core {
                Type::Boxed(inner) => inner,
                Type::Option(inner) if !self.may_be_null(inner) => inner,
                Type::Named(place) => match &self.types[*place].body {
                    Body::Struct(Fields { style: Style::Tuple, all }) if all.len() == 1 => &all[0].ty,
                    _ => return core,
                },
                _ => return core,
            };
        }
        core
    }
}

enum Word<'w> {
    /// All arguments.
    All(Json),
    /// The argument of that name.
    One(&'w str, Json),
    /// The next argument.
    Next(&'w str),
}

fn json(path: &str, text: &str) -> Result<Json, Fault> {
    Json::parse(text).map_err(|why| Fault { path: path.to_owned(), why: why.to_string() })
}

fn bytes(path: &str, read: Result<Vec<u8>, String>) -> Result<Vec<u8>, Fault> {
    read.map_err(|why| Fault { path: path.to_owned(), why })
}

fn text(path: &str, read: Result<Vec<u8>, String>) -> Result<String, Fault> {
    let not_text = |_| Fault { path: path.to_owned(), why: "the file is no UTF-8".into() };
    String::from_utf8(bytes(path, read)?).map_err(not_text)
}
