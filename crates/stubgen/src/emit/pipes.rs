//! Server stubs of procedures with pipes: each call is open from its beginning, and its procedure runs beside the workers.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::begin::pipes;
use super::callbacks;
use super::layouts::leading_of_call;
use super::names::{Names, form, implementation, local, stub_name};
use super::results::{has_results, put_all, with_form};
use super::server::{form_parameter, lend, take};
use crate::model::Procedure;

/// The stub: it keeps the arguments, and says how the procedure is to be run once the call has its pipes.
pub(super) fn server_stub(procedure: &Procedure, names: &Names) -> TokenStream {
    let (stub, stub_name) = (&names.stub, stub_name(procedure, names));
    let (payload, result, writer) = (local("payload"), local("result"), local("writer"));
    let (returned, run) = (local("returned"), local("run"));
    let (put, pipes) = (put_all(procedure, names), pipes(procedure, names));
    let restarted = has_results(procedure).then(|| quote!(let mut #writer = #result.restarted();));
    let runs = match (procedure.is_async, &procedure.deferred) {
        (true, _) => "run_task_with_pipes",
        (false, Some(_)) => "run_deferred_with_pipes",
        (false, None) => "run_with_pipes",
    };
    let runs = format_ident!("{runs}");
    let (body, parameter) = (body(procedure, names), form_parameter(names));
    let (_, answered) = with_form(&returned, TokenStream::new(), names);
    quote! {
        #[inline(never)]
        #[allow(clippy::unused_unit)]
        fn #stub_name(
            &self,
            #parameter
            #payload: &[u8],
            #[allow(unused_variables)]
            #result: &mut #stub::Writer<'_>,
        ) -> ::core::result::Result<(), #stub::Unserved> {
            let #payload = #stub::keep_arguments(&self.room, #payload)?;
            let #run = #body;
            #stub::#runs(
                &self.tasks,
                #pipes,
                #run,
                |#answered, #[allow(unused_variables)] #result: &mut #stub::Writer<'_>| { #restarted #put },
            )
        }
    }
}

/// The closure that runs the procedure.
fn body(procedure: &Procedure, names: &Names) -> TokenStream {
    let Names { stub, interface, .. } = names;
    let (name, implementation) = (&procedure.name, implementation());
    let (payload, call) = (local("payload"), local("call"));
    let (ends, server, returned) = (local("ends"), local("server"), local("returned"));
    let taken = procedure.arguments.iter().map(|each| take(each, names));
    let lent = procedure.arguments.iter().map(lend);
    let names_taken: Vec<_> = procedure.arguments.iter().map(|argument| &argument.name).collect();
    let leading = leading_of_call(procedure, names);
    let callbacks = callbacks::kept(procedure);
    let awaited = procedure.is_async.then(|| quote!(.await));
    let in_form = names.is_older.then(|| {
        let form = form();
        quote!(let mut #ends = #ends.in_form(#form);)
    });
    let and_form = match procedure.deferred {
        Some(_) => quote!(#returned.in_form),
        None => quote!((|form| (#returned, form))),
    };
    let (answer, _) = with_form(&returned, and_form, names);
    let run = quote! {
        #in_form
        let (#(#names_taken,)*) = {
            #[allow(unused_mut)]
            let mut #call = #stub::Reader::new(&#payload);
            #call.begin(#leading).map_err(#stub::Unserved::BadArguments)?;
            #(#taken)*
            #call.finish().map_err(#stub::Unserved::BadArguments)?;
            (#(#names_taken,)*)
        };
        let #returned = <#implementation as #interface>::#name(&#server, #(#lent),*)#awaited;
        ::core::result::Result::Ok(#answer)
    };
    let run = match procedure.is_async {
        true => quote!(async move { #run }),
        false => run,
    };
    quote! {
        {
            let #server = ::core::clone::Clone::clone(&self.implementation);
            #callbacks
            move |#[allow(unused_mut)] mut #ends: #stub::ServedEnds| { #run }
        }
    }
}
