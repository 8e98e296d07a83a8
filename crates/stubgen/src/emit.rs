//! Emits the stubs of an interface: its trait, its client, its server half.
//!
//! Emitted code names only items of the root crate and its `stub` module, by absolute paths, so that no declaration of a user
//! can hide them.

mod arguments;
mod asynchronous;
mod begin;
mod buffers;
mod callbacks;
mod client;
mod docs;
mod gather;
mod in_place;
mod later;
mod layouts;
mod left_out;
mod names;
mod pipes;
mod program;
mod results;
mod server;
mod signature;
mod types;

use proc_macro2::TokenStream;
use quote::quote;
use syn::Path;

use crate::model::{Interface, Procedure, Returns};
use names::{Names, implementation};
pub use types::user_type;

/// Emits the stubs of a checked interface; `root` is the path of the crate `stoop`.
pub fn interface(interface: &Interface, root: &Path) -> TokenStream {
    let names = Names::new(interface, root);
    let declaration = declaration(interface);
    let client = client::client(interface, &names);
    let begin = begin::begin(interface, &names);
    let asynchronous = asynchronous::asynchronous(interface, &names);
    let server = server::server(interface, &names);
    let program = program::server(interface, &names);
    let of_client = callbacks::of_client(interface, &names);
    let here = here(interface, &names);
    quote!(#declaration #here #client #begin #asynchronous #server #program #of_client)
}

/// The user's trait, without the attributes that the model has consumed.
fn declaration(interface: &Interface) -> TokenStream {
    let Interface { attributes, visibility, name, procedures, .. } = interface;
    let (implementation, interface) = (implementation(), name);
    let methods = procedures.iter().map(|procedure| {
        let Procedure { attributes, body, .. } = procedure;
        let signature = method_signature(procedure);
        match body {
            Some(body) if procedure.is_async => quote!(#(#attributes)* #signature { async move #body }),
            Some(body) => quote!(#(#attributes)* #signature #body),
            None => quote!(#(#attributes)* #signature;),
        }
    });
    let forwards = procedures.iter().map(|procedure| {
        let signature = method_signature(procedure);
        let name = &procedure.name;
        let arguments = procedure.arguments.iter().map(|argument| &argument.name);
        quote! {
            #[inline]
            #signature { <#implementation as #interface>::#name(&**self, #(#arguments),*) }
        }
    });
    quote! {
        #(#attributes)*
        #visibility trait #name: ::core::marker::Send + ::core::marker::Sync + 'static {
            #(#methods)*
        }

        #[allow(deprecated)]
        impl<#implementation: #name + ?::core::marker::Sized> #name for ::std::sync::Arc<#implementation> {
            #(#forwards)*
        }
    }
}

/// The trait by which threads of the server's process call procedures, if it is not the interface itself: of the procedures that return
/// at once. A trait with an `async fn` has no trait objects.
fn here(interface: &Interface, names: &Names) -> TokenStream {
    if !interface.has_async() {
        return TokenStream::new();
    }
    let (implementation, here) = (implementation(), &names.here);
    let Interface { visibility, name, procedures, .. } = interface;
    let trait_name = name;
    let at_once = || procedures.iter().filter(|procedure| !procedure.is_async);
    let methods = at_once().map(method_signature);
    let forwards = at_once().map(|procedure| {
        let (signature, name) = (method_signature(procedure), &procedure.name);
        let arguments = procedure.arguments.iter().map(|argument| &argument.name);
        quote! {
            #[inline]
            #signature { <#implementation as #trait_name>::#name(self, #(#arguments),*) }
        }
    });
    quote! {
        #[doc(hidden)]
        #[allow(dead_code, missing_docs, clippy::too_many_arguments)]
        #visibility trait #here: ::core::marker::Send + ::core::marker::Sync + 'static {
            #(#methods;)*
        }

        #[allow(deprecated)]
        impl<#implementation: #name> #here for #implementation {
            #(#forwards)*
        }
    }
}

fn method_signature(procedure: &Procedure) -> TokenStream {
    let Procedure { name, arguments, returns, deferred, is_async, .. } = procedure;
    let arguments = arguments.iter().map(|argument| {
        let (attributes, name, declared) = (&argument.attributes, &argument.name, &argument.declared);
        quote!(#(#attributes)* #name: #declared)
    });
    let returns = match (deferred, returns) {
        _ if *is_async => {
            let ty = returns.ty();
            quote!(-> impl ::core::future::Future<Output = #ty> + ::core::marker::Send)
        }
        (Some(declared), _) => quote!(-> #declared),
        (None, Returns::Nothing) => TokenStream::new(),
        (None, returns) => {
            let ty = returns.ty();
            quote!(-> #ty)
        }
    };
    quote!(fn #name(&self, #(#arguments),*) #returns)
}
