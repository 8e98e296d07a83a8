//! A version of a program as an interface of Stoop: a trait under `#[stoop::interface]`, which makes its stubs.

use super::names::Taken;
use super::structures::fields;
use super::{Emitter, docs};
use crate::model::{Field, Procedure, Scalar, Type, Version};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

impl Emitter<'_> {
    pub(super) fn interface(
        &mut self,
        version: &Version,
        program_name: &Ident,
        version_name: &Ident,
        numbers: &[Ident],
    ) -> TokenStream {
        let name = self.names.new_interface(&version.name);
        let docs = docs::text(&format!(
            "The procedures of version `{}`, as a client calls them. A server implements those that it has (others: PROC_UNAVAIL).",
            version.name
        ));
        let mut methods = Taken::by_clients();
        let procedures = version.procedures.iter().zip(numbers);
        let methods: Vec<_> = procedures
            .map(|(procedure, number)| self.method(procedure, number, &methods.field(&procedure.name)))
            .collect();
        quote! {
            #docs
            #[allow(unused_variables)]
            #[stoop::interface(program = #program_name, version = #version_name)]
            pub trait #name { #(#methods)* }
        }
    }

    fn method(&self, procedure: &Procedure, number: &Ident, name: &Ident) -> TokenStream {
        let docs = docs::with_declaration(&procedure.notes);
        let arguments = fields(&procedure.arguments, Taken::default());
        let arguments = arguments.iter().map(|(name, field)| self.argument(name, field));
        let returns = procedure.result.as_ref().map(|result| {
            let rust = self.whole(result);
            quote!(-> #rust)
        });
        let marks = procedure.result.as_ref().map(|result| self.marks(result));
        quote!(#docs #[procedure(#number)] #marks fn #name(&self, #(#arguments),*) #returns { stoop::onc::unavailable() })
    }

    fn argument(&self, name: &Ident, field: &Field) -> TokenStream {
        let (rust, marks) = (self.parameter(&field.ty), self.marks(&field.ty));
        let rust = if self.is_array(&field.ty) {
            let array = self.whole(&field.ty);
            quote!(&#array)
        } else {
            rust
        };
        quote!(#marks #name: #rust)
    }

    /// The type of a whole argument or result: here an array is one however long, so that its length is known.
    fn whole(&self, ty: &Type) -> TokenStream {
        match ty {
            Type::FixedOpaque(length) => self.fixed_array(&quote!(u8), length),
            Type::Array(element, length) => self.fixed_array(&self.rust(element), length),
            _ => self.rust(ty),
        }
    }

    fn is_array(&self, ty: &Type) -> bool {
        matches!(ty, Type::FixedOpaque(_) | Type::Array(..))
    }

    /// The facts that the Rust type does not show.
    fn marks(&self, ty: &Type) -> TokenStream {
        let (bound, element) = match ty {
            Type::Opaque(bound) | Type::String(bound) => (bound.as_ref(), None),
            Type::Sequence(element, bound) => (bound.as_ref(), Some(element)),
            Type::Array(element, _) => (None, Some(element)),
            _ => (None, None),
        };
        let max = bound.map(|bound| {
            let max = self.bare_length(bound);
            quote!(max = #max)
        });
        let is_byte = element.is_some_and(|element| matches!(**element, Type::Scalar(Scalar::U8)));
        let marks: Vec<_> = max.into_iter().chain(is_byte.then(|| quote!(chars))).collect();
        if marks.is_empty() { quote!() } else { quote!(#[xdr(#(#marks),*)]) }
    }
}
