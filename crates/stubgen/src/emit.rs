//! Emits the stubs of an interface: its trait, its client, its server half.
//!
//! Emitted code names only items of the root crate and its `stub` module, by absolute paths, so that no declaration of a user
//! can hide them.

mod begin;
mod buffers;
mod client;
mod docs;
mod gather;
mod in_place;
mod server;
mod signature;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Ident, Path, Type};

use crate::model::{Argument, Interface, Mode, Procedure, Returns, Shape};

/// Emits the stubs of a checked interface; `root` is the path of the crate `stoop`.
pub fn interface(interface: &Interface, root: &Path) -> TokenStream {
    let names = Names::new(interface, root);
    let declaration = declaration(interface);
    let client = client::client(interface, &names);
    let begin = begin::begin(interface, &names);
    let server = server::server(interface, &names);
    quote!(#declaration #client #begin #server)
}

/// Names of the parts of the stubs.
struct Names {
    root: Path,
    stub: TokenStream,
    interface: Ident,
    client: Ident,
    begin: Ident,
    server: Ident,
}

impl Names {
    fn new(interface: &Interface, root: &Path) -> Self {
        let plain = interface.name.unraw();
        Names {
            root: root.clone(),
            stub: quote!(#root::stub),
            interface: interface.name.clone(),
            client: format_ident!("{plain}Client", span = interface.name.span()),
            begin: format_ident!("{plain}Begin", span = interface.name.span()),
            server: format_ident!("{plain}Server", span = interface.name.span()),
        }
    }
}

/// An item of `Data` for a type, with the type's span, so that the compiler reports a missing implementation once.
fn data(ty: &dyn ToTokens, item: &str, names: &Names) -> TokenStream {
    let (stub, span) = (&names.stub, ty.span());
    let item = Ident::new(item, span);
    quote_spanned!(span=> <#ty as #stub::Data>::#item)
}

/// [`data`] for the type of an argument that is neither slice nor text.
fn whole(shape: &Shape) -> TokenStream {
    match shape {
        Shape::Whole(ty) => ty.to_token_stream(),
        Shape::Array(element, len) => {
            let ty = &element.ty;
            quote_spanned!(ty.span()=> [#ty; #len])
        }
        Shape::Text | Shape::Slice(_) | Shape::Buffer(_) => {
            unreachable!("slices, texts and buffers have no type of their own")
        }
    }
}

/// Initial value of an OUT argument.
fn default(ty: &Type) -> TokenStream {
    quote_spanned!(ty.span()=> <#ty as ::core::default::Default>::default)
}

/// A local variable whose name cannot collide with the user's names.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// A type parameter whose name cannot collide with the user's types.
fn implementation() -> Ident {
    format_ident!("__Implementation")
}

/// The user's trait, without the attributes that the model has consumed.
fn declaration(interface: &Interface) -> TokenStream {
    let Interface { attributes, visibility, name, procedures } = interface;
    let (implementation, interface) = (implementation(), name);
    let methods = procedures.iter().map(|procedure| {
        let Procedure { attributes, body, .. } = procedure;
        let signature = method_signature(procedure);
        match body {
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

fn method_signature(procedure: &Procedure) -> TokenStream {
    let Procedure { name, arguments, returns, .. } = procedure;
    let arguments = arguments.iter().map(|argument| {
        let (attributes, name, declared) = (&argument.attributes, &argument.name, &argument.declared);
        quote!(#(#attributes)* #name: #declared)
    });
    let returns = match returns {
        crate::model::Returns::Nothing => TokenStream::new(),
        returns => {
            let ty = returns.ty();
            quote!(-> #ty)
        }
    };
    quote!(fn #name(&self, #(#arguments),*) #returns)
}

/// Whether an argument, or its capacity, travels with the call.
fn travels_with_call(mode: Mode) -> bool {
    mode != Mode::Out
}

/// The arguments in the order in which they come back: first those that the procedure writes in place, because their sizes are
/// known before it runs.
fn coming_back(procedure: &Procedure) -> impl Iterator<Item = &Argument> {
    let (in_place, others): (Vec<&Argument>, Vec<&Argument>) = procedure
        .arguments
        .iter()
        .filter(|each| each.is_result())
        .partition(|each| each.is_written_in_place());
    in_place.into_iter().chain(others)
}

/// The `Leading` of a call, which checks the bounds of all its fixed arguments at once.
fn leading_of_call(procedure: &Procedure, names: &Names) -> TokenStream {
    leading(procedure.arguments.iter().filter_map(|each| layout_in_call(each, names)), names)
}

/// The `Leading` of a result.
fn leading_of_result(procedure: &Procedure, names: &Names) -> TokenStream {
    let returned = match &procedure.returns {
        Returns::Nothing => None,
        returns => Some(data(&returns.ty(), "LAYOUT", names)),
    };
    leading(coming_back(procedure).map(|each| layout_in_result(each, names)).chain(returned), names)
}

fn leading(layouts: impl Iterator<Item = TokenStream>, names: &Names) -> TokenStream {
    let stub = &names.stub;
    quote!(const { #stub::Leading::of(&[#(#layouts),*]) })
}

fn layout_in_call(argument: &Argument, names: &Names) -> Option<TokenStream> {
    let stub = &names.stub;
    match (argument.mode, &argument.shape) {
        (Mode::Out, Shape::Slice(_)) => Some(quote!(<u32 as #stub::Data>::LAYOUT)),
        (Mode::Out, _) => None,
        (Mode::OptionalIn, _) => Some(quote!(#stub::Layout::variable(1))),
        (_, shape) => Some(layout_of(shape, names)),
    }
}

fn layout_in_result(argument: &Argument, names: &Names) -> TokenStream {
    match &argument.shape {
        // An empty array is not even aligned when it is written in place.
        Shape::Array(element, len) if element.is_scalar => {
            let (stub, layout) = (&names.stub, layout_of(&argument.shape, names));
            quote!(if { #len } == 0 { #stub::Layout::fixed(0, 1) } else { #layout })
        }
        shape => layout_of(shape, names),
    }
}

fn layout_of(shape: &Shape, names: &Names) -> TokenStream {
    let stub = &names.stub;
    match shape {
        Shape::Text | Shape::Slice(_) | Shape::Buffer(_) => quote!(#stub::Layout::variable(0)),
        shape => data(&whole(shape), "LAYOUT", names),
    }
}
