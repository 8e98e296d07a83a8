//! Code for callbacks: the procedure in whose pipes they travel, and the clients of objects that callers offer.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Path;
use syn::ext::IdentExt;

use super::names::{Names, local};
use super::program;
use crate::check::CALLBACK_PROCEDURE;
use crate::model::{Interface, Procedure};

/// The type of the client of the interface at that path.
fn client_of(callback: &Path) -> Path {
    let mut client = callback.clone();
    if let Some(last) = client.segments.last_mut() {
        last.ident = format_ident!("{}Client", last.ident.unraw(), span = last.ident.span());
    }
    client
}

/// The description of the procedure in whose pipes callbacks travel. It comes after the others.
pub(super) fn described(interface: &Interface, names: &Names) -> Option<TokenStream> {
    let (stub, client) = (&names.stub, client_of(interface.callback.as_ref()?));
    let with_callback = interface.procedures.iter().filter(|procedure| procedure.has_callback());
    let since = with_callback.map(|procedure| procedure.since).min().unwrap_or(0);
    Some(quote! {
        #stub::Procedure {
            name: #CALLBACK_PROCEDURE,
            docs: "Carries the calls of the object that the caller offers.",
            signature: #stub::Signature::Emitted(|description: &mut #stub::Description| {
                #stub::describe_callbacks(#client::interface(), description);
            }),
            idempotent: false,
            one_way: false,
            in_place: ::core::option::Option::None,
            buffers: false,
            since: #since,
        }
    })
}

/// The expression for the interface that callers offer.
pub(super) fn offered(interface: &Interface, names: &Names) -> TokenStream {
    let _ = names;
    match &interface.callback {
        None => quote!(::core::option::Option::None),
        Some(callback) => {
            let client = client_of(callback);
            quote!(::core::option::Option::Some(#client::interface))
        }
    }
}

/// The parts of a server half whose callers may offer objects.
#[derive(Default)]
pub(super) struct OfServer {
    /// The field with the clients of these objects, and its first value.
    pub(super) field: TokenStream,
    pub(super) first: TokenStream,
    /// The arm of the dispatch, and that of the dispatch of older forms.
    pub(super) arm: TokenStream,
    pub(super) older: TokenStream,
    /// Methods of the export.
    pub(super) methods: TokenStream,
}

/// Empty if the interface has no callbacks.
pub(super) fn of_server(interface: &Interface, names: &Names) -> OfServer {
    let Some(callback) = &interface.callback else { return OfServer::default() };
    let (stub, client, payload) = (&names.stub, client_of(callback), local("payload"));
    let number =
        u16::try_from(interface.procedures.len()).expect("the number of procedures has been checked");
    OfServer {
        field: quote!(callbacks: ::std::sync::Arc<#stub::Callbacks<#client>>,),
        first: quote!(callbacks: ::core::default::Default::default(),),
        arm: quote!(#number => #stub::Callbacks::serve(&self.callbacks, &self.room, call, ::core::option::Option::None),),
        older: quote!(::core::option::Option::Some((#number, form)) => #stub::Callbacks::serve(&self.callbacks, &self.room, #payload, ::core::option::Option::Some(form)),),
        methods: quote! {
            fn is_marshaled(&self) -> bool {
                true
            }

            fn close(&self) {
                self.callbacks.close();
            }
        },
    }
}

/// The statement by which a stub has the clients.
pub(super) fn lent(procedure: &Procedure) -> Option<TokenStream> {
    let callbacks = local("callbacks");
    procedure.has_callback().then(|| quote!(let #callbacks = &self.callbacks;))
}

/// As [`lent`], for a stub whose procedure runs later.
pub(super) fn kept(procedure: &Procedure) -> Option<TokenStream> {
    let callbacks = local("callbacks");
    procedure.has_callback().then(|| quote!(let #callbacks = ::core::clone::Clone::clone(&self.callbacks);))
}

/// Makes the client one of an object that a caller of a server offers, and one that is made again after a restart.
pub(super) fn of_client(interface: &Interface, names: &Names) -> Option<TokenStream> {
    let Names { stub, client, here, .. } = names;
    program::numbers(interface).is_none().then(|| {
        quote! {
            impl #stub::OfClient for #client {
                type Here = dyn #here;

                fn interface() -> &'static #stub::Interface {
                    #client::interface()
                }

                fn of_client(client: #stub::Client<dyn #here>) -> Self {
                    Self { client }
                }
            }
        }
    })
}
