//! Types: how Rust spells them, and how their values are written and read.

use super::Emitter;
use crate::model::{Kind, Length, Scalar, Type};
use crate::options::Strings;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// A longer array is a `Vec`: values are moved, and live on the stack.
const ARRAY_MAX: u32 = 1024;

impl Emitter<'_> {
    /// The Rust type.
    pub(super) fn rust(&self, ty: &Type) -> TokenStream {
        match ty {
            Type::Scalar(scalar) => self::scalar(*scalar),
            Type::Named(name) => {
                let name = self.names.ty(name);
                quote!(#name)
            }
            Type::External(rust) => rust.parse().expect("a Rust type was checked when the options were read"),
            Type::FixedOpaque(length) => self.array(&quote!(u8), length),
            Type::Opaque(_) => quote!(Vec<u8>),
            Type::String(_) => match self.strings {
                Strings::Text => quote!(String),
                Strings::Bytes => quote!(Vec<u8>),
            },
            Type::Array(element, length) => self.array(&self.rust(element), length),
            Type::Sequence(element, _) => {
                let element = self.rust(element);
                quote!(Vec<#element>)
            }
            Type::Optional(value) => {
                let value = self.rust(value);
                quote!(Option<#value>)
            }
            Type::Boxed(value) => {
                let value = self.rust(value);
                quote!(Option<Box<#value>>)
            }
            Type::Chain(name) => {
                let name = self.names.ty(name);
                quote!(Chain<#name>)
            }
        }
    }

    fn array(&self, element: &TokenStream, length: &Length) -> TokenStream {
        if is_long(length) {
            return quote!(Vec<#element>);
        }
        let length = self.length(length);
        quote!([#element; #length])
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
        self.encode_reference(&quote!(&#place), ty)
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
                let bound = self.bound(bound.as_ref());
                quote!(reader.opaque(#bound)?.to_vec())
            }
            Type::String(bound) => {
                let bound = self.bound(bound.as_ref());
                match self.strings {
                    Strings::Text => quote!(reader.text(#bound)?.to_owned()),
                    Strings::Bytes => quote!(reader.string(#bound)?.to_vec()),
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
            Type::Scalar(_) | Type::Named(_) | Type::External(_) => {
                let rust = self.rust(ty);
                // A path of one word needs no brackets.
                if matches!(ty, Type::External(_)) { quote!(<#rust>::LAYOUT) } else { quote!(#rust::LAYOUT) }
            }
            _ => quote!(Layout::variable(4)),
        }
    }
}

fn is_long(length: &Length) -> bool {
    length.value > ARRAY_MAX
}

fn scalar(scalar: Scalar) -> TokenStream {
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
        Scalar::Quadruple => quote!(stoop_xdr::Quadruple),
    }
}

/// Whether values are equal to themselves.
pub(super) fn is_integral(scalar: Scalar) -> bool {
    !matches!(scalar, Scalar::F32 | Scalar::F64)
}
