//! `#[derive(Data)]`: the marshaling of a user's type.

mod later;

use self::later::{FieldOptions, VariantOptions, VariantParts};
use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use stoop_stubgen::check;
use stoop_stubgen::documentation::first_paragraph;
use stoop_stubgen::mistakes::Mistakes;
use stoop_stubgen::since::Since;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, DataEnum, DeriveInput, Error, Field, Fields, Generics, Path, Type, parse_quote};

/// The implementation of `Data` for the type that `item` declares.
pub(crate) fn expand(item: &DeriveInput) -> Result<TokenStream, Error> {
    let mut mistakes = Mistakes::default();
    if let Some(lifetime) = item.generics.lifetimes().next() {
        mistakes.add(lifetime, "a value that travels owns its parts; use types without a lifetime");
    }
    let root = root(&item.attrs, &mut mistakes);
    let stub = quote!(#root::stub);
    let items = match &item.data {
        syn::Data::Struct(data) => record(item, &data.fields, &stub, &mut mistakes),
        syn::Data::Enum(data) => choice(item, data, &stub, &mut mistakes),
        syn::Data::Union(data) => {
            let advice = "which field of a union is valid is not known when it is sent; write an enum";
            mistakes.add(data.union_token, advice);
            TokenStream::new()
        }
    };
    mistakes.into_result()?;
    let name = &item.ident;
    let generics = bounded(&item.generics, &stub);
    let (parameters, arguments, clause) = generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #parameters #stub::Data for #name #arguments #clause {
            #items
        }
    })
}

/// The span of a type, for the errors of the compiler, but with the names that this code knows: a type may have passed through another macro.
fn at(ty: &Type) -> Span {
    ty.span().resolved_at(Span::call_site())
}

/// The generics, with the bound `Data` on every type parameter.
fn bounded(generics: &Generics, stub: &TokenStream) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#stub::Data));
    }
    generics
}

/// The path of the crate `stoop`, from `#[stoop(crate = path)]`.
pub(crate) fn root(attributes: &[Attribute], mistakes: &mut Mistakes) -> Path {
    let mut root: Path = parse_quote!(::stoop);
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("stoop")) {
        let parsed = attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("crate") {
                return Err(meta.error("the only option of a type is `crate = path::to::stoop`"));
            }
            root = meta.value()?.call(Path::parse_mod_style)?;
            Ok(())
        });
        parsed.unwrap_or_else(|error| mistakes.extend(error));
    }
    root
}

/// A field of a type.
struct Part<'a> {
    ty: &'a Type,
    is_shared: bool,
    /// With which revision it came, if that is not the first.
    since: Option<Since>,
    /// Its name in errors: `Entry.owner`.
    item: String,
    docs: String,
    /// Its member name: `x` or `0`.
    member: syn::Member,
}

