//! The form of Rust types in Sun RPC, XDR (RFC 4506): which types have one, and the code that writes and reads it.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, GenericArgument, PathArguments, Type, TypePath};

use crate::mistakes::Mistakes;
use crate::model::{Shape, plain};

/// The options of `#[xdr(…)]` at an argument, a result or a field.
#[derive(Clone, Default)]
pub struct Marks {
    /// `max = N`: the longest string, opaque data or array.
    pub max: Option<Expr>,
    /// `chars`: bytes are an array of C's `char`, 4 bytes each, and not opaque data.
    pub chars: Option<Ident>,
}

impl Marks {
    /// Removes `#[xdr(…)]` from attributes.
    pub fn take(attributes: &mut Vec<Attribute>, mistakes: &mut Mistakes) -> Self {
        let marks = Self::read(attributes, mistakes);
        attributes.retain(|attribute| !attribute.path().is_ident("xdr"));
        marks
    }

    /// Reads `#[xdr(…)]`.
    pub fn read(attributes: &[Attribute], mistakes: &mut Mistakes) -> Self {
        let mut marks = Marks::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("xdr")) {
            let parsed = attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("max") {
                    marks.max = Some(meta.value()?.parse()?);
                } else if let Some(chars) = meta.path.get_ident().filter(|name| *name == "chars") {
                    marks.chars = Some(chars.clone());
                } else {
                    return Err(meta.error("write `max = N` or `chars`"));
                }
                Ok(())
            });
            parsed.unwrap_or_else(|error| mistakes.extend(error));
        }
        marks
    }

    fn is_empty(&self) -> bool {
        self.max.is_none() && self.chars.is_none()
    }

    /// Adds a mistake if there are any: there is nothing to which they could apply.
    pub fn refuse(&self, advice: &str, mistakes: &mut Mistakes) {
        match (&self.max, &self.chars) {
            (Some(max), _) => mistakes.add(max, advice),
            (None, Some(chars)) => mistakes.add(chars, advice),
            (None, None) => {}
        }
    }
}

/// A type as XDR has it.
#[derive(Clone)]
pub enum Form {
    /// Nothing.
    Void,
    /// A string, RFC 4506 §4.11.
    String(Bound),
    /// Bytes, §4.10.
    Opaque(Bound),
    /// So many bytes, §4.9.
    FixedOpaque(Expr),
    /// An array, §4.13.
    Sequence(Type, Bound),
    /// An array of so many elements, §4.12.
    Array(Type, Expr),
    /// A type that implements the traits of XDR.
    Value(Type),
}

/// The longest length; none if `None`.
pub type Bound = Option<Expr>;

/// Advice for a pipe in a program of Sun RPC.
pub const NO_PIPES: &str =
    "Sun RPC has no pipes; leave `program` out, and export another interface for Sun RPC";
/// Why an object that a caller offers is no argument of a program.
pub const NO_CALLBACKS: &str =
    "over Sun RPC a client that is called back is a server itself: see the callbacks in docs/sun-rpc.md";

impl Form {
    /// The form of values of a type.
    ///
    /// # Errors
    /// The type has none, or the marks are for others.
    pub fn of(ty: &Type, marks: &Marks) -> Result<Self, Error> {
        let mut mistakes = Mistakes::default();
        check(ty, &mut mistakes);
        mistakes.into_result()?;
        let form = match plain(ty) {
            Type::Tuple(tuple) if tuple.elems.is_empty() => Form::Void,
            Type::Array(array) if is_byte(&array.elem) && marks.chars.is_none() => {
                Form::FixedOpaque(array.len.clone())
            }
            Type::Array(array) => Form::Array((*array.elem).clone(), array.len.clone()),
            Type::Path(path) if path.path.is_ident("String") => Form::String(marks.max.clone()),
            Type::Path(path) => match argument_of(path, "Vec") {
                Some(element) => Self::sequence(element, marks),
                None => Form::Value(ty.clone()),
            },
            ty => Form::Value(ty.clone()),
        };
        form.marked(marks)
    }

