//! Checks that an interface can be called from another process; each mistake says what to write instead.

mod program;
mod revisions;

use std::collections::HashMap;

use syn::{Error, GenericArgument, Ident, PathArguments, PathSegment, Type};

use crate::mistakes::Mistakes;
use crate::model::{
    Argument, Interface, Mode, Procedure, Returns, Shape, Way, in_place, pipe, plain, target,
};

/// Methods that every client has in addition to its procedures.
const CLIENT_METHODS: [&str; 10] = [
    "bind",
    "bind_with",
    "with_timeout",
    "with_metadata",
    "with_answer_metadata",
    "begin",
    "binding",
    "interface",
    "to_async",
    "to_blocking",
];

/// Method that a client has if some procedure takes a buffer.
const BUFFER_METHOD: &str = "in_place";

/// Methods that a client has if some procedure has a pipe.
const PIPE_METHODS: [&str; 2] = ["with_total", "with_window"];

/// Method that a client has if some procedure is one-way.
const ONE_WAY_METHOD: &str = "with_latest";

/// The name of the procedure in whose pipes callbacks travel.
pub(crate) const CALLBACK_PROCEDURE: &str = "callback";

/// Checks an interface.
///
/// # Errors
/// All mistakes, each at the offending token.
pub fn interface(interface: &Interface) -> Result<(), Error> {
    let mut mistakes = Mistakes::default();
    names(interface, &mut mistakes);
    if interface.procedures.len() > 16_384 {
        mistakes.add(&interface.name, "an interface has at most 16384 procedures; split it");
    }
    for procedure in &interface.procedures {
        for argument in &procedure.arguments {
            self::argument(argument, &mut mistakes);
        }
        let position = if procedure.answers_later() { Position::LaterResult } else { Position::Result };
        returns(&procedure.returns, position, &mut mistakes);
        if procedure.one_way {
            one_way(procedure, &mut mistakes);
        }
        if procedure.answers_later() {
            answers_later(procedure, &mut mistakes);
        }
        pipes(procedure, &mut mistakes);
        callbacks(procedure, interface, &mut mistakes);
    }
    program::check(interface, &mut mistakes);
    revisions::check(interface, &mut mistakes);
    mistakes.into_result()
}

/// Checks the type of a field of a user's type.
///
/// # Errors
/// All mistakes, each at the offending token.
pub fn field(ty: &Type) -> Result<(), Error> {
    let mut mistakes = Mistakes::default();
    owned(ty, Position::Field, &mut mistakes);
    mistakes.into_result()
}

fn names(interface: &Interface, mistakes: &mut Mistakes) {
    let mut seen: HashMap<String, &Ident> = HashMap::new();
    for Procedure { name, .. } in &interface.procedures {
        let text = name.to_string();
        let is_taken = CLIENT_METHODS.contains(&text.as_str())
            || text == BUFFER_METHOD && interface.has_buffers()
            || PIPE_METHODS.contains(&text.as_str()) && interface.has_pipes()
            || text == ONE_WAY_METHOD && interface.has_one_way();
        if interface.callback.is_some() && text == CALLBACK_PROCEDURE {
            let advice = "every interface with callbacks has a procedure of that name; give this one another";
            mistakes.add(name, advice);
        }
        if is_taken {
            mistakes.add(
                name,
                format!("every client has a method `{text}` of its own; give the procedure another name"),
            );
        }
        if seen.insert(text, name).is_some() {
            mistakes.add(name,
                format!("there is a procedure `{name}` already; procedures are told apart by name, so give this one another"),
            );
        }
    }
}

