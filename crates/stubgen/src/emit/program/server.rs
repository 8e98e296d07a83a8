//! The server half of a program: reads arguments, runs the procedure, writes its result.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;

use super::{form, form_of, numbers, outs};
use crate::emit::names::{Names, default, implementation, local};
use crate::model::{Argument, Interface, Mode, Procedure, Returns, Shape};
use crate::xdr::{Form, Marks};

/// The server half; nothing if the interface is no program.
pub(in crate::emit) fn server(interface: &Interface, names: &Names) -> TokenStream {
    let (Some(program), Some(numbers)) = (&interface.program, numbers(interface)) else {
        return TokenStream::new();
    };
    let Names { onc, interface: name, server, .. } = names;
    let (implementation, number, version) = (implementation(), &program.number, &program.version);
    let arms = interface.procedures.iter().zip(&numbers).map(|(procedure, number)| {
        let (stub_name, number) = (stub_name(procedure), &number.expression);
        quote!(#number => self.#stub_name(call),)
    });
    let idempotent = interface.procedures.iter().zip(&numbers).filter(|(procedure, _)| procedure.idempotent);
    let idempotent = idempotent.map(|(_, number)| &number.expression);
    let places = (0_u16..).zip(&numbers).map(|(place, number)| {
        let number = &number.expression;
        quote!(#number => ::core::option::Option::Some(#place),)
    });
    let stubs = interface.procedures.iter().map(|procedure| server_stub(procedure, names));
    quote! {
        #[allow(deprecated)]
        impl<#implementation: #name> #server<#implementation> {
            #(#stubs)*
        }

        impl<#implementation: #name> #onc::stub::Program for #server<#implementation> {
            fn version(&self) -> #onc::VersionId {
                #onc::VersionId { program: #number, version: #version }
            }

            fn dispatch(
                &self,
                call: &mut #onc::stub::IncomingCall<'_>,
            ) -> ::core::result::Result<(), #onc::stub::NoResult> {
                match call.procedure() {
                    #(#arms)*
                    _ => ::core::result::Result::Err(#onc::stub::NoResult::ProcedureUnavailable),
                }
            }

            fn is_idempotent(&self, procedure: u32) -> bool {
                ::core::matches!(procedure, 0 #(| #idempotent)*)
            }

            fn place_of(&self, procedure: u32) -> ::core::option::Option<u16> {
                match procedure {
                    #(#places)*
                    _ => ::core::option::Option::None,
                }
            }
        }
    }
}

/// The method by which the server half says that it is a program.
pub(in crate::emit) fn exported(interface: &Interface, names: &Names) -> TokenStream {
    let onc = &names.onc;
    if interface.program.is_none() {
        return TokenStream::new();
    }
    quote! {
        fn program(&self) -> ::core::option::Option<&dyn #onc::stub::Program> {
            ::core::option::Option::Some(self)
        }
    }
}

/// The name of the stub of a procedure.
fn stub_name(procedure: &Procedure) -> Ident {
    format_ident!("answer_{}", procedure.name.unraw(), span = procedure.name.span())
}

