//! The compiler of Sun RPC's interface files (`.x`): XDR declarations (RFC 4506) and programs (RFC 5531 §12) become Rust.
//!
//! [`compile`] turns the text of a file into Rust; it reads and writes nothing, and included files come from a callback.
//! [`build`] does the same with files, for build scripts; `stoop gen x` is the command.
//!
//! Everything that rpcgen accepts is accepted, with its preprocessor's directives. Lines that begin with `%`, which rpcgen copies
//! to its output, are skipped, but for the numbers that they define as macros, and for headers: of `%#include "nis.h"`, the file `nis.x`
//! is read, and of its definitions those are taken that the file uses and does not define. What else C text declares can be given
//! by [`Options`].
//!
//! The emitted code implements the traits of `stoop-xdr`. What it looks like is described at [`compile`].

#![forbid(unsafe_code)]

mod ast;
pub mod build;
mod comments;
mod emit;
mod error;
mod expression;
mod lexer;
pub mod model;
mod options;
mod parser;
mod preprocessor;
mod resolve;
mod source;

pub use error::Error;
use error::Mistake;
pub use expression::Value;
use model::Model;
pub use options::{Options, Strings};
pub use preprocessor::Include;
use preprocessor::Preprocessor;
use source::Span;
use std::collections::HashMap;

/// The compiler's output for a file.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The Rust text.
    pub rust: String,
    /// The definitions of the file.
    pub model: Model,
    /// The Rust names of types, by their names in the file.
    pub type_names: HashMap<String, String>,
    /// The names of the file and of all that it includes.
    pub files: Vec<String>,
}

/// Compiles the text of an interface file, which errors call `name`.
///
/// # What becomes what
///
/// | in the file | in Rust |
/// |---|---|
/// | `const N = 4;` | `pub const N: u32 = 4;` (`i32`, `u64` or larger where it must be) |
/// | `enum colour { RED = 1 };` | `enum Colour { Red = 1 }`, with conversions from and to `i32`; a second name of a number is an associated constant |
/// | `struct point { int x; };` | `struct Point { x: i32 }` |
/// | `union u switch (colour c) { case RED: int x; default: void; };` | `enum U { Red(i32), Default(Colour) }`: a variant for each label |
/// | `typedef int metres;` | `type Metres = i32;` |
/// | `typedef string name<255>;`, `typedef int list<>;` | `struct Name(pub String)`, `struct List(pub Vec<i32>)`, which know the bound |
/// | `opaque x[4]`, `opaque x<>`, `string x<>` | `[u8; 4]`, `Vec<u8>`, `String` (see [`Strings`], and [`Options::borrowed`]) |
/// | `int x[4]`, `int x<>`, `point *x` | `[i32; 4]` (`Vec` if it is long), `Vec<i32>`, `Option<Point>` |
/// | `struct *list { int x; list next; };` | as `struct list_element { int x; list next; }; typedef list_element *list;` |
/// | `node *list` where the last field of `struct node` is `node *next` | `stoop_xdr::Chain<Node>`; `Node` has no field `next` |
/// | `program`, `version`, procedures | constants for their numbers; for each version a trait, and enums of its calls and results |
///
/// Names are spelled as in Rust. A keyword becomes a raw identifier (`r#type`, `r#gen`); `self`, `super` and `crate`, which cannot be
/// raw, get an underscore (`self_`), as does a name that is there already; a type is called `SelfType`, a variant `SelfValue`. And comments become documentation. Bounds are enforced when a value is encoded or decoded.
///
/// # Errors
///
/// The first mistake in the text.
pub fn compile(
    name: &str,
    text: &str,
    options: &Options,
    include: &mut Include<'_>,
) -> Result<Compiled, Error> {
    let mut preprocessor = Preprocessor::new(include);
    let read = read(&mut preprocessor, name, text, options);
    let (model, heading) = read.map_err(|mistake: Mistake| mistake.locate(&preprocessor.sources))?;
    let (rust, type_names) = emit::emit(&model, name, &heading, options);
    let files = preprocessor.sources.names().map(str::to_owned).collect();
    Ok(Compiled { rust, model, type_names, files })
}

/// Reads the options' declarations and the file, and makes a model; with the comments at the head of the file.
fn read(
    preprocessor: &mut Preprocessor<'_>,
    name: &str,
    text: &str,
    options: &Options,
) -> Result<(Model, Vec<String>), Mistake> {
    for rust in options.externals.types.values() {
        if syn::parse_str::<syn::Type>(rust).is_err() {
            return Err(preprocessor.refuse(rust, "this is no Rust type"));
        }
    }
    for (name, value) in &options.defines {
        preprocessor.define(name, value)?;
    }
    for text in &options.declarations {
        preprocessor.read("the options", text)?;
    }
    let given = preprocessor.tokens.len();
    let mut file = preprocessor.read(name, text)?;
    if preprocessor.tokens.len() == given
        && let Some(text) = source::behind_slashes(text)
    {
        file = preprocessor.read(name, &text)?;
    }
    let end = preprocessor.sources.file(file).text.len();
    let end = Span { file, start: end, end };
    let definitions = parser::parse(&preprocessor.tokens, &preprocessor.sources, end)?;
    let mut known = known_definitions(preprocessor)?;
    known.extend(definitions_of_headers(preprocessor)?);
    let model = resolve::resolve(&definitions, &known, &preprocessor.c_constants, &options.externals)?;
    Ok((model, comments::heading(preprocessor.sources.file(file))))
}

/// The names that C's headers define.
fn known_definitions(preprocessor: &mut Preprocessor<'_>) -> Result<Vec<ast::Definition>, Mistake> {
    preprocessor.tokens.clear();
    let file = preprocessor.read("rpc.h", resolve::HEADERS)?;
    let end = Span { file, start: resolve::HEADERS.len(), end: resolve::HEADERS.len() };
    parser::parse(&preprocessor.tokens, &preprocessor.sources, end)
}

/// The definitions of the interface files beside the headers that C text includes.
fn definitions_of_headers(preprocessor: &mut Preprocessor<'_>) -> Result<Vec<ast::Definition>, Mistake> {
    let mut definitions = Vec::new();
    loop {
        preprocessor.tokens.clear();
        let Some(file) = preprocessor.read_header()? else { return Ok(definitions) };
        let end = preprocessor.sources.file(file).text.len();
        let end = Span { file, start: end, end };
        definitions.extend(parser::parse(&preprocessor.tokens, &preprocessor.sources, end)?);
    }
}

/// A callback for [`compile`] that finds no file.
pub fn no_includes() -> impl FnMut(&str, &str) -> Result<(String, String), String> {
    |name, _| Err(format!("`{name}` cannot be included: no file can be read here"))
}
