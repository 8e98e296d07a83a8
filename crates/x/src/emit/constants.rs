//! Constants, and typedefs.

use super::types::Generics;
use super::{Emitter, docs};
use crate::expression::Value;
use crate::model::{Definition, Type};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

impl Emitter<'_> {
    pub(super) fn number(&self, definition: &Definition, value: Value) -> TokenStream {
        let docs = docs::of(&definition.notes);
        let name = self.names.constant(&definition.name);
        let ty = constant_type(value);
        let value = literal(value, &definition.notes.declaration);
        quote!(#docs pub const #name: #ty = #value;)
    }

    pub(super) fn constant_text(&self, definition: &Definition, text: &str) -> TokenStream {
        let docs = docs::of(&definition.notes);
        let name = self.names.constant(&definition.name);
        let text = unescaped(text);
        quote!(#docs pub const #name: &str = #text;)
    }

    /// Another name; or a type of its own where a bound has to be kept, or where the Rust type has no XDR form by itself.
    pub(super) fn typedef(&self, definition: &Definition, ty: &Type) -> TokenStream {
        let docs = docs::with_declaration(&definition.notes);
        let name = self.names.ty(&definition.name);
        let rust = self.rust(ty);
        let Generics { parameters, elided, reader } = self.generics([ty].into_iter());
        if !self.needs_type(ty) {
            return quote!(#docs pub type #name #parameters = #rust;);
        }
        let (layout, encode, decode) = (self.layout(ty), self.encode(&quote!(self.0), ty), self.decode(ty));
        let more = self.more_derives([ty].into_iter());
        let from_text = (self.is_text(ty) && !self.borrows).then(|| {
            quote! {
                impl From<&str> for #name {
                    fn from(value: &str) -> Self {
                        Self(value.to_owned())
                    }
                }
            }
        });
        quote! {
            #docs
            #[derive(Clone, Debug, PartialEq #more)]
            pub struct #name #parameters(pub #rust);

            impl #parameters From<#rust> for #name #parameters {
                fn from(value: #rust) -> Self {
                    Self(value)
                }
            }
            #from_text
            impl Xdr for #name #elided {
                const LAYOUT: Layout = #layout;
            }
            impl Encode for #name #elided {
                #[inline]
                fn encode(&self, writer: &mut Writer<'_>) {
                    #encode;
                }
            }
            impl #parameters Decode<#reader> for #name #parameters {
                #[inline]
                fn decode(reader: &mut Reader<#reader>) -> Result<Self, DecodeError> {
                    Ok(Self(#decode))
                }
            }
        }
    }
}

/// The smallest of these types that has the value, so that constants of one kind mostly have one type.
fn constant_type(value: Value) -> TokenStream {
    if u32::try_from(value).is_ok() {
        quote!(u32)
    } else if i32::try_from(value).is_ok() {
        quote!(i32)
    } else if u64::try_from(value).is_ok() {
        quote!(u64)
    } else if i64::try_from(value).is_ok() {
        quote!(i64)
    } else {
        quote!(i128)
    }
}

/// The value, in hexadecimal or octal digits if it is declared so.
fn literal(value: Value, declaration: &str) -> TokenStream {
    let declared =
        declaration.trim_end_matches(';').rsplit(' ').next().unwrap_or_default().to_ascii_lowercase();
    let (prefix, radix, digits) = match declared.strip_prefix("0x") {
        Some(digits) => ("0x", 16, digits),
        None => ("0o", 8, declared.strip_prefix('0').unwrap_or_default()),
    };
    match Value::from_str_radix(digits, radix) {
        Ok(same) if same == value => format!("{prefix}{digits}").parse().expect("digits are a literal"),
        _ => number(value),
    }
}

/// A number without a suffix, with its sign.
pub(super) fn number(value: Value) -> TokenStream {
    let digits = Literal::u128_unsuffixed(value.unsigned_abs());
    if value < 0 { quote!(-#digits) } else { quote!(#digits) }
}

/// A text without C's escapes.
fn unescaped(text: &str) -> String {
    let mut unescaped = String::new();
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        unescaped.push(match c {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('0') => '\0',
                Some(other) => other,
                None => '\\',
            },
            c => c,
        });
    }
    unescaped
}
