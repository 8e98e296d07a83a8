//! The model of an interface, independent of the language that declares it.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote};
use syn::{
    Attribute, Block, Error, Expr, ExprLit, GenericArgument, Ident, Lit, Path, PathArguments, Type, TypePath,
    Visibility, parse_quote,
};

use crate::since::Since;
use crate::xdr::Marks;

/// A set of procedures that are bound together.
pub struct Interface {
    /// Doc comments and other attributes.
    pub attributes: Vec<Attribute>,
    /// Visibility of the trait and its stubs.
    pub visibility: Visibility,
    /// Name; compared at bind time.
    pub name: Ident,
    /// In the order of their numbers on the wire.
    pub procedures: Vec<Procedure>,
    /// The program of Sun RPC that it is, too.
    pub program: Option<Program>,
    /// Its revisions, if it has some.
    pub revisions: Option<Revisions>,
    /// The interface that its clients offer, if they may offer one.
    pub callback: Option<Path>,
}

/// The revisions of an interface.
#[derive(Clone, Copy)]
pub struct Revisions {
    /// The present one.
    pub newest: u32,
    /// The oldest whose callers and servers are understood.
    pub oldest: u32,
}

/// The numbers by which Sun RPC knows an interface (RFC 5531 §8.1).
pub struct Program {
    /// The program.
    pub number: Expr,
    /// The version.
    pub version: Expr,
}

/// One procedure of an interface.
pub struct Procedure {
    /// Doc comments and other attributes, without those that the model expresses.
    pub attributes: Vec<Attribute>,
    /// Its name.
    pub name: Ident,
    /// Whether it may run more than once for a call.
    pub idempotent: bool,
    /// Whether its callers do not wait for it; then it returns nothing.
    pub one_way: bool,
    /// For a one-way procedure: whether the thread's next call may run before it has returned.
    pub unordered: bool,
    /// Arguments, without the receiver.
    pub arguments: Vec<Argument>,
    /// What it returns, at once or later.
    pub returns: Returns,
    /// The `Deferred` that it returns as declared, if its answer comes later.
    pub deferred: Option<Type>,
    /// Whether it is an `async fn`.
    pub is_async: bool,
    /// Default implementation.
    pub body: Option<Block>,
    /// The number that Sun RPC knows it by, if it is declared: a literal or the name of a constant.
    pub number: Option<Expr>,
    /// How its result is written in XDR.
    pub marks: Marks,
    /// With which revision of the interface it came; 0: with the first.
    pub since: u32,
}

/// One argument of a procedure.
pub struct Argument {
    /// Attributes that the model does not consume.
    pub attributes: Vec<Attribute>,
    /// Its name.
    pub name: Ident,
    /// Its type as the procedure declares it.
    pub declared: Type,
    /// Direction in which it travels.
    pub mode: Mode,
    /// The form in which it travels.
    pub shape: Shape,
    /// How it is written in XDR.
    pub marks: Marks,
    /// With which revision of the interface it came, if that is not the first.
    pub since: Option<Since>,
}

/// Direction in which an argument travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With the call; the procedure owns it.
    Value,
    /// With the call; the procedure reads it. VAR IN.
    In,
    /// [`In`](Self::In), but optional: `Option<&T>`. The NIL of Firefly's texts.
    OptionalIn,
    /// With the call and back with the result. VAR.
    InOut,
    /// With the result only. VAR OUT.
    Out,
}

/// The form of an argument.
pub enum Shape {
    /// A `str`.
    Text,
    /// A slice of these elements.
    Slice(Element),
    /// An array of these elements, and its length.
    Array(Element, Box<Expr>),
    /// An `InPlace` buffer of these elements.
    Buffer(Type),
    /// One end of a pipe of items of this type.
    Pipe(Way, Type),
    /// A client of the object that the caller offers, of this type: no argument for the caller.
    Callback(Type),
    /// A value of this type.
    Whole(Type),
}

/// Which way the items of a pipe travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the procedure, which has a `Receiver`; its caller has the `Sender`.
    In,
    /// From the procedure, which has a `Sender`; its caller has the `Receiver`.
    Out,
}

/// The type of the elements of a slice or array.
pub struct Element {
    /// The type.
    pub ty: Type,
    /// Whether a procedure can use the elements in the packet.
    pub is_scalar: bool,
}

/// The result of a procedure.
pub enum Returns {
    /// Nothing.
    Nothing,
    /// A value.
    Value(Box<Type>),
    /// A value or an application error.
    Fallible(Box<Fallible>),
}

/// The `Result` that a procedure returns.
pub struct Fallible {
    /// The type as declared.
    pub declared: Type,
    /// The value.
    pub value: Type,
    /// The application error.
    pub error: Type,
}

