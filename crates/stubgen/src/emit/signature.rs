//! The static description of an interface, which both ends compare at bind time.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::Type;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::names::{Names, data, layout, local, whole};
use super::{callbacks, in_place};
use crate::documentation::first_paragraph;
use crate::model::{Argument, Interface, Mode, Procedure, Returns, Revisions, Shape, Way, plain};
use crate::since::Since;

/// The function that returns the description.
pub(super) fn interface(interface: &Interface, names: &Names) -> TokenStream {
    let stub = &names.stub;
    let name = interface.name.unraw().to_string();
    let procedures = interface.procedures.iter().map(|each| procedure(each, names));
    let procedures = procedures.chain(callbacks::described(interface, names));
    let callback = callbacks::offered(interface, names);
    let docs = first_paragraph(&interface.attributes);
    let revisions = match interface.revisions {
        None => quote!(#stub::Revisions::none()),
        Some(Revisions { newest, oldest }) => quote!(#stub::Revisions::new(#newest, #oldest)),
    };
    let keys = names.has_revisions.then(|| check_keys(interface, names));
    let checks = interface.procedures.iter().filter_map(|each| check_returned(each, names));
    quote! {
        /// The interface as it is compared at bind time.
        #[doc(hidden)]
        #[inline]
        pub fn interface() -> &'static #stub::Interface {
            #(#checks)*
            #keys
            static INTERFACE: #stub::Interface =
                #stub::Interface {
                    name: #name,
                    docs: #docs,
                    procedures: &[#(#procedures),*],
                    revisions: #revisions,
                    callback: #callback,
                };
            &INTERFACE
        }
    }
}

/// Code by which the compiler checks now, and not only where the stubs are used, that keys of maps have not grown.
fn check_keys(interface: &Interface, names: &Names) -> TokenStream {
    let of_argument = |argument: &Argument| match &argument.shape {
        Shape::Text | Shape::Buffer(_) | Shape::Pipe(..) | Shape::Callback(_) => None,
        Shape::Slice(element) => Some(layout(&element.ty, names)),
        shape => Some(layout(&whole(shape), names)),
    };
    let layouts = interface.procedures.iter().flat_map(|procedure| {
        let returned = layout(&procedure.returns.ty(), names);
        procedure.arguments.iter().filter_map(of_argument).chain([returned])
    });
    quote!(const _: () = { #(let _ = #layouts;)* };)
}

/// Code by which the compiler checks that a procedure's type is not an alias of `Result`; empty if the macro can see that.
fn check_returned(procedure: &Procedure, names: &Names) -> Option<TokenStream> {
    let Returns::Value(ty) = &procedure.returns else { return None };
    // With the type's span, so that the compiler reports the error there.
    let stub: TokenStream = names.stub.clone().into_iter().map(|token| at(ty.span(), token)).collect();
    let hides = quote_spanned!(ty.span()=> #stub::Hides<{ <#stub::Returned<#ty>>::IS_RESULT }>);
    let check = quote_spanned!(ty.span()=> #stub::check_returned::<#hides>(););
    may_be_alias(ty).then(|| {
        quote! {
            const _: () = {
                #[allow(unused_imports)]
                use #stub::AnyReturned as _;
                #check
            };
        }
    })
}

fn at(span: Span, mut token: TokenTree) -> TokenTree {
    token.set_span(span);
    token
}

/// Whether a type may be an alias of `Result`.
fn may_be_alias(ty: &Type) -> bool {
    const KNOWN: [&str; 19] = [
        "bool", "char", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128",
        "isize", "f32", "f64", "String", "Vec", "Option",
    ];
    match plain(ty) {
        Type::Path(path) => {
            let last = path.path.segments.last().map(|segment| segment.ident.to_string());
            !last.is_some_and(|last| KNOWN.contains(&last.as_str()))
        }
        Type::Macro(_) => true,
        _ => false,
    }
}

fn procedure(procedure: &Procedure, names: &Names) -> TokenStream {
    let stub = &names.stub;
    let name = procedure.name.unraw().to_string();
    let (idempotent, one_way) = (procedure.idempotent, procedure.one_way);
    let in_place = in_place::leading(procedure, names);
    let buffers = procedure.has_buffers();
    let description = local("description");
    // Callers that wait and callers that do not must not bind to each other's procedures.
    let begin = format!("{}{name}(", if one_way { "one_way " } else { "" });
    let is_later = |each: &Argument| each.since.is_some();
    let (separator, has_later) = (local("separator"), procedure.arguments.iter().any(is_later));
    let arguments = procedure.arguments.iter().enumerate().map(|(index, each)| {
        if !has_later {
            return argument(if index == 0 { "" } else { ", " }, each, names);
        }
        let described = argument("", each, names);
        let added = quote!(#description.text(#separator); #separator = ", "; #described);
        match &each.since {
            None => added,
            Some(Since { number, .. }) => quote!(if #description.has(#number) { #added }),
        }
    });
    let begun = has_later.then(|| quote!(let mut #separator = "";));
    let (since, ended) = (procedure.since, has_later.then(|| quote!(let _ = #separator;)));
    let returns = match &procedure.returns {
        Returns::Nothing => quote!(#description.text(")");),
        returns => {
            let describe = data(&returns.ty(), "describe", names);
            quote! {
                #description.text(") -> ");
                #describe(#description);
            }
        }
    };
    let docs = first_paragraph(&procedure.attributes);
    quote! {
        #stub::Procedure {
            name: #name,
            docs: #docs,
            signature: #stub::Signature::Emitted(|#description: &mut #stub::Description| {
                #description.text(#begin);
                #begun
                #(#arguments)*
                #ended
                #returns
            }),
            idempotent: #idempotent,
            one_way: #one_way,
            in_place: #in_place,
            buffers: #buffers,
            since: #since,
        }
    }
}

fn argument(separator: &str, argument: &Argument, names: &Names) -> TokenStream {
    let description = local("description");
    let (mode, end) = match argument.mode {
        Mode::Value | Mode::In => ("", ""),
        Mode::OptionalIn => ("Option<", ">"),
        Mode::InOut => ("inout ", ""),
        Mode::Out => ("out ", ""),
    };
    let begin = format!("{separator}{}: {mode}", argument.name.unraw());
    let shape = match &argument.shape {
        Shape::Text => quote!(#description.text("String");),
        Shape::Slice(element) => {
            let describe = data(&element.ty, "describe", names);
            quote! {
                #description.text("[");
                #describe(#description);
                #description.text("]");
            }
        }
        Shape::Pipe(way, item) => {
            let begin = match way {
                Way::In => "pipe in ",
                Way::Out => "pipe out ",
            };
            let stub = &names.stub;
            quote! {
                #description.text(#begin);
                <#item as #stub::Item>::describe(#description);
            }
        }
        Shape::Callback(_) => {
            let stub = &names.stub;
            quote!(<#stub::Callback as #stub::Data>::describe(#description);)
        }
        Shape::Buffer(element) => {
            let describe = data(element, "describe", names);
            quote! {
                #description.text("in place [");
                #describe(#description);
                #description.text("]");
            }
        }
        shape => {
            let describe = data(&whole(shape), "describe", names);
            quote!(#describe(#description);)
        }
    };
    let is_marked = argument.is_result() && !argument.is_written_in_place() && !argument.is_buffer();
    let shape = match is_marked {
        true => {
            let is_slice = matches!(argument.shape, Shape::Slice(_));
            quote!(#description.comes_back(#is_slice, |#description| { #shape });)
        }
        false => shape,
    };
    quote! {
        #description.text(#begin);
        #shape
        #description.text(#end);
    }
}
