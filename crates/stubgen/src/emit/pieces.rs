//! Large calls: arguments of scalars stay in the caller's memory, and results land there.
//!
//! Emitted beside the usual call, and apart from it, so that a small call pays one comparison, or none where the sizes
//! are constants.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Lit;

use super::client::{outcome, read_others, receive, send};
use super::{Names, coming_back, local};
use crate::model::{Argument, Element, Mode, Procedure, Shape};

/// The arguments of a procedure that can be pieces, in the order of their declaration.
fn pieces(procedure: &Procedure) -> impl Iterator<Item = &Argument> {
    procedure.arguments.iter().filter(|argument| match (argument.mode, &argument.shape) {
        (Mode::In, Shape::Text) => true,
        (Mode::In | Mode::InOut | Mode::Out, Shape::Slice(element) | Shape::Array(element, _)) => {
            element.is_scalar
        }
        _ => false,
    })
}

/// Makes the call of `procedure` here if it is large, where `route` leads to another process; nothing if it never is.
pub(super) fn call_if_large(index: usize, procedure: &Procedure, names: &Names) -> TokenStream {
    if pieces(procedure).all(is_small) {
        return TokenStream::new();
    }
    let stub = &names.stub;
    let number = u16::try_from(index).expect("the number of procedures has been checked");
    let (returned, into_error, into_result) = outcome(&procedure.returns, names);
    let (route, call, result, writer) = (local("route"), local("call"), local("result"), local("arguments"));
    // An item, which is not hidden from what the user's types name.
    let (large, lent) = (format_ident!("__large"), local("lent"));
    let is_large = [false, true].map(|is_out| {
        let sizes: Vec<_> =
            pieces(procedure).filter(|each| (each.mode == Mode::Out) == is_out).map(size).collect();
        (!sizes.is_empty()).then(|| quote!(#(#sizes)+* >= #stub::LENT_MIN))
    });
    let is_large = is_large.into_iter().flatten();
    let parameters =
        procedure.arguments.iter().map(|Argument { name, declared, .. }| quote!(#name: #declared));
    let passed = procedure.arguments.iter().map(|argument| &argument.name);
    let made = pieces(procedure).map(|argument| make(argument, names));
    let written = procedure.arguments.iter().map(|argument| write(argument, procedure, names));
    let placed = coming_back(procedure).filter(|each| each.is_written_in_place()).map(|argument| {
        let (index, ty) = (position(argument, procedure), element(argument));
        quote!(#lent.place::<#ty>(#index);)
    });
    let decoded = decode(procedure, names);
    quote! {
        if #(#is_large)||* {
            #[cold]
            #[inline(never)]
            fn #large(#route: #stub::Remote<'_>, #(#parameters),*) -> #returned {
                let mut #call = #route.start(#number)#into_error?;
                let mut #lent = [#(#made),*];
                let mut #lent = #stub::GatherList::new(&mut #lent, #call.can_gather());
                let #writer = {
                    let mut #writer = #call.arguments();
                    #(#written)*
                    #writer.finish()
                };
                #(#placed)*
                let #result = #call.transport_gathered(#writer, #lent)#into_error?;
                #decoded
                #result.end(decoded) #into_result
            }
            return #large(#route, #(#passed),*);
        }
    }
}

/// Whether an argument is an array that is seen to be too small to be lent.
fn is_small(argument: &Argument) -> bool {
    // The largest scalar has 16 bytes.
    const SMALL: usize = 1440 / 16;
    let Shape::Array(_, len) = &argument.shape else { return false };
    let syn::Expr::Lit(literal) = len else { return false };
    matches!(&literal.lit, Lit::Int(len) if len.base10_parse().is_ok_and(|len: usize| len <= SMALL))
}

/// The expression for the bytes of a piece.
fn size(argument: &Argument) -> TokenStream {
    let name = &argument.name;
    quote!(::core::mem::size_of_val(&*#name))
}

fn make(argument: &Argument, names: &Names) -> TokenStream {
    let (stub, name) = (&names.stub, &argument.name);
    match (argument.mode, &argument.shape) {
        (_, Shape::Text) => quote!(#stub::Piece::input(#name.as_bytes())),
        (Mode::In, _) => quote!(#stub::Piece::input(&#name[..])),
        _ => quote!(#stub::Piece::scatter_len(&mut #name[..])),
    }
}

/// Which of the pieces an argument is.
fn position(argument: &Argument, procedure: &Procedure) -> usize {
    pieces(procedure)
        .position(|each| std::ptr::eq(each, argument))
        .expect("the argument is one of the pieces")
}

/// The type of the elements of a piece.
fn element(argument: &Argument) -> TokenStream {
    match &argument.shape {
        Shape::Slice(Element { ty, .. }) | Shape::Array(Element { ty, .. }, _) => quote!(#ty),
        _ => quote!(u8),
    }
}

/// Writes an argument into the call packet, or what is left of it there.
fn write(argument: &Argument, procedure: &Procedure, names: &Names) -> TokenStream {
    if !pieces(procedure).any(|each| std::ptr::eq(each, argument)) {
        return send(argument, names);
    }
    let (writer, lent) = (local("arguments"), local("lent"));
    let (index, ty) = (position(argument, procedure), element(argument));
    let write = match (argument.mode, &argument.shape) {
        (Mode::Out, Shape::Slice(_)) => format_ident!("capacity"),
        (Mode::Out, _) => return TokenStream::new(),
        (_, Shape::Slice(_) | Shape::Text) => format_ident!("sequence"),
        _ => format_ident!("elements"),
    };
    quote!(#lent.#write::<#ty>(#index, &mut #writer);)
}

/// Reads what has come back and not scattered yet.
fn decode(procedure: &Procedure, names: &Names) -> TokenStream {
    let stub = &names.stub;
    let (reader, result) = (local("results"), local("result"));
    let (in_place, others): (Vec<_>, Vec<_>) =
        coming_back(procedure).partition(|argument| argument.is_written_in_place());
    let in_place = in_place.into_iter().map(|argument| receive(argument, names));
    let others = read_others(others.into_iter(), procedure, names);
    let ty = procedure.returns.ty();
    quote! {
        let decoded = (|| -> ::core::result::Result<#ty, #stub::DecodeError> {
            let mut #reader = match #result.scattered() {
                ::core::option::Option::Some(#reader) => #reader,
                ::core::option::Option::None => {
                    #[allow(unused_mut)]
                    let mut #reader = #result.reader();
                    #(#in_place)*
                    #reader
                }
            };
            #others
        })();
    }
}