fn argument(argument: &Argument, mistakes: &mut Mistakes) {
    match (&argument.shape, argument.mode) {
        (Shape::Text, Mode::InOut | Mode::Out) => {
            mistakes
                .add(&argument.declared, "a `str` cannot change its length in position; write `&mut String`");
        }
        (Shape::Text, _) => {}
        (Shape::Buffer(_), Mode::OptionalIn) => mistakes.add(
            &argument.declared,
            "a buffer is always there; write `&InPlace<T>`, and pass one of no elements",
        ),
        (Shape::Buffer(element), _) if !may_be_number(element) => mistakes.add(
            element,
            "anything can be in a buffer at any time, so its elements are numbers of which any bytes are a value, and as large \
             everywhere; write one of u8 … u128, i8 … i128, f32, f64",
        ),
        (Shape::Buffer(_), _) => {}
        (Shape::Slice(element) | Shape::Array(element, _), _) => {
            owned(&element.ty, Position::Argument, mistakes)
        }
        (Shape::Whole(ty), _) => owned(ty, Position::Argument, mistakes),
        (Shape::Pipe(_, item), _) => self::item(item, mistakes),
        (Shape::Callback(_), _) => {}
    }
}

/// Checks the type of the items of a pipe: a type whose values travel, or a `str` or slice.
fn item(ty: &Type, mistakes: &mut Mistakes) {
    match plain(ty) {
        Type::Path(path) if path.path.is_ident("str") => {}
        Type::Slice(slice) => owned(&slice.elem, Position::Item, mistakes),
        ty => owned(ty, Position::Item, mistakes),
    }
}

/// Checks that a procedure has at most one pipe each way.
fn pipes(procedure: &Procedure, mistakes: &mut Mistakes) {
    for way in [Way::In, Way::Out] {
        let is_alike = |argument: &&Argument| matches!(argument.shape, Shape::Pipe(its, _) if its == way);
        for argument in procedure.arguments.iter().filter(is_alike).skip(1) {
            mistakes.add(
                &argument.declared,
                "a procedure has one pipe each way; send items of several kinds through one, as an enum, which also orders them",
            );
        }
    }
}

/// Checks a procedure that gets a client of its caller's object.
fn callbacks(procedure: &Procedure, interface: &Interface, mistakes: &mut Mistakes) {
    let callbacks = procedure.arguments.iter().filter(|argument| argument.is_callback());
    for (index, argument) in callbacks.enumerate() {
        if interface.callback.is_none() {
            let advice = "say which interface callers offer: `#[stoop::interface(callback = Guest)]`, for a `GuestClient`";
            mistakes.add(&argument.declared, advice);
        }
        if index > 0 {
            mistakes.add(&argument.declared, "a caller offers one object; clone its client");
        }
    }
    for argument in procedure.arguments.iter().filter(|each| procedure.has_callback() && each.is_result()) {
        let advice = "a procedure with a `#[callback]` argument returns all that comes back; return it, beside the rest";
        mistakes.add(&argument.declared, advice);
    }
}

/// Whether a type may be a number, or a name of one; the compiler decides.
fn may_be_number(ty: &Type) -> bool {
    const NONE: [&str; 6] = ["bool", "char", "usize", "isize", "str", "String"];
    match plain(ty) {
        Type::Path(path) => !NONE.iter().any(|name| path.path.is_ident(name)),
        Type::Macro(_) => true,
        _ => false,
    }
}

fn returns(returns: &Returns, position: Position, mistakes: &mut Mistakes) {
    match returns {
        Returns::Nothing => {}
        Returns::Value(ty) => owned(ty, position, mistakes),
        Returns::Fallible(fallible) => {
            owned(&fallible.value, position, mistakes);
            owned(&fallible.error, position, mistakes);
        }
    }
}

/// Checks that nothing comes back with an answer that comes later but what it is.
fn answers_later(procedure: &Procedure, mistakes: &mut Mistakes) {
    for argument in procedure.arguments.iter().filter(|argument| argument.is_result()) {
        mistakes.add(
            &argument.declared,
            "the answer comes later, when nothing can be written here any more; return it, beside the rest",
        );
    }
    let is_lent = |argument: &&Argument| procedure.is_async && !procedure.has_pipes() && argument.is_buffer();
    for argument in procedure.arguments.iter().filter(is_lent) {
        mistakes.add(
            &argument.declared,
            "a buffer is lent to a procedure while it holds its worker, and an `async fn` may go on later; take a slice, `&[T]`",
        );
    }
    for argument in
        procedure.arguments.iter().filter(|argument| procedure.has_pipes() && argument.is_buffer())
    {
        mistakes.add(
            &argument.declared,
            "a buffer is lent to a procedure while it holds its worker, and one with a pipe runs elsewhere; take a slice, `&[T]`",
        );
    }
}

