//! Names, types and orders that all stubs have in common.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, Path, Type};

use crate::model::{Argument, Interface, Mode, Procedure, Shape};

/// Names of the parts of the stubs.
#[derive(Clone)]
pub(super) struct Names {
    /// Whether the code is for messages of an older form, which a variable names.
    pub(super) is_older: bool,
    /// Whether the interface has revisions.
    pub(super) has_revisions: bool,
    pub(super) root: Path,
    pub(super) stub: TokenStream,
    /// The module with the form of values in Sun RPC.
    pub(super) xdr: TokenStream,
    /// The module of Sun RPC.
    pub(super) onc: TokenStream,
    pub(super) interface: Ident,
    pub(super) client: Ident,
    pub(super) begin: Ident,
    /// The asynchronous form of the client.
    pub(super) asynchronous: Ident,
    pub(super) server: Ident,
    /// The trait by which threads of the server's process call procedures: the interface itself, unless it has an `async fn`.
    pub(super) here: Ident,
}

impl Names {
    pub(super) fn new(interface: &Interface, root: &Path) -> Self {
        let plain = interface.name.unraw();
        Names {
            is_older: false,
            has_revisions: interface.revisions.is_some(),
            root: root.clone(),
            stub: quote!(#root::stub),
            xdr: quote!(#root::xdr),
            onc: quote!(#root::onc),
            interface: interface.name.clone(),
            client: format_ident!("{plain}Client", span = interface.name.span()),
            begin: format_ident!("{plain}Begin", span = interface.name.span()),
            asynchronous: format_ident!("{plain}Async", span = interface.name.span()),
            server: format_ident!("{plain}Server", span = interface.name.span()),
            here: match interface.has_async() {
                true => format_ident!("{plain}Here", span = interface.name.span()),
                false => interface.name.clone(),
            },
        }
    }
}

impl Names {
    /// The same, for code that writes and reads messages of an older form.
    pub(super) fn older(&self) -> Self {
        Names { is_older: true, ..self.clone() }
    }
}

/// The variable with the form of a message.
pub(super) fn form() -> Ident {
    local("form")
}

/// The call of a method of `Data`; with an older form, of the one for that.
fn marshal(ty: &dyn ToTokens, item: &str, arguments: TokenStream, names: &Names) -> TokenStream {
    match names.is_older {
        false => {
            let method = data(ty, item, names);
            quote!(#method(#arguments))
        }
        true => {
            let (method, form) = (data(ty, &format!("{item}_at"), names), form());
            quote!(#method(#arguments, #form))
        }
    }
}

/// The expression that writes a value of a type.
pub(super) fn encode(ty: &dyn ToTokens, value: TokenStream, writer: &Ident, names: &Names) -> TokenStream {
    marshal(ty, "encode", quote!(#value, &mut #writer), names)
}

/// The expression that writes the elements of a slice.
pub(super) fn encode_all(
    ty: &dyn ToTokens,
    values: TokenStream,
    writer: &Ident,
    names: &Names,
) -> TokenStream {
    marshal(ty, "encode_all", quote!(#values, &mut #writer), names)
}

/// The expression that reads a value of a type.
pub(super) fn decode(ty: &dyn ToTokens, reader: &Ident, names: &Names) -> TokenStream {
    marshal(ty, "decode", quote!(&mut #reader), names)
}

/// The expression that reads so many values of a type.
pub(super) fn decode_all(
    ty: &dyn ToTokens,
    count: TokenStream,
    reader: &Ident,
    names: &Names,
) -> TokenStream {
    marshal(ty, "decode_all", quote!(#count, &mut #reader), names)
}

/// The expression for the layout of a type.
pub(super) fn layout(ty: &dyn ToTokens, names: &Names) -> TokenStream {
    match names.is_older {
        false => data(ty, "LAYOUT", names),
        true => {
            let (method, form) = (data(ty, "layout_at", names), form());
            quote!(#method(#form))
        }
    }
}

/// An item of `Data` for a type, with the type's span, so that the compiler reports a missing implementation once.
pub(super) fn data(ty: &dyn ToTokens, item: &str, names: &Names) -> TokenStream {
    let (stub, span) = (&names.stub, ty.span());
    let item = Ident::new(item, span);
    quote_spanned!(span=> <#ty as #stub::Data>::#item)
}

/// [`data`] for the type of an argument that is neither slice nor text.
pub(super) fn whole(shape: &Shape) -> TokenStream {
    match shape {
        Shape::Whole(ty) => ty.to_token_stream(),
        Shape::Array(element, len) => {
            let ty = &element.ty;
            quote_spanned!(ty.span()=> [#ty; #len])
        }
        Shape::Text | Shape::Slice(_) | Shape::Buffer(_) | Shape::Pipe(..) | Shape::Callback(_) => {
            unreachable!("slices, texts, buffers, pipes and callbacks have no type of their own")
        }
    }
}

/// Initial value of an OUT argument.
pub(super) fn default(ty: &Type) -> TokenStream {
    quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default)
}

/// A local variable whose name cannot collide with the user's names.
pub(super) fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// A type parameter whose name cannot collide with the user's types.
pub(super) fn implementation() -> Ident {
    format_ident!("__Implementation")
}

/// The name of the server stub of a procedure.
pub(super) fn stub_name(procedure: &Procedure, names: &Names) -> Ident {
    let older = if names.is_older { "_older" } else { "" };
    format_ident!("serve{}_{}", older, procedure.name.unraw(), span = procedure.name.span())
}

/// Whether an argument, or its capacity, travels with the call.
pub(super) fn travels_with_call(mode: Mode) -> bool {
    mode != Mode::Out
}

/// The arguments in the order in which they come back: first those that the procedure writes in place, because their sizes are
/// known before it runs.
pub(super) fn coming_back(procedure: &Procedure) -> impl Iterator<Item = &Argument> {
    let (in_place, others): (Vec<&Argument>, Vec<&Argument>) = procedure
        .arguments
        .iter()
        .filter(|each| each.is_result())
        .partition(|each| each.is_written_in_place());
    in_place.into_iter().chain(others)
}

/// The call of a method of an outcome that names the procedure in its error.
pub(super) fn named(index: usize, names: &Names) -> TokenStream {
    let (error, named) = (local("error"), named_error(index, names));
    quote!(.map_err(|#error| #error #named))
}

/// The call of a method of an error that names the procedure in it.
pub(super) fn named_error(index: usize, names: &Names) -> TokenStream {
    let client = &names.client;
    let index = u16::try_from(index).expect("the number of procedures has been checked");
    quote!(.of(#client::interface(), #index))
}
