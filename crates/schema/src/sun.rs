//! Procedures of Sun RPC from interface files (`.x`): their calls and results as JSON, without Rust types.
//!
//! | XDR | JSON |
//! |---|---|
//! | integers, `float`, `double` | numbers; an infinity, NaN: a string |
//! | `quadruple` | a string of its 16 bytes: `"0x3fff0000000000000000000000000000"` |
//! | `bool` | `true`, `false` |
//! | `string`, `opaque` | a string if they are printable UTF-8, otherwise `{"base64": "…"}`; an array is taken, too |
//! | `T x[N]`, `T x<>`, a list of nodes | arrays |
//! | `T *x` | null or the value; of a type that may be null itself, `[]`-brackets around it |
//! | structs | objects, by the names of the file; a missing field is an error, but for `T *x` |
//! | enums | the name of the value; a number that the enum has is taken, too |
//! | unions | the discriminant for an arm that is void, otherwise an object with the discriminant as its name: `{"RED": {"x": 1}}` |
//!
//! ```
//! use stoop_schema::json::Json;
//! use stoop_schema::sun::File;
//! let text = "program P { version V { int ADD(int left, int right) = 1; } = 1; } = 0x20000001;";
//! let compiled = stoop_x::compile("p.x", text, &stoop_x::Options::new(), &mut stoop_x::no_includes()).unwrap();
//! let file = File::new(compiled.model).unwrap();
//! let add = file.versions().next().unwrap().procedure("ADD").unwrap();
//! assert_eq!(add.overview(), "ADD(left: int, right: int) -> int");
//! let arguments = Json::parse(r#"{"left": 1, "right": -1}"#).unwrap();
//! assert_eq!(add.put_call(&arguments).unwrap(), [0, 0, 0, 1, 255, 255, 255, 255]);
//! let mut result = stoop_xdr::Reader::new(&[0, 0, 0, 7]);
//! assert_eq!(add.take_result(&mut result).unwrap(), Json::Number("7".into()));
//! ```

mod read;
mod spelling;
mod write;

use crate::json::{Fault, Json, ReadFile, json_of_words};
use crate::rust::no_procedure;
use crate::tree::Number;
use std::collections::HashMap;
use stoop_x::model::{self, Kind, Model, Scalar, Type};
use stoop_xdr::{DecodeError, Reader};

/// An interface file.
#[derive(Debug)]
pub struct File {
    model: Model,
    /// The definitions of types by their names: the place in the model, and the name as errors have it.
    types: HashMap<String, (usize, &'static str)>,
}

/// A version of a program.
#[derive(Clone, Copy, Debug)]
pub struct Version<'f> {
    file: &'f File,
    program: u32,
    of: &'f model::Version,
}

/// A procedure of a version.
#[derive(Clone, Copy, Debug)]
pub struct Procedure<'f> {
    file: &'f File,
    of: &'f model::Procedure,
}

impl File {
    /// The file of a model. The names of its enums and unions are kept as long as the process runs.
    ///
    /// # Errors
    /// The file has a type of Rust, which the options of the compiler named: its values are not known.
    pub fn new(model: Model) -> Result<Self, String> {
        if let Some(rust) = spelling::external(&model) {
            return Err(format!("values of {rust}, a type of Rust, are not known"));
        }
        let kept = |definition: &model::Definition| match definition.kind {
            Kind::Enumeration(_) | Kind::Union(_) => Box::leak(definition.name.clone().into_boxed_str()),
            _ => "",
        };
        let all = model.definitions.iter().enumerate();
        let is_type = |kind: &Kind| !matches!(kind, Kind::Number(_) | Kind::Text(_) | Kind::Program(_));
        let types = all.filter(|(_, definition)| is_type(&definition.kind));
        let types = types.map(|(place, definition)| (definition.name.clone(), (place, kept(definition))));
        let types = types.collect();
        Ok(Self { model, types })
    }

