//! What an interface is, whatever language it was written in.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Block, Expr, GenericArgument, Ident, PathArguments, Type, TypePath, Visibility};

/// A set of procedures that are bound together.
pub struct Interface {
    /// Doc comments and other attributes.
    pub attributes: Vec<Attribute>,
    /// Who may use it, and its stubs.
    pub visibility: Visibility,
    /// Its name, which is also compared at bind time.
    pub name: Ident,
    /// In the order of their numbers on the wire.
    pub procedures: Vec<Procedure>,
}

/// One procedure of an interface.
pub struct Procedure {
    /// Doc comments and other attributes, without those that the model expresses.
    pub attributes: Vec<Attribute>,
    /// Its name.
    pub name: Ident,
    /// Whether running it twice is as good as running it once.
    pub idempotent: bool,
    /// Whether its callers do not wait for it: nothing comes back.
    pub one_way: bool,
    /// Of a one-way procedure: whether the next call of the same thread may overtake it.
    pub unordered: bool,
    /// Without the receiver.
    pub arguments: Vec<Argument>,
    /// What it returns.
    pub returns: Returns,
    /// What a server does that does not say otherwise.
    pub body: Option<Block>,
}

/// One argument of a procedure.
pub struct Argument {
    /// Attributes that are not the model's.
    pub attributes: Vec<Attribute>,
    /// Its name.
    pub name: Ident,
    /// Its type as the procedure declares it.
    pub declared: Type,
    /// Which way it travels.
    pub mode: Mode,
    /// What travels.
    pub shape: Shape,
}

/// Which way an argument travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With the call; the procedure owns it.
    Value,
    /// With the call; the procedure looks at it. VAR IN.
    In,
    /// As `In`, if there is one: `Option<&T>`. The NIL of Firefly's texts.
    OptionalIn,
    /// With the call and back with the result. VAR.
    InOut,
    /// With the result only. VAR OUT.
    Out,
}

/// What an argument consists of.
pub enum Shape {
    /// A `str`.
    Text,
    /// A slice of these.
    Slice(Element),
    /// An array of so many of these.
    Array(Element, Expr),
    /// An `InPlace` buffer of these.
    Buffer(Type),
    /// A value of this type.
    Whole(Type),
}

/// The type of the elements of a slice or array.
pub struct Element {
    /// The type.
    pub ty: Type,
    /// Whether the elements can be used where they lie in a packet.
    pub is_scalar: bool,
}

/// What a procedure returns.
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
    /// As declared.
    pub declared: Type,
    /// The value.
    pub value: Type,
    /// The application error.
    pub error: Type,
}

impl Interface {
    /// Whether some procedure has a buffer as an argument.
    pub fn has_buffers(&self) -> bool {
        self.procedures.iter().any(Procedure::has_buffers)
    }

    /// Whether calls with results wait for earlier one-way calls.
    pub fn has_order(&self) -> bool {
        self.procedures.iter().any(|procedure| procedure.one_way && !procedure.unordered)
    }
}

impl Procedure {
    /// Whether some argument is a buffer.
    pub fn has_buffers(&self) -> bool {
        self.arguments.iter().any(Argument::is_buffer)
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

impl Argument {
    /// Whether the procedure writes it where it lies in the result packet.
    pub fn is_written_in_place(&self) -> bool {
        matches!(self.mode, Mode::Out | Mode::InOut)
            && matches!(&self.shape, Shape::Slice(element) | Shape::Array(element, _) if element.is_scalar)
    }

    /// Whether it is a buffer that can lie in shared memory.
    pub fn is_buffer(&self) -> bool {
        matches!(self.shape, Shape::Buffer(_))
    }

    /// Whether it comes back with the result.
    pub fn is_result(&self) -> bool {
        matches!(self.mode, Mode::Out | Mode::InOut)
    }
}

impl Shape {
    /// What a type consists of, seen as an argument behind a reference.
    pub fn of(ty: &Type) -> Shape {
        match plain(ty) {
            Type::Path(path) if path.path.is_ident("str") => Shape::Text,
            Type::Slice(slice) => Shape::Slice(Element::of(&slice.elem)),
            Type::Array(array) => Shape::Array(Element::of(&array.elem), array.len.clone()),
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
    let last = path.path.segments.last().filter(|last| last.ident == "InPlace")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.iter().collect::<Vec<_>>()[..] {
        [GenericArgument::Type(element)] => Some(element),
        _ => None,
    }
}

/// A type without the parentheses around it, visible or not: those of a macro that was given the type are not.
pub fn plain(ty: &Type) -> &Type {
    match ty {
        Type::Paren(inner) => plain(&inner.elem),
        Type::Group(inner) => plain(&inner.elem),
        ty => ty,
    }
}

/// What a reference refers to.
pub fn target(ty: &Type) -> &Type {
    match plain(ty) {
        Type::Reference(reference) => &reference.elem,
        ty => ty,
    }
}

/// Types of which every bit pattern is a value, and that are as large everywhere.
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
