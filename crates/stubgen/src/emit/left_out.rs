//! Arguments that older forms of a procedure do not have: one that has its default is left out, and the server gives it its default.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Type;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::names::{Names, form, local};
use crate::model::{Argument, Mode, Shape};
use crate::since::Since;

/// The statement that writes an argument, for which `sent` stands, if the form has it.
pub(super) fn send(argument: &Argument, sent: TokenStream, names: &Names) -> TokenStream {
    let Some(Since { number, may_drop, .. }) = &argument.since else { return sent };
    let (form, writer) = (form(), local("arguments"));
    if *may_drop {
        return quote!(if #form.has(#number) { #sent });
    }
    let (item, is_default) = (argument.name.unraw().to_string(), is_default(argument, names));
    quote! {
        if #form.has(#number) {
            #sent
        } else {
            #writer.leave_out(#form, (#item, #number), || #is_default);
        }
    }
}

/// The expression whether an argument has its default.
fn is_default(argument: &Argument, names: &Names) -> TokenStream {
    let (stub, name) = (&names.stub, &argument.name);
    match (argument.mode, &argument.shape) {
        (Mode::OptionalIn, _) => quote!(#name.is_none()),
        (_, Shape::Slice(_)) => quote!(#name.is_empty()),
        (_, Shape::Text) => {
            let default = default_text(argument);
            quote!(*#name == *#default)
        }
        (mode, shape) => {
            let ty = whole(shape);
            let (default, value) =
                (default(argument, ty), if mode == Mode::Value { quote!(&) } else { quote!() });
            quote_spanned!(ty.span()=> #stub::is_default::<#ty>(#value #name, &#default))
        }
    }
}

/// The statement that reads an argument, for which `taken` stands, if the form has it, and otherwise gives it its default.
pub(super) fn take(argument: &Argument, taken: TokenStream, names: &Names) -> TokenStream {
    let Some(Since { number, .. }) = &argument.since else { return taken };
    let (stub, name, form) = (&names.stub, &argument.name, form());
    let default = match (argument.mode, &argument.shape) {
        (Mode::OptionalIn, _) => quote!(::core::option::Option::None),
        (_, Shape::Slice(element)) if element.is_scalar => quote!(#stub::View::InPlace(&[])),
        (_, Shape::Slice(_)) => quote!(::std::vec::Vec::new()),
        (_, Shape::Text) => default_text(argument),
        (_, shape) => default(argument, whole(shape)),
    };
    quote! {
        let #name = if #form.has(#number) {
            #taken
            #name
        } else {
            #default
        };
    }
}

fn default(argument: &Argument, ty: &Type) -> TokenStream {
    match argument.since.as_ref().and_then(|since| since.default.as_ref()) {
        Some(value) => quote_spanned!(value.span()=> { let default: #ty = #value; default }),
        None => quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default()),
    }
}

fn default_text(argument: &Argument) -> TokenStream {
    match argument.since.as_ref().and_then(|since| since.default.as_ref()) {
        Some(value) => quote_spanned!(value.span()=> { let default: &str = #value; default }),
        None => quote!(""),
    }
}

/// The type of an argument; those of other shapes have been refused or have no type of their own.
fn whole(shape: &Shape) -> &Type {
    match shape {
        Shape::Whole(ty) => ty,
        _ => unreachable!("it has been refused"),
    }
}
