//! Types: how Rust spells them, and how their values are written and read.

use super::Emitter;
use crate::model::{Kind, Length, Scalar, Type};
use crate::options::Strings;
use proc_macro2::{Literal, TokenStream};
use quote::quote;
use std::collections::HashSet;

/// A longer array is a `Vec`: values are moved, and live on the stack.
const ARRAY_MAX: u32 = 1024;

/// The lifetimes in the definition of a type.
pub(super) struct Generics {
    /// After its name where it is defined, and where it is decoded.
    pub(super) parameters: TokenStream,
    /// After its name elsewhere.
    pub(super) elided: TokenStream,
    /// Of the bytes that it is decoded from.
    pub(super) reader: TokenStream,
}

impl Emitter<'_> {
    /// The Rust type in a definition, where `'a` is the life of what it borrows.
    pub(super) fn rust(&self, ty: &Type) -> TokenStream {
        self.rust_with(ty, &quote!('a))
    }

    /// The Rust type with a lifetime for what it borrows.
    pub(super) fn rust_with(&self, ty: &Type, lifetime: &TokenStream) -> TokenStream {
        match ty {
            Type::Scalar(scalar) => self.scalar(*scalar),
            Type::Named(name) => self.named(name, lifetime),
            Type::External(rust) => rust.parse().expect("a Rust type was checked when the options were read"),
            Type::FixedOpaque(length) => self.array(&quote!(u8), length),
            Type::Opaque(_) | Type::String(_) => match (self.is_text(ty), self.borrows) {
                (true, true) => quote!(&#lifetime str),
                (true, false) => quote!(String),
                (false, true) => quote!(&#lifetime [u8]),
                (false, false) => quote!(Vec<u8>),
            },
            Type::Array(element, length) => self.array(&self.rust_with(element, lifetime), length),
            Type::Sequence(element, _) => {
                let element = self.rust_with(element, lifetime);
                quote!(Vec<#element>)
            }
            Type::Optional(value) => {
                let value = self.rust_with(value, lifetime);
                quote!(Option<#value>)
            }
            Type::Boxed(value) => {
                let value = self.rust_with(value, lifetime);
                quote!(Option<Box<#value>>)
            }
            Type::Chain(name) => {
                let name = self.named(name, lifetime);
                quote!(Chain<#name>)
            }
        }
    }

    fn scalar(&self, scalar: Scalar) -> TokenStream {
        match scalar {
            Scalar::Bool => quote!(bool),
            Scalar::I8 => quote!(i8),
            Scalar::U8 => quote!(u8),
            Scalar::I16 => quote!(i16),
            Scalar::U16 => quote!(u16),
            Scalar::I32 => quote!(i32),
            Scalar::U32 => quote!(u32),
            Scalar::I64 => quote!(i64),
            Scalar::U64 => quote!(u64),
            Scalar::F32 => quote!(f32),
            Scalar::F64 => quote!(f64),
            Scalar::Quadruple if self.interfaces => quote!(stoop::xdr::Quadruple),
            Scalar::Quadruple => quote!(stoop_xdr::Quadruple),
        }
    }

    /// A defined type, with the lifetime if it borrows.
    fn named(&self, name: &str, lifetime: &TokenStream) -> TokenStream {
        let ident = self.names.ty(name);
        if self.borrowing.contains(name) { quote!(#ident<#lifetime>) } else { quote!(#ident) }
    }

    /// The lifetimes of a type with such parts.
    pub(super) fn generics<'t>(&self, mut parts: impl Iterator<Item = &'t Type>) -> Generics {
        if parts.any(|part| borrows(part, self.borrows, &self.borrowing)) {
            Generics { parameters: quote!(<'a>), elided: quote!(<'_>), reader: quote!('a) }
        } else {
            Generics { parameters: quote!(), elided: quote!(), reader: quote!('_) }
        }
    }

    fn array(&self, element: &TokenStream, length: &Length) -> TokenStream {
        if is_long(length) { quote!(Vec<#element>) } else { self.fixed_array(element, length) }
    }

    /// An array however long.
    pub(super) fn fixed_array(&self, element: &TokenStream, length: &Length) -> TokenStream {
        let length = self.length(length);
        quote!([#element; #length])
    }

    /// A length as it is declared: a constant of any type of integers.
    pub(super) fn bare_length(&self, length: &Length) -> TokenStream {
        match &length.name {
            Some(name) => {
                let name = self.names.constant(name);
                quote!(#name)
            }
            None => self.length(length),
        }
    }

    /// A length as a `usize`.
    fn length(&self, length: &Length) -> TokenStream {
        match &length.name {
            Some(name) => {
                let name = self.names.constant(name);
                quote!(#name as usize)
            }
            None => {
                let value = Literal::u32_unsuffixed(length.value);
                quote!(#value)
            }
        }
    }

    fn bound(&self, bound: Option<&Length>) -> TokenStream {
        bound.map_or_else(|| quote!(UNBOUNDED), |bound| self.length(bound))
    }

    /// Whether a typedef of this type is a type of its own.
    pub(super) fn needs_type(&self, ty: &Type) -> bool {
        match ty {
            Type::FixedOpaque(_) | Type::Opaque(_) | Type::String(_) | Type::Sequence(..) => true,
            Type::Array(element, length) => is_long(length) || self.is_byte(element),
            _ => false,
        }
    }

    /// Whether a type is a byte in memory, of which arrays and vectors are not taken for what they are.
    fn is_byte(&self, ty: &Type) -> bool {
        match ty {
            Type::Scalar(Scalar::I8 | Scalar::U8) => true,
            Type::Named(name) => match &self.definitions[name.as_str()].kind {
                Kind::Typedef(target) => self.is_byte(target),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether a value is a Rust `String`.
    pub(super) fn is_text(&self, ty: &Type) -> bool {
        matches!(ty, Type::String(_)) && self.strings == Strings::Text
    }

    /// The statement that writes the value at `place`.
    pub(super) fn encode(&self, place: &TokenStream, ty: &Type) -> TokenStream {
        let is_reference = self.borrows && matches!(ty, Type::Opaque(_) | Type::String(_));
        let value = if is_reference { place.clone() } else { quote!(&#place) };
        self.encode_reference(&value, ty)
    }

    /// The same for a reference to the value.
    pub(super) fn encode_reference(&self, value: &TokenStream, ty: &Type) -> TokenStream {
        match ty {
            Type::FixedOpaque(length) => {
                let length = self.length(length);
                quote!(writer.opaque_fixed(#value, #length))
            }
            Type::Opaque(bound) => {
                let bound = self.bound(bound.as_ref());
                quote!(writer.opaque(#value, #bound))
            }
            Type::String(bound) => {
                let bound = self.bound(bound.as_ref());
                quote!(writer.string(#value, #bound))
            }
            Type::Sequence(_, bound) => {
                let bound = self.bound(bound.as_ref());
                quote!(writer.sequence(#value, #bound))
            }
            Type::Array(element, length) if is_long(length) || self.is_byte(element) => {
                let length = self.length(length);
                quote!(writer.array(#value, #length))
            }
            _ => quote!(writer.value(#value)),
        }
    }

    /// The expression that reads a value.
    pub(super) fn decode(&self, ty: &Type) -> TokenStream {
        match ty {
            Type::FixedOpaque(length) if is_long(length) => {
                let generic = match &length.name {
                    Some(_) => {
                        let length = self.length(length);
                        quote!({ #length })
                    }
                    None => self.length(length),
                };
                quote!(reader.opaque_fixed::<#generic>()?.to_vec())
            }
            Type::FixedOpaque(_) => quote!(*reader.opaque_fixed()?),
            Type::Opaque(bound) => {
                let (bound, owned) = (self.bound(bound.as_ref()), (!self.borrows).then(|| quote!(.to_vec())));
                quote!(reader.opaque(#bound)? #owned)
            }
            Type::String(bound) => {
                let bound = self.bound(bound.as_ref());
                match (self.strings, self.borrows) {
                    (Strings::Text, true) => quote!(reader.text(#bound)?),
                    (Strings::Text, false) => quote!(reader.text(#bound)?.to_owned()),
                    (Strings::Bytes, true) => quote!(reader.string(#bound)?),
                    (Strings::Bytes, false) => quote!(reader.string(#bound)?.to_vec()),
                }
            }
            Type::Sequence(_, bound) => {
                let bound = self.bound(bound.as_ref());
                quote!(reader.sequence(#bound)?)
            }
            Type::Array(_, length) if is_long(length) => {
                let length = self.length(length);
                quote!(reader.array(#length)?)
            }
            Type::Array(element, _) if self.is_byte(element) => quote!(reader.array_of()?),
            _ => quote!(reader.value()?),
        }
    }

    /// The length of the form, an expression of type `Layout`.
    pub(super) fn layout(&self, ty: &Type) -> TokenStream {
        match ty {
            Type::FixedOpaque(length) => {
                let length = self.length(length);
                quote!(Layout::opaque(#length))
            }
            Type::Array(element, length) => {
                let (element, length) = (self.layout(element), self.length(length));
                quote!(#element.array(#length))
            }
            Type::Named(name) => {
                let name = self.names.ty(name);
                quote!(#name::LAYOUT)
            }
            Type::Scalar(scalar) => {
                let rust = self.scalar(*scalar);
                quote!(#rust::LAYOUT)
            }
            Type::External(_) => {
                let rust = self.rust(ty);
                quote!(<#rust>::LAYOUT)
            }
            _ => quote!(Layout::variable(4)),
        }
    }
}

/// Whether a type borrows from what it was decoded from; `borrowing` are the defined types that do.
pub(super) fn borrows(ty: &Type, bytes_do: bool, borrowing: &HashSet<String>) -> bool {
    match ty {
        Type::Opaque(_) | Type::String(_) => bytes_do,
        Type::Scalar(_) | Type::FixedOpaque(_) | Type::External(_) => false,
        Type::Array(inner, _) | Type::Sequence(inner, _) | Type::Optional(inner) | Type::Boxed(inner) => {
            borrows(inner, bytes_do, borrowing)
        }
        Type::Named(name) | Type::Chain(name) => borrowing.contains(name),
    }
}

fn is_long(length: &Length) -> bool {
    length.value > ARRAY_MAX
}

/// Whether values are equal to themselves.
pub(super) fn is_integral(scalar: Scalar) -> bool {
    !matches!(scalar, Scalar::F32 | Scalar::F64)
}