fn server_stub(procedure: &Procedure, names: &Names) -> TokenStream {
    let Names { onc, interface, .. } = names;
    let (name, stub_name, implementation) = (&procedure.name, stub_name(procedure), implementation());
    let (call, returned) = (local("call"), local("returned"));
    let arguments = quote!(#call.arguments());
    let taken = procedure.arguments.iter().map(|argument| take(argument, &arguments));
    let lent = procedure.arguments.iter().map(lend);
    let reply = reply(procedure, &call, &returned, names);
    let waited = match (procedure.is_async, &procedure.deferred) {
        (true, _) => quote!(let #returned = #onc::stub::wait_for(#returned);),
        (false, Some(_)) => quote!(let #returned = #onc::stub::answer(#returned)?;),
        (false, None) => TokenStream::new(),
    };
    quote! {
        #[inline(never)]
        fn #stub_name(
            &self,
            #call: &mut #onc::stub::IncomingCall<'_>,
        ) -> ::core::result::Result<(), #onc::stub::NoResult> {
            #(#taken)*
            let #returned = <#implementation as #interface>::#name(&self.implementation, #(#lent),*);
            #waited
            #reply
        }
    }
}

/// The expression that replies to a call; a one-way call has no reply.
fn reply(procedure: &Procedure, call: &Ident, returned: &Ident, names: &Names) -> TokenStream {
    let (xdr, onc, writer) = (&names.xdr, &names.onc, local("writer"));
    if procedure.one_way {
        return quote! {
            let () = #returned;
            ::core::result::Result::Err(#onc::stub::NoResult::NoReply)
        };
    }
    let write = write_results(procedure, returned, &writer);
    quote! {
        #call.reply(&#onc::stub::Arguments(|#[allow(unused_variables)] #writer: &mut #xdr::Writer<'_>| { #write }))
    }
}

/// The statement that reads an argument, or makes the one that the procedure fills.
fn take(argument: &Argument, call: &TokenStream) -> TokenStream {
    let name = &argument.name;
    match (argument.mode, &argument.shape) {
        (Mode::Value, _) => {
            let read = form(argument).read(call);
            quote!(let #name = #read ?;)
        }
        (Mode::InOut, _) => {
            let read = form(argument).read(call);
            quote!(let mut #name = #read ?;)
        }
        (Mode::In, shape) => {
            let read = read_lent(shape, argument, call);
            quote!(let #name = #read ?;)
        }
        (Mode::OptionalIn, shape) => {
            let read = read_lent(shape, argument, call);
            quote! {
                let #name = if #call.bool()? {
                    ::core::option::Option::Some(#read ?)
                } else {
                    ::core::option::Option::None
                };
            }
        }
        (Mode::Out, Shape::Array(element, len)) => {
            let (ty, default) = (&element.ty, default(&element.ty));
            quote!(let mut #name: [#ty; #len] = ::core::array::from_fn(|_| #default());)
        }
        (Mode::Out, Shape::Whole(ty)) => {
            let default = default(ty);
            quote!(let mut #name = #default();)
        }
        (Mode::Out, _) => unreachable!("it has been refused"),
    }
}

/// The expression that reads an argument of which the procedure gets a reference: strings, slices and arrays of bytes are borrowed
/// from the message.
fn read_lent(shape: &Shape, argument: &Argument, call: &TokenStream) -> TokenStream {
    match shape {
        Shape::Whole(_) => form(argument).read(call),
        _ => form(argument).borrow(call),
    }
}

/// The expression that the procedure is called with.
fn lend(argument: &Argument) -> TokenStream {
    let name = &argument.name;
    let is_borrowed = !matches!(argument.shape, Shape::Whole(_))
        && matches!(form(argument), Form::String(_) | Form::Opaque(_) | Form::FixedOpaque(_));
    match (argument.mode, &argument.shape) {
        (Mode::Value, _) => quote!(#name),
        (Mode::In | Mode::OptionalIn, _) if is_borrowed => quote!(#name),
        (Mode::In, _) => quote!(&#name),
        (Mode::OptionalIn, Shape::Slice(_)) => quote!(#name.as_deref()),
        (Mode::OptionalIn, _) => quote!(#name.as_ref()),
        (Mode::InOut | Mode::Out, _) => quote!(&mut #name),
    }
}

/// The statements that write a result. They run again if there was not enough room.
fn write_results(procedure: &Procedure, returned: &Ident, writer: &Ident) -> TokenStream {
    let value = match &procedure.returns {
        Returns::Nothing => quote!(let () = #returned;),
        Returns::Value(ty) => form_of(ty, &procedure.marks).write(&quote!(&#returned), writer),
        Returns::Fallible(fallible) => {
            let value = form_of(&fallible.value, &procedure.marks).write(&quote!(#returned), writer);
            let error = form_of(&fallible.error, &Marks::default()).write(&quote!(#returned), writer);
            quote! {
                match &#returned {
                    ::core::result::Result::Ok(#returned) => { #writer.i32(0); #value }
                    ::core::result::Result::Err(#returned) => { #writer.i32(1); #error }
                }
            }
        }
    };
    let outs = outs(procedure).map(|argument| {
        let name = &argument.name;
        form(argument).write(&quote!(&#name), writer)
    });
    quote!(#value #(#outs)*)
}