impl Interface {
    /// Whether some procedure takes a buffer.
    pub fn has_buffers(&self) -> bool {
        self.procedures.iter().any(Procedure::has_buffers)
    }

    /// Whether some answer may come later: also that of the call in whose pipes callbacks travel.
    pub fn has_deferred(&self) -> bool {
        self.callback.is_some() || self.procedures.iter().any(Procedure::answers_later)
    }

    /// Whether some procedure is one-way.
    pub fn has_one_way(&self) -> bool {
        self.procedures.iter().any(|procedure| procedure.one_way)
    }

    /// Whether some procedure has a pipe.
    pub fn has_pipes(&self) -> bool {
        self.procedures.iter().any(Procedure::has_pipes)
    }

    /// Whether some procedure is an `async fn`.
    pub fn has_async(&self) -> bool {
        self.procedures.iter().any(|procedure| procedure.is_async)
    }

    /// Whether calls wait for the thread's earlier one-way calls.
    pub fn has_order(&self) -> bool {
        self.procedures.iter().any(|procedure| procedure.one_way && !procedure.unordered)
    }
}

/// The number of a procedure in its program.
pub struct Number {
    /// A literal or the name of a constant.
    pub expression: Expr,
    /// Its value, if it is a literal.
    pub value: Option<u32>,
}

impl Interface {
    /// The numbers of the procedures in a program: as declared, else one more than the one before, beginning at 1, because 0 is
    /// the null procedure.
    pub fn numbers(&self) -> Vec<Result<Number, Error>> {
        let mut next = Some(1);
        let number = |procedure: &Procedure| {
            let number = match &procedure.number {
                Some(expression) => declared_number(expression)?,
                None => counted_number(next, procedure)?,
            };
            next = number.value.and_then(|value| value.checked_add(1));
            Ok(number)
        };
        self.procedures.iter().map(number).collect()
    }
}

fn declared_number(expression: &Expr) -> Result<Number, Error> {
    let value = match expression {
        Expr::Lit(ExprLit { lit: Lit::Int(literal), .. }) => Some(literal.base10_parse()?),
        Expr::Lit(other) => return Err(Error::new_spanned(other, "the number of a procedure is an integer")),
        _ => None,
    };
    Ok(Number { expression: expression.clone(), value })
}

