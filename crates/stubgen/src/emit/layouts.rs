//! The layouts of calls and results, by which their bounds are checked at once.

use proc_macro2::TokenStream;
use quote::quote;

use super::names::{Names, coming_back, data, whole};
use crate::model::{Argument, Mode, Procedure, Returns, Shape, Way};

/// The `Leading` of a call, which checks the bounds of all its fixed arguments at once.
pub(super) fn leading_of_call(procedure: &Procedure, names: &Names) -> TokenStream {
    leading(procedure.arguments.iter().filter_map(|each| layout_in_call(each, names)), names)
}

/// The `Leading` of a result.
pub(super) fn leading_of_result(procedure: &Procedure, names: &Names) -> TokenStream {
    let returned = match &procedure.returns {
        Returns::Nothing => None,
        returns => Some(data(&returns.ty(), "LAYOUT", names)),
    };
    leading(coming_back(procedure).map(|each| layout_in_result(each, names)).chain(returned), names)
}

fn leading(layouts: impl Iterator<Item = TokenStream>, names: &Names) -> TokenStream {
    let stub = &names.stub;
    if names.is_older {
        // Known when the call is made only: each value is checked by itself.
        return quote!(const { #stub::Leading::of(&[#stub::Layout::variable(0)]) });
    }
    quote!(const { #stub::Leading::of(&[#(#layouts),*]) })
}

fn layout_in_call(argument: &Argument, names: &Names) -> Option<TokenStream> {
    let stub = &names.stub;
    match (argument.mode, &argument.shape) {
        (Mode::Out, Shape::Slice(_)) => Some(quote!(<u32 as #stub::Data>::LAYOUT)),
        (Mode::Out, Shape::Buffer(_)) => Some(layout_of(&argument.shape, names)),
        (Mode::Out, _) | (_, Shape::Pipe(Way::In, _)) => None,
        (_, Shape::Pipe(Way::Out, _)) => Some(quote!(<u64 as #stub::Data>::LAYOUT)),
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
        Shape::Callback(_) => quote!(<#stub::Callback as #stub::Data>::LAYOUT),
        Shape::Text | Shape::Slice(_) | Shape::Buffer(_) => quote!(#stub::Layout::variable(0)),
        shape => data(&whole(shape), "LAYOUT", names),
    }
}
