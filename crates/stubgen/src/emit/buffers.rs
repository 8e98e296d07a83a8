//! Stubs of procedures with `InPlace` buffers.
//!
//! A closure writes the arguments. It runs again if the call goes to another server, whose memory does not contain the buffers.

use proc_macro2::TokenStream;
use quote::quote;

use super::arguments::{outcome, receive_all, send_or_lend};
use super::layouts::leading_of_call;
use super::names::{Names, local, stub_name};
use crate::model::{Interface, Procedure};

/// The client's method that makes buffers, if some procedure takes one.
pub(super) fn client_method(interface: &Interface, names: &Names) -> Option<TokenStream> {
    let Names { root, stub, .. } = names;
    interface.has_buffers().then(|| {
        quote! {
            /// A buffer of `len` numbers, which are anything, for a procedure of this server to use where it lies, if the
            /// transport is shared memory; otherwise it is copied with each call. To be made once and used for many calls.
            ///
            /// # Errors
            /// When the memory that is shared for buffers is full, or the server is gone and there is no other.
            #[allow(dead_code)]
            pub fn in_place<T: #stub::Number>(
                &self,
                len: usize,
            ) -> ::core::result::Result<#root::InPlace<T>, #root::error::InPlaceError> {
                self.client.binding().in_place(len)
            }
        }
    })
}

/// The expression that calls `procedure` in another process. `make` makes the statement of the expression that makes the call.
pub(super) fn remote_call(
    index: usize,
    procedure: &Procedure,
    names: &Names,
    make: impl FnOnce(&TokenStream, &TokenStream) -> TokenStream,
) -> TokenStream {
    let stub = &names.stub;
    let number = u16::try_from(index).expect("the number of procedures has been checked");
    let (route, call, writer, lending, result) =
        (local("route"), local("call"), local("arguments"), local("lending"), local("result"));
    let (_, into_error, into_result) = outcome(&procedure.returns, names);
    let sent = procedure.arguments.iter().map(|each| send_or_lend(each, names));
    let leading = leading_of_call(procedure, names);
    let ty = procedure.returns.ty();
    let received = receive_all(procedure, names);
    let transport = quote! {
        #call.transport_with_buffers(&mut |#[allow(unused_mut)] mut #writer, #lending| {
            if #writer.begin(#leading) {
                #(#sent)*
            }
        })
    };
    let transport = make(&transport, &into_error);
    quote! {
        let mut #call = #route.start(#number)#into_error?;
        #transport
        let #result = &#call;
        let decoded = (|| -> ::core::result::Result<#ty, #stub::DecodeError> { #received })();
        #result.end(decoded) #into_result
    }
}

/// The additional parameter of a server stub: the memory that holds the buffers.
pub(super) fn memory_parameter(procedure: &Procedure, names: &Names) -> Option<TokenStream> {
    let (stub, memory) = (&names.stub, local("memory"));
    procedure.has_buffers().then(|| quote!(#memory: #stub::Memory<'_>,))
}

/// The dispatch of these procedures; empty if there are none.
pub(super) fn dispatch(interface: &Interface, names: &Names) -> Option<TokenStream> {
    let stub = &names.stub;
    let (call, result, memory) = (local("call"), local("result"), local("memory"));
    let numbered = (0u16..).zip(&interface.procedures).filter(|(_, procedure)| procedure.has_buffers());
    let arms = numbered.map(|(number, procedure)| {
        let name = stub_name(procedure, names);
        quote!(#number => self.#name(#call.into_payload(), #memory, #result),)
    });
    let older = names.has_revisions.then(
        || quote!(other @ #stub::FORMS.. => self.serve_older(other, #call.into_payload(), #memory, #result),),
    );
    interface.has_buffers().then(|| {
        quote! {
            fn dispatch_with_memory(
                &self,
                procedure: u16,
                #call: #stub::Reader<'_>,
                #memory: #stub::Memory<'_>,
                #result: &mut #stub::Writer<'_>,
            ) -> ::core::result::Result<(), #stub::Unserved> {
                match procedure {
                    #(#arms)*
                    #older
                    _ => #stub::Exported::dispatch(self, procedure, #call, #result),
                }
            }
        }
    })
}
