//! The server's half of marshaling a result: the arguments that come back, and the value returned.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;
use syn::ext::IdentExt;

use super::names::{Names, coming_back, encode, encode_all, form, local, whole};
use crate::model::{Argument, Mode, Procedure, Returns, Shape};

/// The local variable with the contents or the length of an argument written in place, until its position in the result packet is
/// known.
pub(super) fn incoming(argument: &Argument) -> Ident {
    format_ident!("incoming_{}", argument.name.unraw(), span = proc_macro2::Span::mixed_site())
}

/// The type of the elements of an argument written in place, their number, and the method of `Views` that gives them.
pub(super) fn room(argument: &Argument) -> (TokenStream, TokenStream, TokenStream) {
    let incoming = incoming(argument);
    match (&argument.shape, argument.mode) {
        (Shape::Array(element, len), _) => {
            let ty = &element.ty;
            (quote!(#ty), quote!({ #len }), quote!(array::<#ty, { #len }>()))
        }
        (Shape::Slice(element), Mode::Out) => {
            let ty = &element.ty;
            (quote!(#ty), quote!(#incoming), quote!(slice::<#ty>(#incoming)))
        }
        (Shape::Slice(element), _) => {
            let ty = &element.ty;
            (quote!(#ty), quote!(#incoming.len()), quote!(slice::<#ty>(#incoming.len())))
        }
        _ => unreachable!("only arrays and slices of scalars are written in place"),
    }
}

/// The statements that complete the result packet: after the arguments written in place come the others, then the value returned.
pub(super) fn put_all(procedure: &Procedure, names: &Names) -> TokenStream {
    let (result, writer, returned) = (local("result"), local("writer"), local("returned"));
    let put = coming_back(procedure).map(|argument| put(argument, names));
    let settled = settle_buffers(procedure);
    let value = match &procedure.returns {
        Returns::Nothing => quote!(let () = #returned;),
        returns => {
            let encode = encode(&returns.ty(), quote!(&#returned), &writer, names);
            quote!(#encode;)
        }
    };
    let resumed = has_results(procedure).then(|| {
        quote! {
            let #writer = #writer.progress();
            #result.resume(#writer);
        }
    });
    quote!(#settled #(#put)* #value #resumed)
}

/// The expression that completes the result packet if the answer has been given, and otherwise says how it will be completed.
pub(super) fn put_later(procedure: &Procedure, names: &Names) -> TokenStream {
    let (root, stub) = (&names.root, &names.stub);
    let (result, writer, returned) = (local("result"), local("writer"), local("returned"));
    let put = put_all(procedure, names);
    let restarted = has_results(procedure).then(|| quote!(let mut #writer = #result.restarted();));
    let (answer, taken) = with_form(&returned, quote!(#returned.in_form), names);
    quote! {
        #root::Deferred::put(
            #answer,
            #result,
            |#taken, #[allow(unused_variables)] #result: &mut #stub::Writer<'_>| {
                #restarted
                #put
                ::core::result::Result::Ok(())
            },
        )
    }
}

/// An answer that is written later, and the pattern of what is written then: with its form, if that is an older one.
pub(super) fn with_form(
    returned: &Ident,
    and_form: TokenStream,
    names: &Names,
) -> (TokenStream, TokenStream) {
    let form = form();
    match names.is_older {
        false => (quote!(#returned), quote!(#returned)),
        true => (quote!(#and_form(#form)), quote!((#returned, #form))),
    }
}

/// The statements that separate `&mut InPlace` arguments which the procedure may have exchanged.
fn settle_buffers(procedure: &Procedure) -> TokenStream {
    let is_buffer = |argument: &&Argument| matches!(argument.shape, Shape::Buffer(_));
    let buffers: Vec<_> = coming_back(procedure).filter(is_buffer).map(|argument| &argument.name).collect();
    match buffers.len() {
        0 | 1 => TokenStream::new(),
        _ => quote!(#(#buffers.settle();)*),
    }
}

fn put(argument: &Argument, names: &Names) -> TokenStream {
    let (name, writer) = (&argument.name, local("writer"));
    match &argument.shape {
        _ if argument.is_written_in_place() => {
            let (ty, ..) = room(argument);
            quote!(#name.finish::<#ty>();)
        }
        Shape::Slice(element) => {
            let encode_all = encode_all(&element.ty, quote!(&#name), &writer, names);
            quote!(#encode_all;)
        }
        Shape::Buffer(_) => quote!(#name.finish(&mut #writer);),
        shape => {
            let encode = encode(&whole(shape), quote!(&#name), &writer, names);
            quote!(#encode;)
        }
    }
}

/// Whether the result packet has any data.
pub(super) fn has_results(procedure: &Procedure) -> bool {
    !matches!(procedure.returns, Returns::Nothing) || procedure.arguments.iter().any(Argument::is_result)
}