fn counted_number(next: Option<u32>, procedure: &Procedure) -> Result<Number, Error> {
    let advice = "the number of the procedure before is not known here; write `#[procedure(N)]`";
    let value = next.ok_or_else(|| Error::new_spanned(&procedure.name, advice))?;
    let literal = Literal::u32_unsuffixed(value);
    Ok(Number { expression: parse_quote!(#literal), value: Some(value) })
}

impl Procedure {
    /// Whether its answer may come after it has returned to its worker.
    pub fn answers_later(&self) -> bool {
        self.is_async || self.deferred.is_some() || self.has_pipes()
    }

    /// Whether some argument is an end of a pipe.
    pub fn has_pipes(&self) -> bool {
        self.pipes().next().is_some()
    }

    /// Which ways its pipes go, and the types of their items, in the order of the arguments.
    pub fn pipes(&self) -> impl Iterator<Item = (Way, &Type)> {
        self.arguments.iter().filter_map(|argument| match &argument.shape {
            Shape::Pipe(way, item) => Some((*way, item)),
            _ => None,
        })
    }

    /// Whether some argument is a buffer.
    pub fn has_buffers(&self) -> bool {
        self.arguments.iter().any(Argument::is_buffer)
    }

    /// Whether it gets a client of the object that its caller offers.
    pub fn has_callback(&self) -> bool {
        self.arguments.iter().any(Argument::is_callback)
    }

    /// Whether it can have had other forms at older revisions: an argument came later, or a type may have parts that did.
    pub fn may_grow(&self) -> bool {
        self.arguments.iter().any(Argument::may_grow) || self.returns.may_grow()
    }
}

impl Returns {
    /// The type that travels.
    pub fn ty(&self) -> TokenStream {
        match self {
            Returns::Nothing => quote!(()),
            Returns::Value(ty) => quote!(#ty),
            Returns::Fallible(fallible) => fallible.declared.to_token_stream(),
        }
    }
}

impl Returns {
    fn may_grow(&self) -> bool {
        match self {
            Returns::Nothing => false,
            Returns::Value(ty) => may_grow(ty),
            Returns::Fallible(fallible) => may_grow(&fallible.value) || may_grow(&fallible.error),
        }
    }
}

/// Whether a type may have parts that came with a later revision: all but those of the standard library that are known by their names.
fn may_grow(ty: &Type) -> bool {
    const NEVER: [&str; 20] = [
        "bool",
        "char",
        "u8",
        "u16",
        "u32",
        "u64",
        "u128",
        "usize",
        "i8",
        "i16",
        "i32",
        "i64",
        "i128",
        "isize",
        "f32",
        "f64",
        "str",
        "String",
        "Duration",
        "SystemTime",
    ];
    const AS_THEIR_PARTS: [&str; 5] = ["Vec", "Option", "Result", "Box", "Arc"];
    match plain(ty) {
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return true };
            let is_one_of = |names: &[&str]| names.iter().any(|name| last.ident == name);
            match &last.arguments {
                PathArguments::None => !is_one_of(&NEVER),
                PathArguments::AngleBracketed(parts) if is_one_of(&AS_THEIR_PARTS) => {
                    parts.args.iter().any(|part| match part {
                        GenericArgument::Type(ty) => may_grow(ty),
                        _ => true,
                    })
                }
                _ => true,
            }
        }
        Type::Tuple(tuple) => tuple.elems.iter().any(may_grow),
        Type::Array(array) => may_grow(&array.elem),
        Type::Slice(slice) => may_grow(&slice.elem),
        Type::Reference(reference) => may_grow(&reference.elem),
        _ => true,
    }
}

impl Argument {
    fn may_grow(&self) -> bool {
        self.since.is_some()
            || match &self.shape {
                Shape::Text | Shape::Buffer(_) | Shape::Callback(_) => false,
                Shape::Slice(element) | Shape::Array(element, _) => may_grow(&element.ty),
                Shape::Whole(ty) | Shape::Pipe(_, ty) => may_grow(ty),
            }
    }

    /// Whether the procedure writes it in the result packet.
    pub fn is_written_in_place(&self) -> bool {
        matches!(self.mode, Mode::Out | Mode::InOut)
            && matches!(&self.shape, Shape::Slice(element) | Shape::Array(element, _) if element.is_scalar)
    }

    /// Whether it is an `InPlace` buffer.
    pub fn is_buffer(&self) -> bool {
        matches!(self.shape, Shape::Buffer(_))
    }

    /// Whether it is a client of the object that the caller offers.
    pub fn is_callback(&self) -> bool {
        matches!(self.shape, Shape::Callback(_))
    }

    /// Whether it comes back with the result.
    pub fn is_result(&self) -> bool {
        matches!(self.mode, Mode::Out | Mode::InOut)
    }
}

impl Shape {
    /// The form of an argument that is declared as a reference to `ty`.
    pub fn of(ty: &Type) -> Shape {
        match plain(ty) {
            Type::Path(path) if path.path.is_ident("str") => Shape::Text,
            Type::Slice(slice) => Shape::Slice(Element::of(&slice.elem)),
            Type::Array(array) => Shape::Array(Element::of(&array.elem), Box::new(array.len.clone())),
            Type::Path(path) => match in_place(path) {
                Some(element) => Shape::Buffer(element.clone()),
                None => Shape::Whole(ty.clone()),
            },
            ty => Shape::Whole(ty.clone()),
        }
    }
}

/// The `T` of an `InPlace<T>`.
pub fn in_place(path: &TypePath) -> Option<&Type> {
    parameter_of(path, "InPlace")
}

/// Which way a pipe goes, and the `T`, of a `Sender<T>` or `Receiver<T>` as a procedure has it.
pub fn pipe(path: &TypePath) -> Option<(Way, &Type)> {
    let out = parameter_of(path, "Sender").map(|item| (Way::Out, item));
    out.or_else(|| parameter_of(path, "Receiver").map(|item| (Way::In, item)))
}

/// The `T` of a `Name<T>`.
fn parameter_of<'a>(path: &'a TypePath, name: &str) -> Option<&'a Type> {
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.iter().collect::<Vec<_>>()[..] {
        [GenericArgument::Type(element)] => Some(element),
        _ => None,
    }
}

/// A type without the parentheses around it, including the invisible ones that a macro adds.
pub fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Paren(inner) => plain(&inner.elem),
        Type::Group(inner) => plain(&inner.elem),
        ty => ty,
    }
}

/// A type, unless it is `()`.
pub fn some_value(ty: &Type) -> Option<&Type> {
    match plain(ty) {
        Type::Tuple(tuple) if tuple.elems.is_empty() => None,
        _ => Some(ty),
    }
}

/// The type that a reference refers to.
pub fn target(ty: &Type) -> &Type {
    match plain(ty) {
        Type::Reference(reference) => &reference.elem,
        ty => ty,
    }
}

/// Types for which every bit pattern is a value, with the same size on all machines.
const SCALARS: [&str; 12] =
    ["u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128", "f32", "f64"];

impl Element {
    fn of(ty: &Type) -> Self {
        let is_scalar = match plain(ty) {
            Type::Path(path) => SCALARS.iter().any(|name| path.path.is_ident(name)),
            _ => false,
        };
        Element { ty: ty.clone(), is_scalar }
    }
}
