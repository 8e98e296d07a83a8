//! The stubs of an interface that is a program of Sun RPC, too: the same values, in the form of XDR.
//!
//! The arguments follow each other like the fields of a struct. The result is the value returned, then the arguments that come
//! back, in the order of their declaration. A `Result` is a union: 0 and the value, or 1 and the error.

mod client;
mod server;

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::Type;

use super::names::Names;
use crate::model::{Argument, Interface, Number, Procedure, Program};
use crate::xdr::{Form, Marks};
pub(super) use client::{begun_call, client_call, one_way_call, over};
pub(super) use server::{exported, server};

/// The numbers of a checked interface's procedures, if it is a program.
pub(super) fn numbers(interface: &Interface) -> Option<Vec<Number>> {
    interface.program.as_ref()?;
    let numbers = interface.numbers().into_iter();
    Some(numbers.map(|number| number.expect("the numbers have been checked")).collect())
}

fn form(argument: &Argument) -> Form {
    Form::of_shape(&argument.shape, &argument.marks).expect("the type has been checked")
}

fn form_of(ty: &Type, marks: &Marks) -> Form {
    Form::of(ty, marks).expect("the type has been checked")
}

/// Arguments that come back, in the order of their declaration.
fn outs(procedure: &Procedure) -> impl Iterator<Item = &Argument> {
    procedure.arguments.iter().filter(|argument| argument.is_result())
}

/// The type that holds a client or its begun calls, and the version of a program that it is bound with.
pub(super) fn kind(interface: &Interface, native: &str, names: &Names) -> (Ident, TokenStream) {
    match &interface.program {
        None => (format_ident!("{native}"), TokenStream::new()),
        Some(Program { number, version }) => {
            let onc = &names.onc;
            let id = quote!(#onc::VersionId { program: #number, version: #version },);
            (format_ident!("Program{native}"), id)
        }
    }
}

/// The addresses by which a program can be called, too.
pub(super) fn documented(interface: &Interface) -> TokenStream {
    if interface.program.is_none() {
        return TokenStream::new();
    }
    quote! {
        #[doc = ""]
        #[doc = "By Sun RPC: `onc+udp://HOST`, `onc+tcp://HOST` (the port is asked of rpcbind, unless `:PORT` follows), or"]
        #[doc = "`onc+unix:PATH`; with `/PROGRAM:VERSION` behind it for other numbers than the interface's."]
    }
}
