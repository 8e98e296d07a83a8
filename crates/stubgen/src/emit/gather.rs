//! Stubs of large calls: scalar arguments are borrowed from the caller's memory, and results are scattered there.
//!
//! Each is a function of its own beside the usual stub, so that a small call pays one comparison, or none if the sizes are
//! constants.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Lit;

use super::arguments::{outcome, read_others, receive, send};
use super::later;
use super::names::{Names, coming_back, local};
use crate::model::{Argument, Element, Mode, Procedure, Shape};

/// The arguments of a procedure that can be borrowed, in the order of their declaration.
fn borrowable(procedure: &Procedure) -> impl Iterator<Item = &Argument> {
    procedure.arguments.iter().filter(|argument| match (argument.mode, &argument.shape) {
        (Mode::In, Shape::Text) => true,
        (Mode::In | Mode::InOut | Mode::Out, Shape::Slice(element) | Shape::Array(element, _)) => {
            element.is_scalar
        }
        _ => false,
    })
}

/// The branch of a client method that makes a large call to another process; empty if no call of `procedure` can be large.
pub(super) fn call_if_large(index: usize, procedure: &Procedure, names: &Names) -> TokenStream {
    if borrowable(procedure).all(is_small) {
        return TokenStream::new();
    }
    let stub = &names.stub;
    let number = u16::try_from(index).expect("the number of procedures has been checked");
    let (returned, into_error, into_result) = outcome(&procedure.returns, names);
    let (route, call, result, writer) = (local("route"), local("call"), local("result"), local("arguments"));
    // A nested function can name the user's types; a closure would be inlined into the small call.
    let (large, gathered) = (format_ident!("__large"), local("gathered"));
    let is_large = [false, true].map(|is_out| {
        let sizes: Vec<_> =
            borrowable(procedure).filter(|each| (each.mode == Mode::Out) == is_out).map(size).collect();
        (!sizes.is_empty()).then(|| quote!(#(#sizes)+* >= #stub::BORROWED_MIN))
    });
    let is_large = is_large.into_iter().flatten();
    let parameters =
        procedure.arguments.iter().map(|Argument { name, declared, .. }| quote!(#name: #declared));
    let passed = procedure.arguments.iter().map(|argument| &argument.name);
    let made = borrowable(procedure).map(|argument| make(argument, names));
    let written = procedure.arguments.iter().map(|argument| write(argument, procedure, names));
    let placed = coming_back(procedure).filter(|each| each.is_written_in_place()).map(|argument| {
        let (index, ty) = (position(argument, procedure), element(argument));
        quote!(#gathered.place::<#ty>(#index);)
    });
    let decoded = decode(procedure, names);
    let transport = later::transport(
        &quote!(#call.transport_gathered(#writer, #gathered)),
        &into_error,
        procedure,
        names,
    );
    quote! {
        if #(#is_large)||* {
            #[cold]
            #[inline(never)]
            fn #large(#route: #stub::Remote<'_>, #(#parameters),*) -> #returned {
                let mut #call = #route.start(#number)#into_error?;
                let mut #gathered = [#(#made),*];
                let mut #gathered = #stub::GatherList::new(&mut #gathered, #call.can_gather());
                let #writer = {
                    let mut #writer = #call.arguments();
                    #(#written)*
                    #writer.finish()
                };
                #(#placed)*
                #transport
                let #result = &#call;
                #decoded
                #result.end(decoded) #into_result
            }
            return #large(#route, #(#passed),*);
        }
    }
}

/// Whether an argument is an array with too few bytes to be borrowed.
fn is_small(argument: &Argument) -> bool {
    // The largest scalar has 16 bytes.
    const SMALL: usize = 1440 / 16;
    let Shape::Array(_, len) = &argument.shape else { return false };
    let syn::Expr::Lit(literal) = &**len else { return false };
    matches!(&literal.lit, Lit::Int(len) if len.base10_parse().is_ok_and(|len: usize| len <= SMALL))
}

/// The expression for an argument's size in bytes.
fn size(argument: &Argument) -> TokenStream {
    let name = &argument.name;
    quote!(::core::mem::size_of_val(&*#name))
}

fn make(argument: &Argument, names: &Names) -> TokenStream {
    let (stub, name) = (&names.stub, &argument.name);
    match (argument.mode, &argument.shape) {
        (_, Shape::Text) => quote!(#stub::Borrowed::input(#name.as_bytes())),
        (Mode::In, _) => quote!(#stub::Borrowed::input(&#name[..])),
        _ => quote!(#stub::Borrowed::output(&mut #name[..])),
    }
}

/// The argument's index among the borrowable ones.
fn position(argument: &Argument, procedure: &Procedure) -> usize {
    borrowable(procedure).position(|each| std::ptr::eq(each, argument)).expect("the argument is borrowable")
}

/// The type of an argument's elements.
fn element(argument: &Argument) -> TokenStream {
    match &argument.shape {
        Shape::Slice(Element { ty, .. }) | Shape::Array(Element { ty, .. }, _) => quote!(#ty),
        _ => quote!(u8),
    }
}

/// The statement that writes an argument into the call packet, or borrows it.
fn write(argument: &Argument, procedure: &Procedure, names: &Names) -> TokenStream {
    if !borrowable(procedure).any(|each| std::ptr::eq(each, argument)) {
        return send(argument, names);
    }
    let (writer, gathered) = (local("arguments"), local("gathered"));
    let (index, ty) = (position(argument, procedure), element(argument));
    let write = match (argument.mode, &argument.shape) {
        (Mode::Out, Shape::Slice(_)) => format_ident!("capacity"),
        (Mode::Out, _) => return TokenStream::new(),
        (_, Shape::Slice(_) | Shape::Text) => format_ident!("sequence"),
        _ => format_ident!("elements"),
    };
    quote!(#gathered.#write::<#ty>(#index, &mut #writer);)
}

/// The expression that reads the part of the result that was not scattered.
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
