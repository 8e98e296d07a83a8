//! The client's half of marshaling: writes arguments, reads results, converts outcomes.

use proc_macro2::TokenStream;
use quote::quote;

use super::layouts::leading_of_result;
use super::left_out;
use super::names::{Names, coming_back, decode, encode, encode_all, local, travels_with_call, whole};
use crate::model::{Argument, Fallible, Mode, Procedure, Returns, Shape, Way};

/// The method's return type, and the conversions of a call error and of a call's outcome into it.
pub(super) fn outcome(returns: &Returns, names: &Names) -> (TokenStream, TokenStream, TokenStream) {
    let root = &names.root;
    match returns {
        Returns::Fallible(fallible) => {
            let Fallible { value, error, .. } = &**fallible;
            (
                quote!(::core::result::Result<#value, #root::Error<#error>>),
                quote!(.map_err(#root::Error::Call)),
                quote!(.map_err(#root::Error::Call)?.map_err(#root::Error::Application)),
            )
        }
        _ => {
            let ty = returns.ty();
            (quote!(::core::result::Result<#ty, #root::CallError>), TokenStream::new(), TokenStream::new())
        }
    }
}

/// Writes an argument into the call packet.
pub(super) fn send(argument: &Argument, names: &Names) -> TokenStream {
    let sent = send_always(argument, names);
    if names.is_older { left_out::send(argument, sent, names) } else { sent }
}

/// As [`send`], of a call with buffers: of a buffer in shared memory it writes the position.
pub(super) fn send_or_lend(argument: &Argument, names: &Names) -> TokenStream {
    if !argument.is_buffer() {
        return send(argument, names);
    }
    let (name, writer, lending) = (&argument.name, local("arguments"), local("lending"));
    match argument.mode {
        Mode::Out => quote!(#lending.put_capacity(&*#name, #writer);),
        mode => {
            let is_changed = mode == Mode::InOut;
            quote!(#lending.put(&*#name, #is_changed, #writer);)
        }
    }
}

fn send_always(argument: &Argument, names: &Names) -> TokenStream {
    let name = &argument.name;
    let writer = local("arguments");
    match (argument.mode, &argument.shape) {
        (_, Shape::Pipe(Way::In, _)) => TokenStream::new(),
        (_, Shape::Pipe(Way::Out, _)) => {
            let window = local("window");
            quote!(#writer.value::<u64>(&#window);)
        }
        (Mode::Value, shape) => {
            let encode = encode(&whole(shape), quote!(&#name), &writer, names);
            quote!(#encode;)
        }
        (Mode::OptionalIn, shape) => {
            let some = send_borrowed(argument, shape, names);
            quote! {
                #writer.value(&#name.is_some());
                if let ::core::option::Option::Some(#name) = #name { #some }
            }
        }
        (Mode::Out, Shape::Slice(_)) => quote!(#writer.count(#name.len());),
        (mode, shape) if travels_with_call(mode) => send_borrowed(argument, shape, names),
        _ => TokenStream::new(),
    }
}

fn send_borrowed(argument: &Argument, shape: &Shape, names: &Names) -> TokenStream {
    let name = &argument.name;
    let writer = local("arguments");
    match shape {
        Shape::Text => quote!(#writer.text(#name);),
        Shape::Slice(element) => {
            let encode_all = encode_all(&element.ty, quote!(&*#name), &writer, names);
            quote! {
                #writer.count(#name.len());
                #encode_all;
            }
        }
        Shape::Buffer(_) => {
            let stub = &names.stub;
            quote!(#stub::put_contents(&*#name, &mut #writer);)
        }
        shape => {
            let encode = encode(&whole(shape), quote!(&*#name), &writer, names);
            quote!(#encode;)
        }
    }
}

/// The expression that reads a result: arguments written in place, the other arguments, the value returned.
pub(super) fn receive_all(procedure: &Procedure, names: &Names) -> TokenStream {
    let (reader, result) = (local("results"), local("result"));
    let leading = leading_of_result(procedure, names);
    let rest = read_others(coming_back(procedure), procedure, names);
    quote! {
        let mut #reader = #result.reader();
        #reader.begin(#leading)?;
        #rest
    }
}

/// The expression that reads the arguments that were not written in place, and the value returned.
pub(super) fn read_others<'a>(
    arguments: impl Iterator<Item = &'a Argument>,
    procedure: &Procedure,
    names: &Names,
) -> TokenStream {
    let reader = local("results");
    let received = arguments.map(|each| receive(each, names));
    let returned = match &procedure.returns {
        Returns::Nothing => quote!(let returned = ();),
        returns => {
            let decode = decode(&returns.ty(), &reader, names);
            quote!(let returned = #decode?;)
        }
    };
    quote! {
        #(#received)*
        #returned
        #reader.finish()?;
        ::core::result::Result::Ok(returned)
    }
}

pub(super) fn receive(argument: &Argument, names: &Names) -> TokenStream {
    let name = &argument.name;
    let reader = local("results");
    match &argument.shape {
        Shape::Slice(element) | Shape::Array(element, _) if element.is_scalar => {
            quote!(#reader.scalars(&mut #name[..])?;)
        }
        Shape::Slice(element) => {
            let decode = decode(&element.ty, &reader, names);
            quote! {
                for #name in #name.iter_mut() {
                    *#name = #decode?;
                }
            }
        }
        Shape::Buffer(_) => {
            let result = local("result");
            quote!(#result.take_buffer(&mut #reader, #name)?;)
        }
        shape => {
            let decode = decode(&whole(shape), &reader, names);
            quote!(*#name = #decode?;)
        }
    }
}