/// Checks that a one-way procedure returns nothing.
fn one_way(procedure: &Procedure, mistakes: &mut Mistakes) {
    let returned = match (&procedure.deferred, &procedure.returns) {
        (Some(declared), _) => Some(declared),
        (None, Returns::Nothing) => None,
        (None, Returns::Value(ty)) => Some(&**ty),
        (None, Returns::Fallible(fallible)) => Some(&fallible.declared),
    };
    if let Some(ty) = returned {
        mistakes.add(
            ty,
            "nobody waits for a `#[one_way]` procedure, so it has nobody to return this to; remove the result, or the attribute",
        );
    }
    for argument in &procedure.arguments {
        let advice = match argument.mode {
            Mode::Value if matches!(argument.shape, Shape::Pipe(..)) => {
                "nobody waits for a `#[one_way]` procedure, so nobody has the other end of a pipe; remove the attribute".into()
            }
            Mode::Value | Mode::In | Mode::OptionalIn => continue,
            Mode::InOut => format!(
                "nobody waits for a `#[one_way]` procedure, so what it changes does not come back; write `&{}`, or remove the attribute",
                written(target(&argument.declared))
            ),
            Mode::Out => "nobody waits for a `#[one_way]` procedure, so what it fills does not come back; remove the argument, or the attribute".into(),
        };
        mistakes.add(&argument.declared, advice);
    }
}

/// Position of a type in the interface, for the advice in a message.
#[derive(Clone, Copy, PartialEq)]
enum Position {
    Argument,
    Result,
    /// A result that comes later, when no argument can be filled any more.
    LaterResult,
    Field,
    /// An item of a pipe.
    Item,
}

/// Checks a type whose values travel, and the types that it consists of.
fn owned(ty: &Type, position: Position, mistakes: &mut Mistakes) {
    let ty = plain(ty);
    if let Some(advice) = advice(ty, position) {
        return mistakes.add(ty, advice);
    }
    match ty {
        Type::Array(array) => owned(&array.elem, position, mistakes),
        Type::Tuple(tuple) => tuple.elems.iter().for_each(|part| owned(part, position, mistakes)),
        Type::Path(path) => {
            path.path.segments.iter().for_each(|segment| type_arguments(segment, position, mistakes))
        }
        _ => {}
    }
}

fn type_arguments(segment: &PathSegment, position: Position, mistakes: &mut Mistakes) {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return };
    // `Box<[T]>` and `Box<str>` have an unsized parameter, which is allowed.
    let is_box = segment.ident == "Box";
    for ty in arguments.args.iter().filter_map(as_type) {
        match plain(ty) {
            Type::Slice(slice) if is_box => owned(&slice.elem, position, mistakes),
            Type::Path(path) if is_box && path.path.is_ident("str") => {}
            // A `PhantomData` has no value to send.
            _ if segment.ident == "PhantomData" => {}
            ty => owned(ty, position, mistakes),
        }
    }
}

