//! Server stubs of procedures with pipes: each call is open from its beginning, and its procedure runs beside the workers.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use super::begin::pipes;
use super::layouts::leading_of_call;
use super::names::{Names, implementation, local, stub_name};
use super::results::{has_results, put_all};
use super::server::{lend, take};
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
    let body = body(procedure, names);
    quote! {
        #[inline(never)]
        #[allow(clippy::unused_unit)]
        fn #stub_name(
            &self,
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
                |#returned, #[allow(unused_variables)] #result: &mut #stub::Writer<'_>| { #restarted #put },
            )
        }
    }
}

/// The closure that runs the procedure.
fn body(procedure: &Procedure, names: &Names) -> TokenStream {
    let Names { stub, interface, .. } = names;
    let (name, implementation) = (&procedure.name, implementation());
    let (payload, call) = (local("payload"), local("call"));
    let (ends, server) = (local("ends"), local("server"));
    let taken = procedure.arguments.iter().map(|each| take(each, names));
    let lent = procedure.arguments.iter().map(lend);
    let names_taken: Vec<_> = procedure.arguments.iter().map(|argument| &argument.name).collect();
    let leading = leading_of_call(procedure, names);
    let awaited = procedure.is_async.then(|| quote!(.await));
    let run = quote! {
        let (#(#names_taken,)*) = {
            #[allow(unused_mut)]
            let mut #call = #stub::Reader::new(&#payload);
            #call.begin(#leading).map_err(#stub::Unserved::BadArguments)?;
            #(#taken)*
            #call.finish().map_err(#stub::Unserved::BadArguments)?;
            (#(#names_taken,)*)
        };
        ::core::result::Result::Ok(<#implementation as #interface>::#name(&#server, #(#lent),*)#awaited)
    };
    let run = match procedure.is_async {
        true => quote!(async move { #run }),
        false => run,
    };
    quote! {
        {
            let #server = ::core::clone::Clone::clone(&self.implementation);
            move |#[allow(unused_mut)] mut #ends: #stub::ServedEnds| { #run }
        }
    }
}