    /// The form of an argument that is a reference.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_shape(shape: &Shape, marks: &Marks) -> Result<Self, Error> {
        let form = match shape {
            Shape::Text => Form::String(marks.max.clone()),
            Shape::Slice(element) => {
                let mut mistakes = Mistakes::default();
                check(&element.ty, &mut mistakes);
                mistakes.into_result()?;
                Self::sequence(&element.ty, marks)
            }
            Shape::Array(element, len) => {
                let (ty, len) = (&element.ty, &**len);
                return Self::of(&syn::parse_quote!([#ty; #len]), marks);
            }
            Shape::Whole(ty) => return Self::of(ty, marks),
            Shape::Buffer(ty) => {
                let advice =
                    "a buffer in place cannot travel by Sun RPC; write a slice, or declare another interface";
                return Err(Error::new_spanned(ty, advice));
            }
            Shape::Pipe(_, item) => return Err(Error::new_spanned(item, NO_PIPES)),
            Shape::Callback(ty) => return Err(Error::new_spanned(ty, NO_CALLBACKS)),
        };
        form.marked(marks)
    }

    fn sequence(element: &Type, marks: &Marks) -> Self {
        if is_byte(element) && marks.chars.is_none() {
            return Form::Opaque(marks.max.clone());
        }
        Form::Sequence(element.clone(), marks.max.clone())
    }

    /// Itself, if the marks have a meaning for it.
    fn marked(self, marks: &Marks) -> Result<Self, Error> {
        let mut mistakes = Mistakes::default();
        match &self {
            _ if marks.is_empty() => {}
            Form::Opaque(_) | Form::Sequence(..) => {}
            Form::String(_) if marks.chars.is_none() => {}
            Form::Array(..) if marks.max.is_none() => {}
            _ => {
                let advice =
                    "`max` is for `String`, `Vec` and slices, `chars` for bytes in `Vec`, slices and arrays";
                marks.refuse(advice, &mut mistakes);
            }
        }
        mistakes.into_result()?;
        Ok(self)
    }

    /// The statement that writes the value to which `place` is a reference.
    pub fn write(&self, place: &TokenStream, writer: &Ident) -> TokenStream {
        match self {
            Form::Void => quote!(let () = *#place;),
            Form::String(max) => {
                let max = bound(max);
                quote!(#writer.string(#place, #max);)
            }
            Form::Opaque(max) => {
                let max = bound(max);
                quote!(#writer.opaque(#place, #max);)
            }
            Form::FixedOpaque(len) => quote!(#writer.opaque_fixed(#place, #len);),
            Form::Sequence(ty, max) => {
                let max = bound(max);
                quote_spanned!(ty.span()=> #writer.sequence::<#ty>(#place, #max);)
            }
            Form::Array(ty, len) => quote_spanned!(ty.span()=> #writer.array::<#ty>(#place, #len);),
            Form::Value(ty) => quote_spanned!(ty.span()=> #writer.value::<#ty>(#place);),
        }
    }

    /// The expression that reads a value, a `Result`.
    pub fn read(&self, reader: &TokenStream) -> TokenStream {
        match self {
            Form::Void => quote!(::core::result::Result::Ok(())),
            Form::String(_) => {
                let read = self.borrow(reader);
                quote!(#read.map(::std::string::String::from))
            }
            Form::Opaque(_) => {
                let read = self.borrow(reader);
                quote!(#read.map(<[u8]>::to_vec))
            }
            Form::FixedOpaque(_) => {
                let read = self.borrow(reader);
                quote!(#read.copied())
            }
            _ => self.borrow(reader),
        }
    }

    /// The expression that reads a value, which borrows strings and opaque data from the message.
    pub fn borrow(&self, reader: &TokenStream) -> TokenStream {
        match self {
            Form::Void => quote!(::core::result::Result::Ok(&())),
            Form::String(max) => {
                let max = bound(max);
                quote!(#reader.text(#max))
            }
            Form::Opaque(max) => {
                let max = bound(max);
                quote!(#reader.opaque(#max))
            }
            Form::FixedOpaque(len) => {
                let len = parameter(len);
                quote!(#reader.opaque_fixed::<#len>())
            }
            Form::Sequence(ty, max) => {
                let max = bound(max);
                quote_spanned!(ty.span()=> #reader.sequence::<#ty>(#max))
            }
            Form::Array(ty, len) => {
                let len = parameter(len);
                quote_spanned!(ty.span()=> #reader.array_of::<#ty, #len>())
            }
            Form::Value(ty) => quote_spanned!(ty.span()=> #reader.value::<#ty>()),
        }
    }

    /// The layout; `xdr` is the path of the module with XDR's traits.
    pub fn layout(&self, xdr: &TokenStream) -> TokenStream {
        match self {
            Form::Void => quote!(#xdr::Layout::fixed(0)),
            Form::String(_) | Form::Opaque(_) | Form::Sequence(..) => quote!(#xdr::Layout::variable(4)),
            Form::FixedOpaque(len) => quote!(#xdr::Layout::opaque(#len)),
            Form::Array(ty, len) => {
                quote_spanned!(ty.span()=> <#ty as #xdr::Xdr>::LAYOUT.array(#len))
            }
            Form::Value(ty) => quote_spanned!(ty.span()=> <#ty as #xdr::Xdr>::LAYOUT),
        }
    }
}

/// A bound as a `usize`.
fn bound(max: &Bound) -> TokenStream {
    match max {
        None => quote!({ u32::MAX as usize }),
        Some(Expr::Lit(literal)) => literal.to_token_stream(),
        // A constant may have any type of integers.
        Some(max) => quote!({
            #[allow(clippy::unnecessary_cast)]
            {
                (#max) as usize
            }
        }),
    }
}

/// A length as a constant parameter.
fn parameter(len: &Expr) -> TokenStream {
    if matches!(len, Expr::Lit(_)) { quote!(#len) } else { quote!({ #len }) }
}

fn is_byte(ty: &Type) -> bool {
    matches!(plain(ty), Type::Path(path) if path.path.is_ident("u8"))
}

/// The `T` of a type `name<T>`.
pub(crate) fn argument_of<'t>(path: &'t TypePath, name: &str) -> Option<&'t Type> {
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(argument)) => Some(argument),
        _ => None,
    }
}

/// Adds a mistake for each part of a type of which it is known that XDR has no counterpart.
fn check(ty: &Type, mistakes: &mut Mistakes) {
    match plain(ty) {
        Type::Tuple(tuple) if !tuple.elems.is_empty() => mistakes.add(
            tuple,
            "XDR has no tuples; declare a struct with `#[derive(stoop::Xdr)]`, whose fields have names",
        ),
        Type::Array(array) => check(&array.elem, mistakes),
        Type::Path(path) => check_path(path, mistakes),
        _ => {}
    }
}

fn check_path(path: &TypePath, mistakes: &mut Mistakes) {
    let Some(last) = path.path.segments.last() else { return };
    if let Some(advice) = advice(&last.ident.to_string()) {
        return mistakes.add(path, advice);
    }
    if let PathArguments::AngleBracketed(arguments) = &last.arguments {
        for argument in &arguments.args {
            if let GenericArgument::Type(ty) = argument {
                check(ty, mistakes);
            }
        }
    }
}

/// The advice for a type of the standard library that XDR has no counterpart of.
fn advice(name: &str) -> Option<&'static str> {
    Some(match name {
        "u128" | "i128" => "XDR's longest integers have 64 bits; write two `u64`, or `[u8; 16]`",
        "usize" | "isize" => "the size of this type differs between machines; write `u32` or `u64`",
        "char" => "XDR has no character; write `u32`, or `String`",
        "HashMap" | "BTreeMap" => "XDR has no maps; write a `Vec` of a struct with a key and a value",
        "HashSet" | "BTreeSet" | "VecDeque" | "LinkedList" => "XDR has arrays only; write `Vec`",
        "Rc" | "Arc" => "XDR cannot say that values are shared; write the type itself, or `Box`",
        "Cow" => "write `String` or `Vec`",
        "Result" => {
            "only the result of a procedure can be a `Result`; declare an enum with `#[derive(stoop::Xdr)]`"
        }
        _ => return None,
    })
}
