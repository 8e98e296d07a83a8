//! Arguments from words of a command line.

use crate::json::{Fault, Json};
use crate::message::Argument;
use crate::tree::{Body, Fields, Parameter, Signature, Style, Type};

/// Reads a file, or standard input for `-`.
pub type ReadFile<'f> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'f;

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
        let mut members: Vec<(String, Json)> = Vec::new();
        for word in words {
            let (parameter, json) = match self.word(word, words.len() == 1, read)? {
                Word::All(json) => return self.arguments_of(&json),
                Word::One(parameter, json) => (parameter.to_owned(), json),
                Word::Next(word) => {
                    let is_free = |each: &&Parameter| {
                        each.is_given() && !members.iter().any(|(name, _)| *name == each.name)
                    };
                    let Some(next) = self.parameters.iter().find(is_free) else {
                        return Err(Fault {
                            path: String::new(),
                            why: format!(
                                "{} is one word too many; the arguments are {}",
                                Json::text(word),
                                self.usage()
                            ),
                        });
                    };
                    (next.name.clone(), self.of_text(next, word, read)?)
                }
            };
            if members.iter().any(|(name, _)| *name == parameter) {
                return Err(Fault { path: parameter, why: "is given twice".into() });
            }
            members.push((parameter, json));
        }
        self.arguments_of(&Json::Object(members))
    }

    fn word<'w>(&self, word: &'w str, is_alone: bool, read: &mut ReadFile<'_>) -> Result<Word<'w>, Fault> {
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
        let parameter = self.parameters.iter().find(|parameter| parameter.name == name);
        let json = match (is_json, value.strip_prefix('@')) {
            (true, Some(file)) => json(name, &text(name, read(file))?)?,
            (true, None) => json(name, value)?,
            (false, _) => match parameter {
                Some(parameter) => self.of_text(parameter, value, read)?,
                // Which is an error, and says what there is.
                None => Json::Null,
            },
        };
        Ok(Word::One(name, json))
    }

    /// What a text means for a parameter.
    fn of_text(&self, parameter: &Parameter, word: &str, read: &mut ReadFile<'_>) -> Result<Json, Fault> {
        let name = &parameter.name;
        let ty = if parameter.has_length() && parameter.mode == crate::Mode::Out {
            &Type::Unit
        } else {
            self.core(&parameter.ty)
        };
        let file = word.strip_prefix('@').map(|file| bytes(name, read(file))).transpose()?;
        match (ty, file) {
            (ty, Some(bytes)) if ty.is_bytes() => Ok(Json::bytes(&bytes)),
            (_, Some(bytes)) => self.plain(parameter, ty, &text(name, Ok(bytes))?),
            (_, None) => self.plain(parameter, ty, word),
        }
    }

    fn plain(&self, parameter: &Parameter, ty: &Type, word: &str) -> Result<Json, Fault> {
        let is_text = match ty {
            Type::Number(_) | Type::NonZero(_) => Json::parse(word).is_err(),
            Type::Text | Type::Char | Type::Duration | Type::SystemTime => true,
            Type::IpAddr | Type::Ipv4Addr | Type::Ipv6Addr => true,
            Type::SocketAddr | Type::SocketAddrV4 | Type::SocketAddrV6 => true,
            Type::Named(place) => {
                matches!(self.types[*place].body, Body::Enum(_)) && !word.starts_with(['{', '"'])
            }
            ty => ty.is_bytes(),
        };
        if is_text { Ok(Json::text(word)) } else { json(&parameter.name, word) }
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
