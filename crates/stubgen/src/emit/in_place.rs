//! Server stubs of procedures whose only argument is a scalar array or slice that comes back: for a long call, the procedure writes
//! into the memory that received the call, and the result is sent from there.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;
use syn::ext::IdentExt;

use super::names::{Names, implementation, local};
use super::results::put_all;
use crate::model::{Argument, Element, Interface, Mode, Procedure, Shape};

/// The argument of a procedure that runs in place.
fn argument(procedure: &Procedure) -> Option<&Argument> {
    match &procedure.arguments[..] {
        [only] if only.mode == Mode::InOut && only.is_written_in_place() => Some(only),
        _ => None,
    }
}

/// The number of a call's bytes before that argument, as an `Option<u8>`.
pub(super) fn leading(procedure: &Procedure, names: &Names) -> TokenStream {
    let stub = &names.stub;
    match argument(procedure).map(|argument| &argument.shape) {
        Some(Shape::Slice(Element { ty, .. })) => {
            quote!(::core::option::Option::Some(#stub::bytes_before_slice::<#ty>()))
        }
        Some(_) => quote!(::core::option::Option::Some(0)),
        None => quote!(::core::option::Option::None),
    }
}

fn stub_name(procedure: &Procedure) -> Ident {
    format_ident!("change_{}", procedure.name.unraw(), span = procedure.name.span())
}

/// The stubs of these procedures.
pub(super) fn server_stubs(interface: &Interface, names: &Names) -> TokenStream {
    interface.procedures.iter().filter_map(|each| server_stub(each, names)).collect()
}

/// The dispatch of these procedures; empty if there are none.
pub(super) fn dispatch(interface: &Interface, names: &Names) -> TokenStream {
    let stub = &names.stub;
    let (leading, len, result) = (local("leading"), local("len"), local("result"));
    let arms: Vec<_> = (0u16..)
        .zip(&interface.procedures)
        .filter(|(_, procedure)| argument(procedure).is_some())
        .map(|(number, procedure)| {
            let name = stub_name(procedure);
            quote!(#number => self.#name(#leading, #len, #result),)
        })
        .collect();
    if arms.is_empty() {
        return TokenStream::new();
    }
    quote! {
        fn dispatch_in_place(
            &self,
            procedure: u16,
            #leading: &[u8],
            #len: usize,
            #result: &mut #stub::Writer<'_>,
        ) -> ::core::result::Result<(), #stub::Unserved> {
            match procedure {
                #(#arms)*
                _ => ::core::result::Result::Err(#stub::Unserved::UnknownProcedure),
            }
        }
    }
}

fn server_stub(procedure: &Procedure, names: &Names) -> Option<TokenStream> {
    let argument = argument(procedure)?;
    let Names { stub, interface, .. } = names;
    let (name, stub_name) = (&procedure.name, stub_name(procedure));
    let (leading, len, count) = (local("leading"), local("len"), local("count"));
    let (result, writer, extent, views) = (local("result"), local("writer"), local("extent"), local("views"));
    let (returned, implementation, lent) = (local("returned"), implementation(), &argument.name);
    let (element, counted, view) = match &argument.shape {
        Shape::Slice(Element { ty, .. }) => (
            ty,
            quote!(#stub::Reader::new(#leading).count_filling::<#ty>(#len)),
            quote!(slice::<#ty>(#count)),
        ),
        Shape::Array(Element { ty, .. }, number) => (
            ty,
            quote!(#stub::check_filled::<#ty>({ #number }, #len).map(|()| { #number })),
            quote!(array::<#ty, { #number }>()),
        ),
        Shape::Text | Shape::Buffer(_) | Shape::Whole(_) | Shape::Pipe(..) | Shape::Callback(_) => {
            unreachable!("only arrays and slices of scalars are written in place")
        }
    };
    let put = put_all(procedure, names);
    Some(quote! {
        #[cold]
        #[inline(never)]
        fn #stub_name(
            &self,
            #leading: &[u8],
            #len: usize,
            #result: &mut #stub::Writer<'_>,
        ) -> ::core::result::Result<(), #stub::Unserved> {
            let _ = #leading;
            let #count = #counted.map_err(#stub::Unserved::BadArguments)?;
            let mut #writer = #result.restarted();
            let #extent = #writer.extent().and::<#element>(#count);
            let ::core::option::Option::Some(mut #views) = #writer.reserve(#extent) else {
                // The argument is longer than a result may be; reserving its length makes the writer report that.
                let _ = #result.with_room(#extent, |_| ());
                return ::core::result::Result::Err(#stub::Unserved::ResultTooLarge);
            };
            let mut #lent = #views.#view;
            let #returned = <#implementation as #interface>::#name(&self.implementation, &mut #lent);
            #put
            ::core::result::Result::Ok(())
        }
    })
}
