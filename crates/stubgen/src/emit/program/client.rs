//! The client of a program: writes arguments, reads results.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;

use super::{form, form_of, outs};
use crate::emit::names::named;
use crate::emit::names::{Names, local};
use crate::model::{Argument, Interface, Mode, Number, Procedure, Returns, Shape, some_value};
use crate::xdr::Marks;

/// The expression for a call's arguments, as a value with an XDR form.
fn write_arguments(procedure: &Procedure, names: &Names) -> TokenStream {
    let (xdr, writer) = (&names.xdr, local("writer"));
    let written = procedure.arguments.iter().map(|argument| write_argument(argument, &writer));
    let onc = &names.onc;
    quote! {
        &#onc::stub::Arguments(|#[allow(unused_variables)] #writer: &mut #xdr::Writer<'_>| { #(#written)* })
    }
}

fn write_argument(argument: &Argument, writer: &Ident) -> TokenStream {
    let name = &argument.name;
    let write = |place| form(argument).write(&place, writer);
    match argument.mode {
        Mode::Value => write(quote!(&#name)),
        Mode::In => write(quote!(#name)),
        Mode::InOut => write(quote!(&*#name)),
        Mode::Out => TokenStream::new(),
        Mode::OptionalIn => {
            let some = write(quote!(#name));
            quote! {
                #writer.value::<bool>(&#name.is_some());
                if let ::core::option::Option::Some(#name) = #name { #some }
            }
        }
    }
}

/// The local variable with the length of a slice that comes back.
fn len_name(argument: &Argument) -> Ident {
    format_ident!("len_of_{}", argument.name.unraw(), span = proc_macro2::Span::mixed_site())
}

/// The statements that remember the lengths of slices that come back.
fn lens(procedure: &Procedure) -> TokenStream {
    let slices = outs(procedure).filter(|argument| matches!(argument.shape, Shape::Slice(_)));
    let lens = slices.map(|argument| {
        let (name, len) = (&argument.name, len_name(argument));
        quote!(let #len = #name.len();)
    });
    quote!(#(#lens)*)
}

/// The closure that reads a result: a tuple of the value returned and the arguments that come back.
fn read_results(procedure: &Procedure, names: &Names) -> TokenStream {
    let (xdr, reader) = (&names.xdr, local("reader").to_token_stream());
    let (returned, reads) =
        (read_returned(procedure, &reader), outs(procedure).map(|out| read_out(out, &reader)));
    quote! {
        move |#[allow(unused_variables)] #reader: &mut #xdr::Reader<'_>| {
            ::core::result::Result::Ok((#returned, #(#reads,)*))
        }
    }
}

fn read_returned(procedure: &Procedure, reader: &TokenStream) -> TokenStream {
    match &procedure.returns {
        Returns::Nothing => quote!(()),
        Returns::Value(ty) => {
            let read = form_of(ty, &procedure.marks).read(reader);
            quote!(#read?)
        }
        Returns::Fallible(fallible) => {
            let value = form_of(&fallible.value, &procedure.marks).read(reader);
            let error = form_of(&fallible.error, &Marks::default()).read(reader);
            quote! {
                match #reader.i32()? {
                    0 => ::core::result::Result::Ok(#value?),
                    1 => ::core::result::Result::Err(#error?),
                    found => return ::core::result::Result::Err(#reader.unknown_arm("Result", found)),
                }
            }
        }
    }
}

fn read_out(argument: &Argument, reader: &TokenStream) -> TokenStream {
    let (read, len) = (form(argument).read(reader), len_name(argument));
    if !matches!(argument.shape, Shape::Slice(_)) {
        return quote!(#read?);
    }
    quote!({
        let slice = #read?;
        if slice.len() != #len {
            let found = u32::try_from(slice.len()).unwrap_or(u32::MAX);
            return ::core::result::Result::Err(#reader.unknown_value("length", found));
        }
        slice
    })
}

/// The branch of a client method that calls the procedure by Sun RPC; empty if the interface is no program.
pub(in crate::emit) fn client_call(
    index: usize,
    number: Option<&Number>,
    procedure: &Procedure,
    into_error: &TokenStream,
    names: &Names,
) -> TokenStream {
    let Some(Number { expression, .. }) = number else { return TokenStream::new() };
    let (program, returned) = (local("program"), local("returned"));
    let named = named(index, names);
    let (lens, write, read) =
        (lens(procedure), write_arguments(procedure, names), read_results(procedure, names));
    let results = outs(procedure).map(received);
    let assigned = outs(procedure).map(|argument| {
        let (name, received) = (&argument.name, received(argument));
        match argument.shape {
            Shape::Slice(_) => quote!(#name.clone_from_slice(&#received);),
            _ => quote!(*#name = #received;),
        }
    });
    let ok = match procedure.returns {
        Returns::Fallible(_) => {
            let root = &names.root;
            quote!(#returned.map_err(#root::Error::Application))
        }
        _ => quote!(::core::result::Result::Ok(#returned)),
    };
    quote! {
        if let ::core::option::Option::Some(#program) = self.client.program() {
            #lens
            let (#returned, #(#results,)*) = #program.call_with(#expression, #write, #read)#named #into_error?;
            #(#assigned)*
            return #ok;
        }
    }
}

fn received(argument: &Argument) -> Ident {
    format_ident!("received_{}", argument.name.unraw(), span = proc_macro2::Span::mixed_site())
}

/// The branch of the method that begins a call; empty if the interface is no program.
pub(in crate::emit) fn begun_call(
    index: usize,
    number: Option<&Number>,
    procedure: &Procedure,
    names: &Names,
) -> TokenStream {
    let Some(Number { expression, .. }) = number else { return TokenStream::new() };
    let (root, stub) = (&names.root, &names.stub);
    let (program, outcome) = (local("program"), local("outcome"));
    let named = named(index, names);
    let (lens, write, read) =
        (lens(procedure), write_arguments(procedure, names), read_results(procedure, names));
    if procedure.one_way {
        return quote! {
            if let ::core::option::Option::Some(#program) = self.begin.program() {
                return #stub::ended(#program.send(#expression, #write).and_then(|()| #program.flush())#named);
            }
        };
    }
    let returned = local("returned");
    let received: Vec<Ident> = outs(procedure).map(received).collect();
    // As in the native form: the value returned, if there is one, and the arguments.
    let tuple = |first: Option<TokenStream>| {
        let parts: Vec<_> = first.into_iter().chain(received.iter().map(|each| quote!(#each))).collect();
        match &parts[..] {
            [one] => one.clone(),
            parts => quote!((#(#parts),*)),
        }
    };
    let value = match &procedure.returns {
        Returns::Nothing => {
            let value = tuple(None);
            quote!(.map(|(#returned, #(#received,)*)| { let () = #returned; #value }))
        }
        Returns::Value(_) => {
            let value = tuple(Some(quote!(#returned)));
            quote!(.map(|(#returned, #(#received,)*)| #value))
        }
        Returns::Fallible(fallible) => {
            let value = tuple(some_value(&fallible.value).map(|_| quote!(#returned)));
            quote! {
                .map_err(#root::Error::Call)
                .and_then(|(#returned, #(#received,)*)| {
                    #returned
                        .map(|#returned| { let _ = &#returned; #value })
                        .map_err(#root::Error::Application)
                })
            }
        }
    };
    quote! {
        if let ::core::option::Option::Some(#program) = self.begin.program() {
            #lens
            return #program.begin_mapped(#expression, #write, #read, |#outcome| #outcome #named #value);
        }
    }
}

/// The branch of the method of a one-way procedure; empty if the interface is no program.
pub(in crate::emit) fn one_way_call(
    index: usize,
    number: Option<&Number>,
    procedure: &Procedure,
    names: &Names,
) -> TokenStream {
    let Some(Number { expression, .. }) = number else { return TokenStream::new() };
    let (program, write) = (local("program"), write_arguments(procedure, names));
    let named = named(index, names);
    quote! {
        if let ::core::option::Option::Some(#program) = self.client.program() {
            return #program.send(#expression, #write).and_then(|()| #program.flush())#named;
        }
    }
}

/// The method that makes a client of a client of Sun RPC; nothing if the interface is no program.
pub(in crate::emit) fn over(interface: &Interface, names: &Names) -> TokenStream {
    let Names { stub, onc, .. } = names;
    interface.program.as_ref().map_or_else(TokenStream::new, |_| {
        quote! {
            /// A client that calls the procedures by Sun RPC, by this client: with its credentials and its other options.
            #[allow(dead_code)]
            pub fn over(client: #onc::Client) -> Self {
                Self { client: #stub::ProgramClient::over(Self::interface(), client) }
            }
        }
    })
}
