//! Documentation of emitted methods: the procedure's own, and how a call can end.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::Attribute;

use super::names::Names;
use crate::model::{Procedure, Returns};

/// Documentation of the client's blocking method.
pub(super) fn of_method(procedure: &Procedure, names: &Names) -> TokenStream {
    let calls = format!("Calls {} and waits for its result.", link(procedure, names));
    // rustc advises to remove an `.await` of the result: those that follow it block their runtime, and are told here.
    let blocks = "Blocks the thread until the call has ended. In a task, await the method of that name of [`to_async`](Self::to_async).";
    let errors = match procedure.returns {
        Returns::Fallible(_) => {
            "`Error::Application` with the procedure's own error, or `Error::Call` if the call gives no result: `ran()` says \
             whether the procedure ran."
        }
        _ => "The call gives no result; the error says why, and `ran()` whether the procedure ran.",
    };
    let documented = with_errors(procedure, &calls, errors);
    quote!(#documented #[doc = ""] #[doc = #blocks])
}

/// Documentation of the client's method for a one-way procedure.
pub(super) fn of_one_way(procedure: &Procedure, names: &Names) -> TokenStream {
    let calls = format!("Calls {} without waiting for it.", link(procedure, names));
    with_errors(procedure, &calls, "The call could not be sent, and will not run.")
}

/// Documentation of the method that begins a call.
pub(super) fn of_begun(procedure: &Procedure, names: &Names) -> TokenStream {
    let (attributes, documented) = carried(procedure);
    let begins = format!("Begins a call of {}; its handle gives the result.", link(procedure, names));
    let summary = (!documented).then(|| quote!(#[doc = #begins]));
    quote!(#(#attributes)* #summary)
}

fn with_errors(procedure: &Procedure, calls: &str, errors: &str) -> TokenStream {
    let (attributes, documented) = carried(procedure);
    let summary = (!documented).then(|| quote!(#[doc = #calls]));
    let has_section = procedure
        .attributes
        .iter()
        .any(|attribute| attribute.to_token_stream().to_string().contains("# Errors"));
    let heading = (!has_section).then(|| quote!(#[doc = "# Errors"]));
    quote!(#(#attributes)* #summary #[doc = ""] #heading #[doc = #errors])
}

fn link(procedure: &Procedure, names: &Names) -> String {
    format!("[`{0}::{1}`]({0}::{1})", names.interface, procedure.name)
}

/// Attributes of a procedure that its client method repeats, and whether there is documentation among them.
fn carried(procedure: &Procedure) -> (Vec<&Attribute>, bool) {
    let is = |attribute: &&Attribute, name| attribute.path().is_ident(name);
    let attributes: Vec<_> =
        procedure.attributes.iter().filter(|each| is(each, "doc") || is(each, "deprecated")).collect();
    let documented = attributes.iter().any(|each| is(each, "doc"));
    (attributes, documented)
}
