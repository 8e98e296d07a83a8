//! The asynchronous form of the client: a method for each procedure, which begins a call and returns its handle, a future.

use proc_macro2::TokenStream;
use quote::quote;

use super::begin::{begun, parameter};
use super::client::pipe_methods;
use super::names::Names;
use super::{docs, program};
use crate::model::{Interface, Procedure};

/// The client's method `to_async`.
pub(super) fn method(names: &Names) -> TokenStream {
    let asynchronous = &names.asynchronous;
    quote! {
        /// The asynchronous form of this client: its methods return futures. Both share the binding.
        #[allow(dead_code)]
        pub fn to_async(&self) -> #asynchronous {
            #asynchronous { client: self.client.clone() }
        }
    }
}

/// The type that `to_async` returns.
pub(super) fn asynchronous(interface: &Interface, names: &Names) -> TokenStream {
    let Names { root, stub, interface: name, here, client, asynchronous, .. } = names;
    let visibility = &interface.visibility;
    let doc = format!(
        "Calls the procedures of a [`{name}`] somewhere else, without blocking a thread: each method begins a call at once and returns \
         its handle, a future for any runtime. Clones share the binding; any task may call."
    );
    let methods = interface.procedures.iter().map(|procedure| method_of(procedure, names));
    let (kind, version) = program::kind(interface, "Client", names);
    let by_sun_rpc = program::documented(interface);
    let pipe_methods = pipe_methods(interface, names);
    quote! {
        #[doc = #doc]
        ///
        /// The methods have the parameters and results of those of `begin()`. A call that is begun before the client is bound waits for
        /// that, in its handle, at most until its deadline.
        #[allow(dead_code)]
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        #visibility struct #asynchronous {
            client: #stub::#kind<dyn #here>,
        }

        #[allow(dead_code, deprecated, unreachable_pub)]
        #[allow(clippy::too_many_arguments, clippy::type_complexity, clippy::unused_unit)]
        impl #asynchronous {
            /// Binds to the server at `uri` with the usual options, as the blocking client does, in another thread.
            #by_sun_rpc
            ///
            /// # Errors
            /// The text is not an address, no server answers there, or it does not export this interface.
            pub async fn bind(uri: &str) -> ::core::result::Result<Self, #root::BindError> {
                Self::bind_with(uri, &::core::default::Default::default()).await
            }

            /// Binds to the server at `uri` with these options. A future that is dropped gives binding up.
            ///
            /// # Errors
            /// The text is not an address, no server answers there in time, or it does not export this interface.
            pub async fn bind_with(
                uri: &str,
                options: &#root::BindOptions,
            ) -> ::core::result::Result<Self, #root::BindError> {
                let client = #stub::#kind::bind_async(#client::interface(), #version uri, options).await?;
                ::core::result::Result::Ok(Self { client })
            }

            /// The same binding, with another time in which each call has to end.
            #[must_use]
            pub fn with_timeout(&self, timeout: ::core::time::Duration) -> Self {
                Self { client: self.client.with_timeout(timeout) }
            }

            /// The same binding, whose calls carry this: pairs beside the arguments, over every transport.
            #[must_use]
            pub fn with_metadata(&self, metadata: #root::Metadata) -> Self {
                Self { client: self.client.with_metadata(metadata) }
            }

            /// The same binding, whose results bring their metadata there.
            #[must_use]
            pub fn with_answer_metadata(&self, answer: &#root::AnswerMetadata) -> Self {
                Self { client: self.client.with_answer_metadata(answer) }
            }

            /// The binding: its address, its transport in words (`describe`), and what its calls have seen (`counters`).
            pub fn binding(&self) -> &#root::Binding {
                self.client.binding()
            }

            #pipe_methods

            /// The blocking form of this client. Both share the binding.
            pub fn to_blocking(&self) -> #client {
                #client { client: self.client.clone() }
            }

            #(#methods)*
        }
    }
}

fn method_of(procedure: &Procedure, names: &Names) -> TokenStream {
    let (Names { begin, .. }, Procedure { name, .. }) = (names, procedure);
    let documentation = docs::of_begun(procedure, names);
    let parameters = procedure.arguments.iter().filter_map(parameter);
    let passed = procedure.arguments.iter().filter(|each| parameter(each).is_some()).map(|each| &each.name);
    let begun = begun(procedure, names);
    quote! {
        #documentation
        pub fn #name(&self, #(#parameters),*) -> #begun {
            #begin { begin: self.client.begin_async() }.#name(#(#passed),*)
        }
    }
}
