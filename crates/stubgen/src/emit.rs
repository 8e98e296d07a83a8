//! Writes the stubs of an interface: its trait, its client, its server.
//!
//! Emitted code names only what is in the root crate and its `stub` module, by absolute paths, so that nothing a user
//! declares can get in its way.

mod client;
mod server;
mod signature;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Ident, Path};

use crate::model::{Interface, Mode, Procedure};

/// The stubs of an interface that has been checked; `root` is the path of the crate `stoop`.
pub fn interface(interface: &Interface, root: &Path) -> TokenStream {
    let names = Names::new(interface, root);
    let declaration = declaration(interface);
    let client = client::client(interface, &names);
    let server = server::server(interface, &names);
    quote!(#declaration #client #server)
}

/// What the parts of the stubs are called.
struct Names {
    root: Path,
    stub: TokenStream,
    interface: Ident,
    client: Ident,
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
            server: format_ident!("{plain}Server", span = interface.name.span()),
        }
    }
}

/// A local variable that no name of the user's can meet.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// The user's trait, without what the model took from it.
fn declaration(interface: &Interface) -> TokenStream {
    let Interface { attributes, visibility, name, procedures } = interface;
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
            #signature { (**self).#name(#(#arguments),*) }
        }
    });
    quote! {
        #(#attributes)*
        #visibility trait #name: ::core::marker::Send + ::core::marker::Sync + 'static {
            #(#methods)*
        }

        impl<T: #name + ?::core::marker::Sized> #name for ::std::sync::Arc<T> {
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

/// Attributes of a procedure that its caller should see too.
fn carried(attributes: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attributes
        .iter()
        .filter(|attribute| ["doc", "deprecated"].iter().any(|name| attribute.path().is_ident(name)))
}

/// Whether an argument travels with the call, or at least its capacity.
fn travels_with_call(mode: Mode) -> bool {
    mode != Mode::Out
}