impl<'a> Part<'a> {
    /// The parts of `owner`.
    fn all(owner: &str, fields: &'a Fields, mistakes: &mut Mistakes) -> Vec<Part<'a>> {
        let members = fields.members();
        fields.iter().zip(members).map(|(field, member)| Part::new(owner, field, member, mistakes)).collect()
    }

    fn new(owner: &str, field: &'a Field, member: syn::Member, mistakes: &mut Mistakes) -> Self {
        check::field(&field.ty).unwrap_or_else(|error| mistakes.extend(error));
        let FieldOptions { is_shared, since } = FieldOptions::of(&field.attrs, mistakes);
        let item = match &member {
            syn::Member::Named(name) => format!("{owner}.{}", name.unraw()),
            syn::Member::Unnamed(index) => format!("{owner}.{}", index.index),
        };
        Part { ty: &field.ty, is_shared, since, item, docs: first_paragraph(&field.attrs), member }
    }

    fn layout(&self, stub: &TokenStream) -> TokenStream {
        let ty = self.ty;
        if self.is_shared {
            // At least the flag of an `Option` that holds nothing.
            return quote!(#stub::Layout::variable(1));
        }
        quote_spanned!(at(ty)=> <#ty as #stub::Data>::LAYOUT)
    }

    fn encode(&self, place: TokenStream, stub: &TokenStream) -> TokenStream {
        let ty = self.ty;
        if self.is_shared {
            return quote_spanned!(at(ty)=> <#ty as #stub::Shared>::encode_shared(#place, writer, ::core::option::Option::None););
        }
        quote_spanned!(at(ty)=> <#ty as #stub::Data>::encode(#place, writer);)
    }

    fn decode(&self, stub: &TokenStream) -> TokenStream {
        let (ty, member) = (self.ty, &self.member);
        if self.is_shared {
            return quote_spanned!(at(ty)=> #member: <#ty as #stub::Shared>::decode_shared(reader, ::core::option::Option::None)?);
        }
        quote_spanned!(at(ty)=> #member: <#ty as #stub::Data>::decode(reader)?)
    }

    /// `x: f64`, or the type alone in a tuple.
    fn describe(&self, stub: &TokenStream) -> TokenStream {
        let ty = self.ty;
        let mut label = match &self.member {
            syn::Member::Named(name) => format!("{}: ", name.unraw()),
            syn::Member::Unnamed(_) => String::new(),
        };
        if self.is_shared {
            label.push_str("shared ");
        }
        let describe = quote_spanned!(at(ty)=> <#ty as #stub::Data>::describe(description););
        quote!(description.text(#label); #describe)
    }
}

/// `LAYOUT`, `encode`, `decode`, `describe`, `store` and `load` of a struct.
fn record(item: &DeriveInput, fields: &Fields, stub: &TokenStream, mistakes: &mut Mistakes) -> TokenStream {
    let name = item.ident.unraw().to_string();
    let parts = Part::all(&name, fields, mistakes);
    let layouts = parts.iter().map(|part| part.layout(stub));
    let charge = charge(parts.len(), stub);
    let encoded = parts.iter().map(|part| {
        let member = &part.member;
        part.encode(quote!(&self.#member), stub)
    });
    let decoded = parts.iter().map(|part| part.decode(stub));
    let documented = fields_documented(&name, &parts);
    let fields = fields_described(fields, &parts, true, stub);
    let at_older = later::record(&parts, &charge, stub);
    let described = described(item, quote!(#documented #fields), stub);
    // A struct with shared fields is never fixed: the values that they point to may be unsized.
    let in_place = (!parts.iter().any(|part| part.is_shared)).then(|| in_place(&parts, stub));
    quote! {
        const LAYOUT: #stub::Layout = #stub::Layout::record(&[#(#layouts),*]);

        #[inline]
        fn encode(&self, writer: &mut #stub::Writer<'_>) {
            if <Self as #stub::Data>::LAYOUT.is_fixed() {
                writer.fixed(self);
            } else if writer.enter(#charge) {
                #(#encoded)*
                writer.leave(#charge);
            }
        }

        #[inline]
        fn decode(reader: &mut #stub::Reader<'_>) -> ::core::result::Result<Self, #stub::DecodeError> {
            if <Self as #stub::Data>::LAYOUT.is_fixed() {
                return reader.fixed();
            }
            reader.enter(#charge)?;
            let value = Self { #(#decoded),* };
            reader.leave(#charge);
            ::core::result::Result::Ok(value)
        }

        #described
        #in_place
        #at_older
    }
}

/// `store` and `load` of a struct, for when it is fixed.
fn in_place(parts: &[Part<'_>], stub: &TokenStream) -> TokenStream {
    let stored = parts.iter().map(|Part { member, .. }| quote!(.field(&self.#member)));
    let loaded = parts.iter().map(|Part { member, ty, .. }| quote!(#member: parts.field::<#ty>()?));
    let reader = (!parts.is_empty()).then(|| quote!(let mut parts = #stub::FixedReader::new(chunk);));
    quote! {
        #[inline]
        fn store(&self, chunk: &mut [u8]) {
            #stub::FixedWriter::new(chunk)#(#stored)*.end();
        }

        #[inline]
        #[allow(unused_variables)]
        fn load(chunk: &[u8]) -> ::core::result::Result<Self, #stub::DecodeError> {
            #reader
            ::core::result::Result::Ok(Self { #(#loaded),* })
        }
    }
}

/// `describe` of a type: its name, then its structure the first time.
fn described(item: &DeriveInput, structure: TokenStream, stub: &TokenStream) -> TokenStream {
    let name = item.ident.unraw().to_string();
    let documented = documented(&name, &first_paragraph(&item.attrs));
    quote! {
        fn describe(description: &mut #stub::Description) {
            description.named::<Self>(#name, |description| { #documented #structure });
        }
    }
}

/// The statement that tells the documentation of an item, if it has some.
fn documented(item: &str, docs: &str) -> TokenStream {
    if docs.is_empty() { TokenStream::new() } else { quote!(description.document(#item, #docs);) }
}

/// The same of the fields of a struct or variant.
fn fields_documented(item: &str, parts: &[Part<'_>]) -> TokenStream {
    let documented = parts.iter().map(|part| match &part.member {
        syn::Member::Named(name) => documented(&format!("{item}.{}", name.unraw()), &part.docs),
        syn::Member::Unnamed(_) => TokenStream::new(),
    });
    quote!(#(#documented)*)
}

/// `{x: f64, y: f64}`, `(f64, f64)` or nothing. `is_struct`: without its fields it has its brackets, too; a variant has none.
fn fields_described(fields: &Fields, parts: &[Part<'_>], is_struct: bool, stub: &TokenStream) -> TokenStream {
    let (begin, end) = match fields {
        Fields::Named(_) => ("{", "}"),
        Fields::Unnamed(_) => ("(", ")"),
        Fields::Unit => ("", ""),
    };
    if later::has_later(parts) {
        let (before, first) = if is_struct { (begin, "") } else { ("", begin) };
        let each = parts.iter().map(|part| {
            let described = part.describe(stub);
            let add = quote!(description.text(separator); separator = ", "; #described);
            match &part.since {
                None => quote!(#add),
                Some(Since { number, .. }) => quote!(if description.has(#number) { #add }),
            }
        });
        return quote! {
            description.text(#before);
            let mut separator = #first;
            #(#each)*
            if #is_struct || separator == ", " {
                description.text(#end);
            }
        };
    }
    let parts = parts.iter().enumerate().map(|(index, part)| {
        let separator = (index > 0).then(|| quote!(description.text(", ");));
        let part = part.describe(stub);
        quote!(#separator #part)
    });
    quote! {
        description.text(#begin);
        #(#parts)*
        description.text(#end);
    }
}

/// `LAYOUT`, `encode`, `decode`, `describe` of an enum, and `store` and `load` if no variant holds anything.
fn choice(item: &DeriveInput, data: &DataEnum, stub: &TokenStream, mistakes: &mut Mistakes) -> TokenStream {
    let name = item.ident.unraw().to_string();
    let mut variants: Vec<VariantParts<'_>> = Vec::new();
    for variant in &data.variants {
        let owner = format!("{name}::{}", variant.ident.unraw());
        let parts = Part::all(&owner, &variant.fields, mistakes);
        variants.push((variant, parts, VariantOptions::of(variant, mistakes)));
    }
    if variants.iter().filter(|(_, _, options)| options.is_otherwise).count() > 1 {
        mistakes.add(&item.ident, "one variant is `otherwise`: callers of older revisions are told that one");
    }
    let grows = later::has_later_variant(&variants);
    let structure = variants.iter().enumerate().map(|(index, (variant, parts, options))| {
        let label = format!("{}{}", if index > 0 && !grows { " | " } else { "" }, variant.ident.unraw());
        let variant_name = format!("{name}::{}", variant.ident.unraw());
        let documented = documented(&variant_name, &first_paragraph(&variant.attrs));
        let fields_documented = fields_documented(&variant_name, parts);
        let fields = fields_described(&variant.fields, parts, false, stub);
        let structure = quote!(description.text(#label); #documented #fields_documented #fields);
        let separated = quote!(description.text(separator); separator = " | "; #structure);
        match options.since {
            0 if grows => quote!({ #separated }),
            0 => structure,
            since => quote!(if description.has(#since) { #separated }),
        }
    });
    let separator = grows.then(|| quote!(let mut separator = "";));
    let structure = quote!(description.text("{"); #separator #(#structure)* description.text("}"););
    let described = described(item, structure, stub);
    let is_plain = variants.iter().all(|(variant, ..)| variant.fields.is_empty());
    let marshaling = if is_plain { plain(&name, &variants, stub) } else { tagged(&name, &variants, stub) };
    quote!(#marshaling #described)
}

/// An enum without fields, which travels as its number.
fn plain(name: &str, variants: &[VariantParts<'_>], stub: &TokenStream) -> TokenStream {
    let patterns: Vec<TokenStream> = variants.iter().map(|(variant, ..)| quote_ident(variant)).collect();
    let numbers: Vec<Literal> = numbers(variants);
    let at_older = later::plain(name, variants, stub);
    let number = match patterns.is_empty() {
        true => quote!(match *self {}),
        false => quote!(match self { #(Self::#patterns {} => #numbers,)* }),
    };
    quote! {
        const LAYOUT: #stub::Layout = <u32 as #stub::Data>::LAYOUT;

        #[inline]
        fn encode(&self, writer: &mut #stub::Writer<'_>) {
            writer.fixed(self);
        }

        #[inline]
        fn decode(reader: &mut #stub::Reader<'_>) -> ::core::result::Result<Self, #stub::DecodeError> {
            reader.fixed()
        }

        #[inline]
        fn store(&self, chunk: &mut [u8]) {
            let number: u32 = #number;
            <u32 as #stub::Data>::store(&number, chunk);
        }

        #[inline]
        fn load(chunk: &[u8]) -> ::core::result::Result<Self, #stub::DecodeError> {
            match <u32 as #stub::Data>::load(chunk)? {
                #(#numbers => ::core::result::Result::Ok(Self::#patterns {}),)*
                found => ::core::result::Result::Err(#stub::DecodeError::BadVariant { name: #name, found }),
            }
        }

        #at_older
    }
}

/// An enum with fields, which travels as the variant's number and its fields.
fn tagged(name: &str, variants: &[VariantParts<'_>], stub: &TokenStream) -> TokenStream {
    let numbers = numbers(variants);
    // A build without optimisation reserves stack for the fields of every variant.
    let charge = charge(variants.iter().map(|(_, parts, _)| parts.len()).sum(), stub);
    let encoded = variants.iter().zip(&numbers).map(|((variant, parts, _), number)| {
        let ident = quote_ident(variant);
        let members = parts.iter().map(|part| &part.member);
        let places: Vec<_> = (0..parts.len()).map(|index| format_ident!("field_{index}")).collect();
        let fields =
            parts.iter().zip(&places).map(|(part, place)| part.encode(place.to_token_stream(), stub));
        quote! {
            Self::#ident { #(#members: #places),* } => {
                writer.fixed::<u32>(&#number);
                #(#fields)*
            }
        }
    });
    let decoded = variants.iter().zip(&numbers).map(|((variant, parts, _), number)| {
        let ident = quote_ident(variant);
        let fields = parts.iter().map(|part| part.decode(stub));
        quote!(#number => Self::#ident { #(#fields),* },)
    });
    let (at_older, layout_at) =
        (later::tagged(name, variants, &charge, stub), later::layout_of_tagged(variants, stub));
    quote! {
        const LAYOUT: #stub::Layout = #stub::Layout::variable(4);

        #layout_at
        #at_older

        #[inline]
        fn encode(&self, writer: &mut #stub::Writer<'_>) {
            if writer.enter(#charge) {
                match self { #(#encoded)* }
                writer.leave(#charge);
            }
        }

        #[inline]
        fn decode(reader: &mut #stub::Reader<'_>) -> ::core::result::Result<Self, #stub::DecodeError> {
            reader.enter(#charge)?;
            let value = match reader.fixed::<u32>()? {
                #(#decoded)*
                found => return ::core::result::Result::Err(#stub::DecodeError::BadVariant { name: #name, found }),
            };
            reader.leave(#charge);
            ::core::result::Result::Ok(value)
        }
    }
}

/// Charge for the stack that marshaling a type with this many fields takes.
fn charge(fields: usize, stub: &TokenStream) -> TokenStream {
    quote!(const { #stub::limits::stack_charge::<Self>(#fields) })
}

fn numbers(variants: &[VariantParts<'_>]) -> Vec<Literal> {
    (0u32..).take(variants.len()).map(Literal::u32_suffixed).collect()
}

fn quote_ident(variant: &syn::Variant) -> TokenStream {
    variant.ident.to_token_stream()
}
