//! Structs.

use super::names::Taken;
use super::types::Generics;
use super::{Emitter, docs};
use crate::model::{Definition, Field, Structure, Type};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

impl Emitter<'_> {
    pub(super) fn structure(&self, definition: &Definition, structure: &Structure) -> TokenStream {
        let name = self.names.ty(&definition.name);
        let node = structure.is_node.then(|| {
            let link = docs::text("A node of a linked list, without the link to the next.");
            let blank = docs::text("");
            quote!(#blank #link)
        });
        let docs = docs::of(&definition.notes);
        let more = self.more_derives(structure.fields.iter().map(|field| &field.ty));
        let generics = self.generics(structure.fields.iter().map(|field| &field.ty));
        let Generics { parameters, elided, reader: lifetime } = generics;
        let fields = fields(&structure.fields, Taken::default());
        let declarations = fields.iter().map(|(name, field)| self.field(name, field));
        let layouts = fields.iter().map(|(_, field)| self.layout(&field.ty));
        let encodes = fields.iter().map(|(name, field)| self.encode(&quote!(self.#name), &field.ty));
        let decodes = fields.iter().map(|(name, field)| {
            let decode = self.decode(&field.ty);
            quote!(#name: #decode)
        });
        // A struct without fields has nothing to write or read.
        let (writer, reader) =
            if fields.is_empty() { (quote!(_), quote!(_)) } else { (quote!(writer), quote!(reader)) };
        quote! {
            #docs
            #node
            #[derive(Clone, Debug, PartialEq #more)]
            pub struct #name #parameters {
                #(#declarations,)*
            }

            impl Xdr for #name #elided {
                const LAYOUT: Layout = Layout::record(&[#(#layouts),*]);
            }
            impl Encode for #name #elided {
                #[inline]
                fn encode(&self, #writer: &mut Writer<'_>) {
                    #(#encodes;)*
                }
            }
            impl #parameters Decode<#lifetime> for #name #parameters {
                #[inline]
                fn decode(#reader: &mut Reader<#lifetime>) -> Result<Self, DecodeError> {
                    Ok(Self { #(#decodes,)* })
                }
            }
        }
    }

    fn field(&self, name: &Ident, field: &Field) -> TokenStream {
        let has_bound =
            matches!(&field.ty, Type::Opaque(Some(_)) | Type::String(Some(_)) | Type::Sequence(_, Some(_)));
        let docs = if has_bound { docs::with_declaration(&field.notes) } else { docs::of(&field.notes) };
        let rust = self.rust(&field.ty);
        quote!(#docs pub #name: #rust)
    }
}

/// Fields with their names in Rust, none of them one that is `taken`.
pub(super) fn fields(fields: &[Field], mut taken: Taken) -> Vec<(Ident, &Field)> {
    fields.iter().map(|field| (taken.field(&field.name), field)).collect()
}