    /// The versions of its programs, in the order of the text.
    pub fn versions(&self) -> impl Iterator<Item = Version<'_>> {
        self.model.definitions.iter().flat_map(move |definition| {
            let (program, versions) = match &definition.kind {
                Kind::Program(program) => (program.number, &program.versions[..]),
                _ => (0, &[][..]),
            };
            versions.iter().map(move |of| Version { file: self, program, of })
        })
    }

    /// The procedures of all its versions.
    pub fn procedures(&self) -> impl Iterator<Item = (Version<'_>, Procedure<'_>)> {
        self.versions().flat_map(|version| version.procedures().map(move |procedure| (version, procedure)))
    }

    /// The procedure of that name: `VERSION.PROCEDURE`, or the procedure alone where only one version has it.
    ///
    /// # Errors
    /// None has it, or several: a sentence that names those there are, or the nearest.
    pub fn procedure(&self, name: &str) -> Result<(Version<'_>, Procedure<'_>), String> {
        let spelled = |version: Version<'_>, procedure: Procedure<'_>| {
            format!("{}.{}", version.name(), procedure.name())
        };
        let is_meant = |(version, procedure): &(Version<'_>, Procedure<'_>)| {
            procedure.name() == name || spelled(*version, *procedure) == name
        };
        let found: Vec<_> = self.procedures().filter(is_meant).collect();
        if let [one] = found[..] {
            return Ok(one);
        }
        if !found.is_empty() {
            let names: Vec<_> =
                found.into_iter().map(|(version, procedure)| spelled(version, procedure)).collect();
            return Err(format!("several versions have {name}: {}", names.join(", ")));
        }
        let known = self.procedures().map(|(version, procedure)| match name.contains('.') {
            true => spelled(version, procedure),
            false => procedure.name().to_owned(),
        });
        let known: Vec<_> = known.collect();
        Err(no_procedure("the file", name, &known.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// A type that the file defines, and its name as errors have it.
    fn kind(&self, name: &str) -> (&Kind, &'static str) {
        let (place, name) = self.types[name];
        (&self.model.definitions[place].kind, name)
    }

    /// A type behind all typedefs.
    fn core<'f>(&'f self, ty: &'f Type) -> &'f Type {
        let mut core = ty;
        while let Type::Named(name) = core
            && let (Kind::Typedef(target), _) = self.kind(name)
        {
            core = target;
        }
        core
    }

    /// Whether `null` may be a value of a type.
    fn may_be_null(&self, ty: &Type) -> bool {
        matches!(self.core(ty), Type::Optional(_) | Type::Boxed(_))
    }
}

impl<'f> Version<'f> {
    /// Its name, as the file spells it.
    pub fn name(self) -> &'f str {
        &self.of.name
    }

    /// The number of its program.
    pub fn program(self) -> u32 {
        self.program
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.of.number
    }

    /// Its procedures, in the order of the text.
    pub fn procedures(self) -> impl ExactSizeIterator<Item = Procedure<'f>> {
        self.of.procedures.iter().map(move |of| Procedure { file: self.file, of })
    }

    /// The procedure of that name.
    pub fn procedure(self, name: &str) -> Option<Procedure<'f>> {
        self.procedures().find(|procedure| procedure.name() == name)
    }

    /// The procedures in a line each, for people: `VERS.ADD(left: int, right: int) -> int`.
    pub fn overview(self) -> String {
        self.procedures().map(|procedure| format!("{}.{}\n", self.name(), procedure.overview())).collect()
    }

    /// The version as JSON, for tools.
    pub fn json(self) -> Json {
        let number = |number: u32| Json::Number(number.to_string());
        let procedure = |procedure: Procedure<'_>| {
            let model::Procedure { arguments, result, notes, .. } = procedure.of;
            let argument = |field: &model::Field| {
                Json::object([
                    ("name", Json::text(&field.name)),
                    ("type", Json::Text(spelling::of(&field.ty))),
                ])
            };
            Json::object([
                ("name", Json::text(procedure.name())),
                ("number", number(procedure.number())),
                ("docs", Json::Text(notes.comment.join("\n"))),
                ("arguments", Json::Array(arguments.iter().map(argument).collect())),
                ("returns", result.as_ref().map_or(Json::Null, |ty| Json::Text(spelling::of(ty)))),
            ])
        };
        Json::object([
            ("name", Json::text(self.name())),
            ("program", number(self.program)),
            ("version", number(self.number())),
            ("docs", Json::Text(self.of.notes.comment.join("\n"))),
            ("procedures", Json::Array(self.procedures().map(procedure).collect())),
        ])
    }
}

impl<'f> Procedure<'f> {
    /// Its name, as the file spells it.
    pub fn name(self) -> &'f str {
        &self.of.name
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.of.number
    }

    /// The names of its arguments. Those without one in the file are called `arg1`, `arg2`.
    pub fn arguments(self) -> impl ExactSizeIterator<Item = &'f str> {
        self.of.arguments.iter().map(|argument| argument.name.as_str())
    }

    /// Its arguments and its result, with types as the file spells them.
    pub fn overview(self) -> String {
        let returns = self.of.result.as_ref().map(|ty| format!(" -> {}", spelling::of(ty)));
        format!("{}({}){}", self.name(), spelling::fields(&self.of.arguments), returns.unwrap_or_default())
    }

    /// The arguments that words stand for, as [`Signature::arguments_of_words`](crate::Signature::arguments_of_words) has them.
    ///
    /// # Errors
    /// A word stands for no argument, or a file cannot be read.
    pub fn arguments_of_words(self, words: &[String], read: &mut ReadFile<'_>) -> Result<Json, Fault> {
        json_of_words(&self, words, read)
    }

    /// The XDR of a call with these arguments: an object, or an array in their order.
    ///
    /// # Errors
    /// They are not those of the procedure.
    pub fn put_call(self, arguments: &Json) -> Result<Vec<u8>, Fault> {
        write::arguments(self.file, &self.of.arguments, arguments)
    }

    /// Reads the arguments of a call: an object.
    ///
    /// # Errors
    /// The bytes are none of this procedure.
    pub fn take_call(self, reader: &mut Reader<'_>) -> Result<Json, DecodeError> {
        read::fields(self.file, &self.of.arguments, reader)
    }

    /// The XDR of a result: `null` of a procedure that returns nothing.
    ///
    /// # Errors
    /// It is none of the procedure.
    pub fn put_result(self, result: &Json) -> Result<Vec<u8>, Fault> {
        match &self.of.result {
            Some(ty) => write::value(self.file, ty, result),
            None => Ok(Vec::new()),
        }
    }

    /// Reads a result.
    ///
    /// # Errors
    /// The bytes are none of this procedure.
    pub fn take_result(self, reader: &mut Reader<'_>) -> Result<Json, DecodeError> {
        match &self.of.result {
            Some(ty) => read::value(self.file, ty, reader),
            None => Ok(Json::Null),
        }
    }
}

/// The type of the numbers that a scalar has.
fn number(scalar: Scalar) -> Option<Number> {
    Some(match scalar {
        Scalar::I8 => Number::I8,
        Scalar::U8 => Number::U8,
        Scalar::I16 => Number::I16,
        Scalar::U16 => Number::U16,
        Scalar::I32 => Number::I32,
        Scalar::U32 => Number::U32,
        Scalar::I64 => Number::I64,
        Scalar::U64 => Number::U64,
        Scalar::F32 => Number::F32,
        Scalar::F64 => Number::F64,
        Scalar::Bool | Scalar::Quadruple => return None,
    })
}
