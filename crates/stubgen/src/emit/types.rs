//! The implementations of XDR's traits for a user's type.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{Generics, Lifetime, Path, TypeParamBound, parse_quote};

use super::names::local;
use crate::types::{Body, Case, Part, UserType};

/// The implementations; `root` is the path of the crate `stoop`.
pub fn user_type(of: &UserType, root: &Path) -> TokenStream {
    let xdr = quote!(#root::xdr);
    let code = code(of, &xdr);
    let (name, lifetime) = (&of.name, Lifetime::new("'__message", proc_macro2::Span::mixed_site()));
    let (layout, encode, decode) = (&code.layout, &code.encode, &code.decode);
    let (writer, reader) = (local("writer"), local("reader"));
    let implement = |bound: TypeParamBound, is_borrowing: bool| {
        let mut generics = bounded(&of.generics, &bound);
        let (_, arguments, _) = of.generics.split_for_impl();
        let arguments = arguments.to_token_stream();
        if is_borrowing {
            generics.params.insert(0, parse_quote!(#lifetime));
        }
        let (parameters, _, clause) = generics.split_for_impl();
        (parameters.to_token_stream(), quote!(#name #arguments #clause))
    };
    let (xdr_parameters, xdr_for) = implement(parse_quote!(#xdr::Xdr), false);
    let (encode_parameters, encode_for) = implement(parse_quote!(#xdr::Encode), false);
    let (decode_parameters, decode_for) = implement(parse_quote!(#xdr::Decode<#lifetime>), true);
    quote! {
        #[automatically_derived]
        impl #xdr_parameters #xdr::Xdr for #xdr_for {
            const LAYOUT: #xdr::Layout = #layout;
        }

        #[automatically_derived]
        impl #encode_parameters #xdr::Encode for #encode_for {
            #[inline]
            fn encode(&self, #[allow(unused_variables)] #writer: &mut #xdr::Writer<'_>) { #encode }
        }

        #[automatically_derived]
        impl #decode_parameters #xdr::Decode<#lifetime> for #decode_for {
            #[inline]
            fn decode(
                #[allow(unused_variables)] #reader: &mut #xdr::Reader<#lifetime>,
            ) -> ::core::result::Result<Self, #xdr::DecodeError> {
                #decode
            }
        }
    }
}

/// The generics, with a bound on every type parameter.
fn bounded(generics: &Generics, bound: &TypeParamBound) -> Generics {
    let mut generics = generics.clone();
    generics.type_params_mut().for_each(|parameter| parameter.bounds.push(bound.clone()));
    generics
}

/// The parts of the implementations that differ from type to type.
struct Code {
    layout: TokenStream,
    encode: TokenStream,
    decode: TokenStream,
}

fn code(of: &UserType, xdr: &TokenStream) -> Code {
    let (writer, reader) = (local("writer"), local("reader"));
    let name = of.name.unraw().to_string();
    match &of.body {
        Body::Structure(parts) => {
            let layouts = parts.iter().map(|part| part.form.layout(xdr));
            let encode =
                parts.iter().map(|Part { member, form, .. }| form.write(&quote!(&self.#member), &writer));
            let decode = read_all(parts, &reader);
            Code {
                layout: quote!(#xdr::Layout::record(&[#(#layouts),*])),
                encode: quote!(#(#encode)*),
                decode: quote!(::core::result::Result::Ok(Self { #decode })),
            }
        }
        Body::Enumeration(cases) => {
            let unknown = quote!(#reader.unknown_value(#name, found));
            Code { layout: quote!(#xdr::Layout::fixed(4)), ..choice(cases, &writer, &reader, &unknown) }
        }
        Body::Union(cases) => {
            let unknown = quote!(#reader.unknown_arm(#name, found));
            Code { layout: quote!(#xdr::Layout::variable(4)), ..choice(cases, &writer, &reader, &unknown) }
        }
    }
}

fn read_all(parts: &[Part], reader: &Ident) -> TokenStream {
    let reader = &reader.to_token_stream();
    let parts = parts.iter().map(|Part { member, form, .. }| {
        let read = form.read(reader);
        quote!(#member: #read?)
    });
    quote!(#(#parts),*)
}

fn choice(cases: &[Case], writer: &Ident, reader: &Ident, unknown: &TokenStream) -> Code {
    let encode = cases.iter().map(|Case { name, number, parts, .. }| {
        let members = parts.iter().map(|part| &part.member);
        let places: Vec<_> = (0..parts.len()).map(|index| format_ident!("part_{index}")).collect();
        let writes = parts.iter().zip(&places).map(|(part, place)| part.form.write(&quote!(#place), writer));
        let number = Literal::i32_unsuffixed(*number);
        quote!(Self::#name { #(#members: #places),* } => { #writer.i32(#number); #(#writes)* })
    });
    let decode = cases.iter().map(|Case { name, number, parts, .. }| {
        let (number, read) = (Literal::i32_unsuffixed(*number), read_all(parts, reader));
        quote!(#number => ::core::result::Result::Ok(Self::#name { #read }),)
    });
    let encode = match cases {
        [] => quote!(match *self {}),
        _ => quote!(match self { #(#encode)* }),
    };
    let decode = quote! {
        match #reader.i32()? {
            #(#decode)*
            found => ::core::result::Result::Err(#unknown),
        }
    };
    Code { layout: TokenStream::new(), encode, decode }
}
