//! The procedures of a version: the trait that a server implements, and its calls and results as values.

use super::names::Taken;
use super::structures::fields;
use super::types::Generics;
use super::{Emitter, docs};
use crate::model::{Field, Kind, Procedure, Type, Version};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

/// A procedure with its names in Rust.
struct Entry<'m> {
    of: &'m Procedure,
    number: &'m Ident,
    method: Ident,
    variant: Ident,
    arguments: Vec<(Ident, &'m Field)>,
}

impl Emitter<'_> {
    pub(super) fn version(
        &mut self,
        version: &Version,
        program_name: &Ident,
        version_name: &Ident,
        numbers: &[Ident],
    ) -> TokenStream {
        let (mut methods, mut variants) = (Taken::default(), Taken::default());
        let entries = version.procedures.iter().zip(numbers).map(|(of, number)| Entry {
            of,
            number,
            method: methods.field(&of.name),
            variant: variants.variant(&of.name),
            arguments: fields(&of.arguments, Taken::beside_arguments()),
        });
        let entries: Vec<_> = entries.collect();
        let server = self.names.new_type(&version.name, "");
        let call = self.names.new_type(&version.name, "Call");
        let results = self.names.new_type(&version.name, "Results");
        let declaration = self.server(version, &server, &entries);
        let calls = self.calls(version, [&call, &results, &server], [program_name, version_name], &entries);
        let results = self.results(version, &results, &entries);
        quote!(#declaration #calls #results)
    }

    /// The trait.
    fn server(&self, version: &Version, name: &Ident, entries: &[Entry<'_>]) -> TokenStream {
        let docs = docs::text(&format!(
            "The procedures of version `{}`, as a server implements them.",
            version.name
        ));
        let methods = entries.iter().map(|entry| {
            let (docs, method) = (docs::with_declaration(&entry.of.notes), &entry.method);
            let arguments = entry.arguments.iter().map(|(name, field)| {
                let rust = self.parameter(&field.ty);
                quote!(#name: #rust)
            });
            let returns = entry.of.result.as_ref().map(|result| {
                // It can borrow from the server.
                let rust = self.rust_with(result, &quote!('_));
                quote!(-> #rust)
            });
            quote!(#docs fn #method(&self, #(#arguments),*) #returns;)
        });
        quote!(#docs pub trait #name { #(#methods)* })
    }

    /// Calls as values.
    fn calls(
        &self,
        version: &Version,
        [name, results, server]: [&Ident; 3],
        [program_name, version_name]: [&Ident; 2],
        entries: &[Entry<'_>],
    ) -> TokenStream {
        let docs = docs::text(&format!("A call of version `{}`, with its arguments.", version.name));
        let parts = entries.iter().flat_map(|entry| &entry.of.arguments).map(|argument| &argument.ty);
        let more = self.more_derives(parts.clone());
        let Generics { parameters, reader: lifetime, .. } = self.generics(parts);
        let result_parts = entries.iter().filter_map(|entry| entry.of.result.as_ref());
        let borrowed_results = self.generics(result_parts).parameters;
        // Results borrow from the server.
        let (run_generics, run_results, run_server) = if borrowed_results.is_empty() {
            (quote!(), quote!(#results), quote!(&impl #server))
        } else {
            (quote!(<'s>), quote!(#results<'s>), quote!(&'s impl #server))
        };
        let variants = entries.iter().map(|entry| self.call_variant(entry));
        let numbers = entries.iter().map(|entry| {
            let (variant, number) = (&entry.variant, entry.number);
            let rest = (!entry.arguments.is_empty()).then(|| quote!((..)));
            quote!(Self::#variant #rest => #number)
        });
        let encodes = entries.iter().map(|entry| self.encode_arguments(entry));
        let decodes = entries.iter().map(|entry| self.decode_arguments(entry));
        let runs = entries.iter().map(|entry| self.run(entry, results));
        let has_arguments = entries.iter().any(|entry| !entry.arguments.is_empty());
        let (writer, reader) =
            if has_arguments { (quote!(writer), quote!(reader)) } else { (quote!(_), quote!(_)) };
        quote! {
            #docs
            #[derive(Clone, Debug, PartialEq #more)]
            pub enum #name #parameters { #(#variants,)* }

            impl #parameters #name #parameters {
                /// The number of the program.
                pub const PROGRAM: u32 = #program_name;
                /// The number of the version.
                pub const VERSION: u32 = #version_name;

                /// The number of the procedure.
                pub fn procedure(&self) -> u32 {
                    match self { #(#numbers,)* }
                }

                /// Writes the arguments.
                pub fn encode(&self, #writer: &mut Writer<'_>) {
                    match self { #(#encodes)* }
                }

                /// Reads the arguments of a call; `None` if the version has no procedure of this number.
                pub fn decode(procedure: u32, #reader: &mut Reader<#lifetime>) -> Result<Option<Self>, DecodeError> {
                    let call = match procedure {
                        #(#decodes,)*
                        _ => return Ok(None),
                    };
                    Ok(Some(call))
                }

                /// Runs the procedure.
                pub fn run #run_generics(&self, server: #run_server) -> #run_results {
                    match self { #(#runs)* }
                }
            }
        }
    }

    fn call_variant(&self, entry: &Entry<'_>) -> TokenStream {
        let (docs, variant) = (docs::declaration(&entry.of.notes), &entry.variant);
        let types = entry.arguments.iter().map(|(_, field)| self.rust(&field.ty));
        let content = (!entry.arguments.is_empty()).then(|| quote!((#(#types),*)));
        quote!(#docs #variant #content)
    }

    fn encode_arguments(&self, entry: &Entry<'_>) -> TokenStream {
        let pattern = entry.pattern();
        let writes =
            entry.arguments.iter().map(|(name, field)| self.encode_reference(&quote!(#name), &field.ty));
        quote!(#pattern => { #(#writes;)* })
    }

    fn decode_arguments(&self, entry: &Entry<'_>) -> TokenStream {
        let (variant, number) = (&entry.variant, entry.number);
        let reads = entry.arguments.iter().map(|(_, field)| self.decode(&field.ty));
        let content = (!entry.arguments.is_empty()).then(|| quote!((#(#reads),*)));
        quote!(#number => Self::#variant #content)
    }

    /// The call of the server's method.
    fn run(&self, entry: &Entry<'_>, results: &Ident) -> TokenStream {
        let (pattern, variant, method) = (entry.pattern(), &entry.variant, &entry.method);
        let arguments = entry
            .arguments
            .iter()
            .map(|(name, field)| if self.is_copy(&field.ty) { quote!(*#name) } else { quote!(#name) });
        let call = quote!(server.#method(#(#arguments),*));
        match entry.of.result {
            Some(_) => quote!(#pattern => #results::#variant(#call),),
            None => quote!(#pattern => { #call; #results::#variant }),
        }
    }

    /// Results as values.
    fn results(&self, version: &Version, name: &Ident, entries: &[Entry<'_>]) -> TokenStream {
        let docs = docs::text(&format!("What a procedure of version `{}` returned.", version.name));
        let parts = entries.iter().filter_map(|entry| entry.of.result.as_ref());
        let more = self.more_derives(parts.clone());
        let Generics { parameters, reader: lifetime, .. } = self.generics(parts);
        let variants = entries.iter().map(|entry| {
            let (docs, variant) =
                (docs::text(&format!("The result of `{}`.", entry.of.name)), &entry.variant);
            let content = entry.of.result.as_ref().map(|result| {
                let rust = self.rust(result);
                quote!((#rust))
            });
            quote!(#docs #variant #content)
        });
        let encodes = entries.iter().map(|entry| {
            let variant = &entry.variant;
            match &entry.of.result {
                Some(result) => {
                    let write = self.encode_reference(&quote!(result), result);
                    quote!(Self::#variant(result) => #write,)
                }
                None => quote!(Self::#variant => {}),
            }
        });
        let decodes = entries.iter().map(|entry| {
            let (variant, number) = (&entry.variant, entry.number);
            let content = entry.of.result.as_ref().map(|result| {
                let read = self.decode(result);
                quote!((#read))
            });
            quote!(#number => Self::#variant #content)
        });
        let has_results = entries.iter().any(|entry| entry.of.result.is_some());
        let (writer, reader) =
            if has_results { (quote!(writer), quote!(reader)) } else { (quote!(_), quote!(_)) };
        quote! {
            #docs
            #[derive(Clone, Debug, PartialEq #more)]
            pub enum #name #parameters { #(#variants,)* }

            impl #parameters #name #parameters {
                /// Writes the result.
                pub fn encode(&self, #writer: &mut Writer<'_>) {
                    match self { #(#encodes)* }
                }

                /// Reads the result of a call of this procedure; `None` if the version has none of this number.
                pub fn decode(procedure: u32, #reader: &mut Reader<#lifetime>) -> Result<Option<Self>, DecodeError> {
                    let results = match procedure {
                        #(#decodes,)*
                        _ => return Ok(None),
                    };
                    Ok(Some(results))
                }
            }
        }
    }

    /// How an argument is passed: numbers as they are, other values by reference.
    pub(super) fn parameter(&self, ty: &Type) -> TokenStream {
        match ty {
            Type::String(_) if self.is_text(ty) => quote!(&str),
            Type::String(_) | Type::Opaque(_) => quote!(&[u8]),
            Type::Sequence(element, _) => {
                let element = self.rust_with(element, &quote!('_));
                quote!(&[#element])
            }
            _ => {
                let (rust, reference) =
                    (self.rust_with(ty, &quote!('_)), (!self.is_copy(ty)).then(|| quote!(&)));
                quote!(#reference #rust)
            }
        }
    }

    fn is_copy(&self, ty: &Type) -> bool {
        match ty {
            Type::Scalar(_) => true,
            Type::Named(name) => match &self.definitions[name.as_str()].kind {
                Kind::Enumeration(_) => true,
                Kind::Typedef(target) => self.is_copy(target),
                _ => false,
            },
            _ => false,
        }
    }
}

impl Entry<'_> {
    /// The pattern of the call's variant, with a name for each argument.
    fn pattern(&self) -> TokenStream {
        let (variant, names) = (&self.variant, self.arguments.iter().map(|(name, _)| name));
        let content = (!self.arguments.is_empty()).then(|| quote!((#(#names),*)));
        quote!(Self::#variant #content)
    }
}