/// Advice for a type that cannot travel.
fn advice(ty: &Type, position: Position) -> Option<String> {
    let advice = match ty {
        Type::Reference(reference) => return Some(instead_of_reference(&reference.elem, position)),
        Type::Ptr(_) => {
            "a pointer means nothing in another process; send what it points to, `Box<T>` if it may be large"
        }
        Type::BareFn(_) => {
            "a function cannot travel; make it a procedure of an interface that the other side exports"
        }
        Type::ImplTrait(_) => "`impl Trait` is a different type for each caller; write one concrete type",
        Type::TraitObject(_) => {
            "a trait object can be any type, and only a known one can travel; write an enum of the types it may be"
        }
        Type::Infer(_) => "the type must be known here: the caller and the server agree on it at bind time",
        Type::Never(_) => {
            "a procedure that never returns has no result to send; write `-> ()` or leave it out"
        }
        Type::Slice(_) => "a slice has no size of its own; write `Vec<T>`, or `&[T]` as an argument",
        Type::Path(path) if path.path.is_ident("str") => {
            "a `str` has no size of its own; write `String`, or `&str` as an argument"
        }
        Type::Path(path) if in_place(path).is_some() => {
            let element = in_place(path).map(written).unwrap_or_default();
            return Some(match position {
                Position::Argument => format!(
                    "a buffer stays where its caller has it; as a whole argument, write `&InPlace<{element}>`, or `&mut InPlace<{element}>` \
                     for the procedure to write to it"
                ),
                Position::Result => format!(
                    "a buffer stays where its caller has it, and cannot be returned; return `Vec<{element}>`, or fill an argument \
                     `&mut InPlace<{element}>`"
                ),
                Position::LaterResult => {
                    format!(
                        "a buffer stays where its caller has it, and cannot be returned; return `Vec<{element}>`"
                    )
                }
                Position::Field | Position::Item => {
                    format!("a value that travels owns its parts; write `Vec<{element}>`")
                }
            });
        }
        Type::Path(path) if pipe(path).is_some() => {
            let item = pipe(path).map(|(_, item)| written(item)).unwrap_or_default();
            return Some(match position {
                Position::Argument => format!(
                    "a pipe is a whole argument; write `Sender<{item}>` if the procedure sends, or `Receiver<{item}>` if it receives"
                ),
                _ => "a pipe is an argument of a procedure; it cannot be in a result, in a value or in another pipe".into(),
            });
        }
        Type::Path(path) if path.path.is_ident("Self") && position != Position::Field => {
            "`Self` is the server itself, which cannot travel; write the type of a value"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

fn instead_of_reference(target: &Type, position: Position) -> String {
    let owned = match target {
        Type::Path(path) if path.path.is_ident("str") => "String".to_owned(),
        Type::Slice(slice) => format!("Vec<{}>", written(&slice.elem)),
        other => written(other),
    };
    match position {
        Position::Argument => {
            format!("only a whole argument can be a reference, not a part of one; write `{owned}`")
        }
        Position::Result => format!(
            "a result is new to the caller and cannot be borrowed from the server; return `{owned}`, or fill an argument `#[out] value: &mut {owned}`"
        ),
        Position::LaterResult => {
            format!("a result is new to the caller and cannot be borrowed from the server; return `{owned}`")
        }
        Position::Field | Position::Item => {
            format!("a value that travels owns its parts; write `{owned}`")
        }
    }
}

/// A type as source text.
pub(crate) fn written(ty: &Type) -> String {
    let tokens = quote::quote!(#ty).to_string();
    tokens.replace(" < ", "<").replace(" > ", ">").replace(" >", ">").replace(" ,", ",").replace(" :: ", "::")
}

/// The value and the error of a `Result<T, E>`.
///
/// # Errors
/// For a `Result` that names no error type.
pub fn result_parts(ty: &Type) -> Result<Option<(Type, Type)>, Error> {
    let Type::Path(path) = plain(ty) else { return Ok(None) };
    let Some(last) = path.path.segments.last().filter(|segment| segment.ident == "Result") else {
        return Ok(None);
    };
    let types: Vec<&Type> = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.iter().filter_map(as_type).collect(),
        _ => Vec::new(),
    };
    match types[..] {
        [value, error] => Ok(Some((value.clone(), error.clone()))),
        _ => Err(Error::new_spanned(
            ty,
            "name the error that travels: `Result<T, E>`, where `E` implements `stoop::Data`",
        )),
    }
}

fn as_type(argument: &GenericArgument) -> Option<&Type> {
    match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}
