//! Code for messages of older forms, in interfaces with revisions. All of it is apart from the code for the newest form, so that two ends
//! of one revision pay nothing for it.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;
use syn::ext::IdentExt;

use super::arguments::{outcome, receive_all, send as send_argument, send_or_lend};
use super::callbacks;
use super::names::{Names, form, local, stub_name};
use super::server::server_stub;
use crate::model::{Argument, Interface, Procedure};

/// The variable with the number of an older form.
pub(super) fn number() -> Ident {
    local("number")
}

/// The client's function that makes a call of the procedure in another form.
fn function_name(procedure: &Procedure) -> Ident {
    format_ident!("__older_{}", procedure.name.unraw(), span = procedure.name.span())
}

/// Whether the procedure can be called in older forms.
fn has_forms(procedure: &Procedure, names: &Names) -> bool {
    names.has_revisions && procedure.may_grow()
}

/// The statement that makes a call, which `transport` does in the newest form. If the server knows another one, it is made in that.
pub(super) fn transport(
    transport: &TokenStream,
    into_error: &TokenStream,
    procedure: &Procedure,
    names: &Names,
) -> TokenStream {
    if !has_forms(procedure, names) {
        return quote!(#transport #into_error?;);
    }
    let (client, function, call, error) =
        (&names.client, function_name(procedure), local("call"), local("error"));
    let passed = procedure.arguments.iter().map(|argument| &argument.name);
    quote! {
        if let ::core::result::Result::Err(#error) = #transport {
            return #client::#function(&mut #call, #error, #(#passed),*);
        }
    }
}

/// The functions of the client that make calls in other forms.
pub(super) fn client_functions(interface: &Interface, names: &Names) -> TokenStream {
    let numbered = (0u16..).zip(&interface.procedures);
    let is_begun = |procedure: &Procedure| procedure.has_pipes() || procedure.has_callback();
    let having = numbered.filter(|(_, procedure)| has_forms(procedure, names) && !is_begun(procedure));
    having.map(|(index, procedure)| client_function(index, procedure, &names.older())).collect()
}

fn client_function(index: u16, procedure: &Procedure, names: &Names) -> TokenStream {
    let (root, stub, function) = (&names.root, &names.stub, function_name(procedure));
    let (call, error, writer, result) = (local("call"), local("error"), local("arguments"), local("result"));
    let (ended, form) = (local("ended"), form());
    let parameters =
        procedure.arguments.iter().map(|Argument { name, declared, .. }| quote!(#name: #declared));
    let sent = procedure.arguments.iter().map(|each| match procedure.has_buffers() {
        true => send_or_lend(each, names),
        false => send_argument(each, names),
    });
    let (method, lending) = match procedure.has_buffers() {
        true => {
            let lending = local("lending");
            (quote!(with_buffers_in_another_form), quote!(#lending: &mut #stub::SharedBuffers<'_>,))
        }
        false => (quote!(in_another_form), TokenStream::new()),
    };
    let ty = procedure.returns.ty();
    let received = receive_all(procedure, names);
    let (returned, into_error, into_result) = outcome(&procedure.returns, names);
    quote! {
        #[cold]
        #[inline(never)]
        #[allow(clippy::too_many_arguments, clippy::ptr_arg, clippy::needless_pass_by_value)]
        fn #function(
            #call: &mut #stub::Call<'_>,
            #error: #root::CallError,
            #(#parameters),*
        ) -> #returned {
            let #form = #call.#method(
                Self::interface(),
                #index,
                #error,
                &mut |#[allow(unused_mut)] mut #writer: &mut #stub::Writer<'_>, #lending #form: #stub::Form| {
                    let _ = #form;
                    #(#sent)*
                },
            )#into_error?;
            let _ = #form;
            let #result = &*#call;
            let decoded = (|| -> ::core::result::Result<#ty, #stub::DecodeError> { #received })();
            let #ended = #result.end(decoded);
            #ended #into_result
        }
    }
}

/// The branch of a method that begins a call: it begins it in an older form if the server knows only that.
pub(super) fn begun(
    index: usize,
    begin: &TokenStream,
    procedure: &Procedure,
    names: &Names,
    begun: impl FnOnce(&Names) -> TokenStream,
) -> Option<TokenStream> {
    let index = u16::try_from(index).expect("the number of procedures has been checked");
    let (client, number, form) = (&names.client, number(), form());
    has_forms(procedure, names).then(|| {
        let begun = begun(&names.older());
        quote! {
            if let ::core::option::Option::Some((#number, #form)) =
                #begin.older_form(#client::interface(), #index)
            {
                let _ = #form;
                return { #begun };
            }
        }
    })
}

/// The server's stubs for older forms, and the last arm of the dispatch, which leads to them.
pub(super) fn server_stubs(interface: &Interface, names: &Names) -> (TokenStream, TokenStream) {
    let stub = &names.stub;
    if !names.has_revisions {
        return (
            TokenStream::new(),
            quote!(_ => ::core::result::Result::Err(#stub::Unserved::UnknownProcedure),),
        );
    }
    let (client, names) = (&names.client, names.older());
    let (number, form, payload, result) = (number(), form(), local("payload"), local("result"));
    let memory = local("memory");
    let (parameter, none) = match interface.has_buffers() {
        true => (quote!(#memory: #stub::Memory<'_>,), quote!(#stub::Memory::none(),)),
        false => Default::default(),
    };
    let having = || (0u16..).zip(&interface.procedures).filter(|(_, procedure)| has_forms(procedure, &names));
    let arms = having().map(|(index, procedure)| {
        let name = stub_name(procedure, &names);
        let given = procedure.has_buffers().then(|| quote!(#memory,));
        quote!(::core::option::Option::Some((#index, #form)) => self.#name(#form, #payload, #given #result),)
    });
    let carried = callbacks::of_server(interface, &names).older;
    let stubs = having().map(|(_, procedure)| server_stub(procedure, &names));
    let stubs = quote! {
        #[cold]
        #[inline(never)]
        fn serve_older(
            &self,
            #number: u16,
            #payload: &[u8],
            #parameter
            #result: &mut #stub::Writer<'_>,
        ) -> ::core::result::Result<(), #stub::Unserved> {
            let _ = (#payload, &#result);
            match #client::interface().form_of_call(#number) {
                #(#arms)*
                #carried
                _ => ::core::result::Result::Err(#stub::Unserved::UnknownProcedure),
            }
        }

        #(#stubs)*
    };
    (stubs, quote!(other => self.serve_older(other, call, #none result),))
}
