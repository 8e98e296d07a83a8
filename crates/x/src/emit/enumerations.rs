//! Enumerations.

use super::names::Taken;
use super::{Emitter, docs};
use crate::model::{Definition, Enumerator};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::quote;

impl Emitter<'_> {
    pub(super) fn enumeration(&self, definition: &Definition, enumerators: &[Enumerator]) -> TokenStream {
        let name = self.names.ty(&definition.name);
        let docs = docs::of(&definition.notes);
        let all = variants(enumerators);
        let firsts: Vec<_> = all.iter().filter(|variant| variant.is_first).collect();
        let declarations = firsts.iter().map(|variant| {
            let (docs, name, value) = (docs::of(&variant.of.notes), &variant.name, literal(variant.of.value));
            quote!(#docs #name = #value)
        });
        let matches = firsts.iter().map(|variant| {
            let (name, value) = (&variant.name, literal(variant.of.value));
            quote!(#value => Ok(Self::#name))
        });
        let others = second_names(name, &all);
        let (original, native) = (&definition.name, self.native());
        quote! {
            #docs
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash #native)]
            #[repr(i32)]
            pub enum #name {
                #(#declarations,)*
            }

            #others
            impl From<#name> for i32 {
                fn from(value: #name) -> i32 {
                    value as i32
                }
            }
            impl TryFrom<i32> for #name {
                type Error = i32;

                fn try_from(number: i32) -> Result<Self, i32> {
                    match number {
                        #(#matches,)*
                        other => Err(other),
                    }
                }
            }
            impl Xdr for #name {
                const LAYOUT: Layout = Layout::fixed(4);
            }
            impl Encode for #name {
                #[inline]
                fn encode(&self, writer: &mut Writer<'_>) {
                    writer.i32(*self as i32);
                }
            }
            impl Decode<'_> for #name {
                #[inline]
                fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                    let number = reader.i32()?;
                    Self::try_from(number).map_err(|number| reader.unknown_value(#original, number))
                }
            }
        }
    }

    /// The variant for a number of the enumeration called `name`.
    pub(super) fn variant(&self, name: &str, value: i128) -> Ident {
        let crate::model::Kind::Enumeration(enumerators) = &self.definitions[name].kind else {
            unreachable!("the selector of a union is an enumeration")
        };
        let mut variants = variants(enumerators).into_iter();
        let variant = variants.find(|variant| i128::from(variant.of.value) == value);
        variant.expect("labels were checked against the enumeration").name
    }
}

/// A value of an enumeration in Rust.
struct Variant<'m> {
    name: Ident,
    of: &'m Enumerator,
    /// Whether no value before it has the same number.
    is_first: bool,
}

fn variants(enumerators: &[Enumerator]) -> Vec<Variant<'_>> {
    let mut taken = Taken::default();
    let mut variants: Vec<Variant<'_>> = Vec::new();
    for of in enumerators {
        let is_first = !variants.iter().any(|variant| variant.of.value == of.value);
        variants.push(Variant { name: taken.variant(&of.name), of, is_first });
    }
    variants
}

/// Constants for values that have the number of one before them.
fn second_names(name: &Ident, all: &[Variant<'_>]) -> TokenStream {
    let mut taken = Taken::default();
    let others = all.iter().filter(|variant| !variant.is_first).map(|other| {
        let first = all.iter().find(|variant| variant.of.value == other.of.value);
        let first = &first.expect("it is not the first with this number").name;
        let (docs, name) = (docs::of(&other.of.notes), taken.constant(&other.of.name));
        quote!(#docs pub const #name: Self = Self::#first;)
    });
    let others: Vec<_> = others.collect();
    if others.is_empty() { quote!() } else { quote!(impl #name { #(#others)* }) }
}

fn literal(value: i32) -> TokenStream {
    let digits = Literal::u32_unsuffixed(value.unsigned_abs());
    if value < 0 { quote!(-#digits) } else { quote!(#digits) }
}
