//! Parts of a type that came with a later revision: their attributes, and the marshaling of messages without them.

use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use stoop_stubgen::mistakes::Mistakes;
use stoop_stubgen::since::{Since, SinceOptions};
use syn::spanned::Spanned;
use syn::{Attribute, Variant};

use super::{Part, at};

/// The options of a field.
pub(super) struct FieldOptions {
    pub(super) is_shared: bool,
    pub(super) since: Option<Since>,
}

impl FieldOptions {
    pub(super) fn of(attributes: &[Attribute], mistakes: &mut Mistakes) -> Self {
        let mut is_shared = false;
        let mut since = SinceOptions::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("stoop")) {
            let parsed = attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("shared") {
                    is_shared = true;
                    return Ok(());
                }
                match since.take(&meta)? {
                    true => Ok(()),
                    false => Err(meta.error(
                        "the options of a field are `shared`, `since = N`, `default = VALUE` and `drop`",
                    )),
                }
            });
            parsed.unwrap_or_else(|error| mistakes.extend(error));
        }
        Self { is_shared, since: since.finish(mistakes) }
    }
}

/// The options of a variant.
#[derive(Default)]
pub(super) struct VariantOptions {
    pub(super) since: u32,
    pub(super) is_otherwise: bool,
}

impl VariantOptions {
    pub(super) fn of(variant: &Variant, mistakes: &mut Mistakes) -> Self {
        let mut options = Self::default();
        for attribute in variant.attrs.iter().filter(|attribute| attribute.path().is_ident("stoop")) {
            let parsed = attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("otherwise") {
                    options.is_otherwise = true;
                } else if meta.path.is_ident("since") {
                    options.since = Since::number(meta.value()?)?;
                } else {
                    return Err(meta.error("the options of a variant are `since = N` and `otherwise`"));
                }
                Ok(())
            });
            parsed.unwrap_or_else(|error| mistakes.extend(error));
        }
        if options.is_otherwise && (options.since > 0 || !variant.fields.is_empty()) {
            let advice = "callers of every revision are told `otherwise` in place of variants that they do not know: it has no fields and no \
                          `since`";
            mistakes.add(&variant.ident, advice);
        }
        options
    }
}

impl Part<'_> {
    fn since(&self) -> u32 {
        self.since.as_ref().map_or(0, |since| since.number)
    }

    fn layout_at(&self, stub: &TokenStream) -> TokenStream {
        let ty = self.ty;
        if self.is_shared {
            return quote!(#stub::Layout::variable(1));
        }
        quote_spanned!(at(ty)=> <#ty as #stub::Data>::layout_at(form))
    }

    fn encode_at(&self, place: TokenStream, stub: &TokenStream) -> TokenStream {
        let ty = self.ty;
        let encode = match self.is_shared {
            true => {
                quote_spanned!(at(ty)=> <#ty as #stub::Shared>::encode_shared(#place, writer, ::core::option::Option::Some(form));)
            }
            false => quote_spanned!(at(ty)=> <#ty as #stub::Data>::encode_at(#place, writer, form);),
        };
        let Some(since) = &self.since else { return encode };
        let (number, item) = (since.number, &self.item);
        let leave_out = (!since.may_drop).then(|| {
            let default = part_default(ty, since);
            let is_default = quote_spanned!(at(ty)=> #stub::is_default::<#ty>(#place, &#default));
            quote!(else { writer.leave_out(form, (#item, #number), || #is_default); })
        });
        quote!(if form.has(#number) { #encode } #leave_out)
    }

    fn decode_at(&self, stub: &TokenStream) -> TokenStream {
        let (ty, member) = (self.ty, &self.member);
        let decode = match self.is_shared {
            true => {
                quote_spanned!(at(ty)=> <#ty as #stub::Shared>::decode_shared(reader, ::core::option::Option::Some(form))?)
            }
            false => quote_spanned!(at(ty)=> <#ty as #stub::Data>::decode_at(reader, form)?),
        };
        match &self.since {
            None => quote!(#member: #decode),
            Some(since) => {
                let (number, default) = (since.number, part_default(ty, since));
                quote!(#member: if form.has(#number) { #decode } else { #default })
            }
        }
    }
}

/// The default of a part that came later, in a block of its type.
fn part_default(ty: &syn::Type, since: &Since) -> TokenStream {
    match &since.default {
        Some(value) => quote_spanned!(value.span()=> { let default: #ty = #value; default }),
        None => quote_spanned!(at(ty)=> <#ty as ::core::default::Default>::default()),
    }
}

/// Whether some part came later.
pub(super) fn has_later(parts: &[Part<'_>]) -> bool {
    parts.iter().any(|part| part.since.is_some())
}

/// The expression whether a type with these parts has some that came later.
fn grows<'a>(own: bool, parts: impl Iterator<Item = &'a Part<'a>>, stub: &TokenStream) -> TokenStream {
    let parts = parts.filter(|part| !part.is_shared).map(|part| {
        let ty = part.ty;
        quote_spanned!(at(ty)=> || <#ty as #stub::Data>::GROWS)
    });
    quote!(const GROWS: bool = #own #(#parts)*;)
}

/// `GROWS`, `layout_at`, `encode_at` and `decode_at` of a struct.
pub(super) fn record(parts: &[Part<'_>], charge: &TokenStream, stub: &TokenStream) -> TokenStream {
    if parts.is_empty() {
        return TokenStream::new();
    }
    let grows = grows(has_later(parts), parts.iter(), stub);
    let layouts = parts.iter().map(|part| {
        let layout = part.layout_at(stub);
        match part.since() {
            0 => quote!(.and(#layout)),
            since => quote!(.and_if(form.has(#since), #layout)),
        }
    });
    let encoded = parts.iter().map(|part| {
        let member = &part.member;
        part.encode_at(quote!(&self.#member), stub)
    });
    let decoded = parts.iter().map(|part| part.decode_at(stub));
    let fixed = fixed(parts, stub);
    quote! {
        #grows

        #fixed

        #[inline]
        fn layout_at(form: #stub::Form) -> #stub::Layout {
            #stub::Fields::NONE #(#layouts)*.layout()
        }

        #[inline]
        fn encode_at(&self, writer: &mut #stub::Writer<'_>, form: #stub::Form) {
            if <Self as #stub::Data>::LAYOUT.is_fixed() && !<Self as #stub::Data>::GROWS {
                return writer.fixed(self);
            }
            if const { #stub::is_fixed_at::<Self>() } {
                return writer.fixed_at(self, form);
            }
            let layout = <Self as #stub::Data>::layout_at(form);
            let ::core::option::Option::Some(record) = writer.begin_record(layout, #charge) else { return };
            #(#encoded)*
            writer.end_record(record);
        }

        #[inline]
        fn decode_at(
            reader: &mut #stub::Reader<'_>,
            form: #stub::Form,
        ) -> ::core::result::Result<Self, #stub::DecodeError> {
            if <Self as #stub::Data>::LAYOUT.is_fixed() && !<Self as #stub::Data>::GROWS {
                return reader.fixed();
            }
            if const { #stub::is_fixed_at::<Self>() } {
                return reader.fixed_at(form);
            }
            let record = reader.begin_record(<Self as #stub::Data>::layout_at(form), #charge)?;
            let value = Self { #(#decoded),* };
            reader.end_record(record)?;
            ::core::result::Result::Ok(value)
        }
    }
}

/// `LAYOUTS`, `store_at` and `load_at` of a struct, for when it is fixed.
fn fixed(parts: &[Part<'_>], stub: &TokenStream) -> TokenStream {
    if parts.iter().any(|part| part.is_shared) {
        return TokenStream::new();
    }
    let layouts = parts.iter().map(|part| {
        let (ty, since) = (part.ty, part.since());
        quote_spanned!(at(ty)=> (#since, <#ty as #stub::Data>::LAYOUTS))
    });
    let stored = parts.iter().map(|Part { member, ty, since, item, .. }| {
        let store = quote!(parts.field_at::<#ty, R>(&self.#member, left_out));
        let Some(since) = since else { return quote!(let parts = #store;) };
        let number = since.number;
        let leave_out = (!since.may_drop).then(|| {
            let default = part_default(ty, since);
            let is_default = quote_spanned!(at(ty)=> #stub::is_default::<#ty>(&self.#member, &#default));
            quote!(left_out.leave_out(&(#item, #number), || #is_default);)
        });
        quote!(let parts = if const { #number <= R::NUMBER } { #store } else { #leave_out parts };)
    });
    let loaded = parts.iter().map(|part| {
        let Part { member, ty, since, .. } = part;
        let load = quote!(parts.field_at::<#ty, R>()?);
        let Some(since) = since else { return quote!(#member: #load) };
        let (number, default) = (since.number, part_default(ty, since));
        quote!(#member: if const { #number <= R::NUMBER } { #load } else { #default })
    });
    quote! {
        const LAYOUTS: #stub::Layouts = #stub::Layouts::Record(&[#(#layouts),*]);

        #[inline]
        fn store_at<R: #stub::Revision>(&self, chunk: &mut [u8], left_out: &mut #stub::LeftOut) {
            let parts = #stub::FixedWriter::new(chunk);
            #(#stored)*
            parts.end();
        }

        #[inline]
        fn load_at<R: #stub::Revision>(chunk: &[u8]) -> ::core::result::Result<Self, #stub::DecodeError> {
            let mut parts = #stub::FixedReader::new(chunk);
            ::core::result::Result::Ok(Self { #(#loaded),* })
        }
    }
}

/// A variant with its fields and options.
pub(super) type VariantParts<'a> = (&'a Variant, Vec<Part<'a>>, VariantOptions);

/// The revisions with which the variants came, as a table.
fn table(variants: &[VariantParts<'_>]) -> TokenStream {
    let since = variants.iter().map(|(_, _, options)| options.since);
    quote!(const SINCE: &[u32] = &[#(#since),*];)
}

/// Whether some variant came later.
pub(super) fn has_later_variant(variants: &[VariantParts<'_>]) -> bool {
    variants.iter().any(|(_, _, options)| options.since > 0)
}

/// The statement that writes the number of a variant, and what follows it, in a scope with the table of revisions.
fn write_variant(
    name: &str,
    (position, (variant, _, options)): (usize, &VariantParts<'_>),
    variants: &[VariantParts<'_>],
    fields: &TokenStream,
) -> TokenStream {
    let number = match has_later_variant(variants) {
        true => quote!(form.number_of(SINCE, #position)),
        false => Literal::u32_suffixed(position as u32).to_token_stream(),
    };
    let known = quote!(writer.fixed::<u32>(&#number); #fields);
    let since = options.since;
    if since == 0 {
        return known;
    }
    let item = format!("{name}::{}", variant.ident);
    let otherwise = match variants.iter().position(|(_, _, options)| options.is_otherwise) {
        Some(position) => quote!(::core::option::Option::Some(form.number_of(SINCE, #position))),
        None => quote!(::core::option::Option::None),
    };
    quote!(if form.has(#since) { #known } else { writer.other_variant(form, (#item, #since), #otherwise) })
}

/// `GROWS`, `encode_at` and `decode_at` of an enum without fields; empty if all variants are there from the beginning.
pub(super) fn plain(name: &str, variants: &[VariantParts<'_>], stub: &TokenStream) -> TokenStream {
    if !has_later_variant(variants) {
        return TokenStream::new();
    }
    let table = table(variants);
    let numbered = || variants.iter().enumerate();
    let written = numbered().map(|each| {
        let ident = &each.1.0.ident;
        let write = write_variant(name, each, variants, &TokenStream::new());
        quote!(Self::#ident {} => { #write })
    });
    let read = numbered().map(|(position, (variant, ..))| {
        let ident = &variant.ident;
        quote!(::core::option::Option::Some(#position) => ::core::result::Result::Ok(Self::#ident {}),)
    });
    let fixed = fixed_plain(name, variants, stub);
    quote! {
        const GROWS: bool = true;

        #fixed

        fn encode_at(&self, writer: &mut #stub::Writer<'_>, form: #stub::Form) {
            if const { #stub::is_fixed_at::<Self>() } {
                return writer.fixed_at(self, form);
            }
            #table
            match self { #(#written)* }
        }

        fn decode_at(
            reader: &mut #stub::Reader<'_>,
            form: #stub::Form,
        ) -> ::core::result::Result<Self, #stub::DecodeError> {
            if const { #stub::is_fixed_at::<Self>() } {
                return reader.fixed_at(form);
            }
            #table
            let found = reader.fixed::<u32>()?;
            match form.position_of(SINCE, found) {
                #(#read)*
                _ => ::core::result::Result::Err(#stub::DecodeError::BadVariant { name: #name, found }),
            }
        }
    }
}

/// `LAYOUTS`, `store_at` and `load_at` of an enum without fields.
fn fixed_plain(name: &str, variants: &[VariantParts<'_>], stub: &TokenStream) -> TokenStream {
    let table = table(variants);
    let revisions = variants.iter().map(|(_, _, options)| options.since);
    let number = |position: usize| quote!(#stub::number_of(SINCE, #position, R::NUMBER));
    let otherwise = variants.iter().position(|(_, _, options)| options.is_otherwise);
    let (has_otherwise, other_number) = (otherwise.is_some(), number(otherwise.unwrap_or(0)));
    let each = || variants.iter().map(|(variant, _, VariantOptions { since, .. })| (&variant.ident, since));
    let positions = each().enumerate().map(|(position, (ident, _))| quote!(Self::#ident {} => #position));
    let numbers = each().enumerate().map(|(position, (_, since))| {
        let number = number(position);
        quote!(if #since <= R::NUMBER { #number } else { #other_number })
    });
    let items = each().map(|(ident, since)| {
        let item = format!("{name}::{ident}");
        quote! {
            if #since <= R::NUMBER {
                ::core::option::Option::None
            } else {
                ::core::option::Option::Some(&(#item, #since))
            }
        }
    });
    let latest = each().map(|(_, since)| *since).max().unwrap_or(0);
    let loaded = variants.iter().enumerate().map(|(position, (variant, _, VariantOptions { since, .. }))| {
        let (ident, number) = (&variant.ident, number(position));
        quote! {
            if const { #since <= R::NUMBER } && found == const { #number } {
                return ::core::result::Result::Ok(Self::#ident {});
            }
        }
    });
    quote! {
        const LAYOUTS: #stub::Layouts = #stub::Layouts::Number(&[#(#revisions),*]);

        #[inline]
        fn store_at<R: #stub::Revision>(&self, chunk: &mut [u8], left_out: &mut #stub::LeftOut) {
            #table
            let position: usize = match self { #(#positions),* };
            let numbers = const { &[#(#numbers),*] };
            <u32 as #stub::Data>::store(&numbers[position], chunk);
            if const { #latest > R::NUMBER } {
                let items: &[::core::option::Option<&'static #stub::LaterItem>; _] = const { &[#(#items),*] };
                left_out.replace_variant(items[position], #has_otherwise);
            }
        }

        #[inline]
        fn load_at<R: #stub::Revision>(chunk: &[u8]) -> ::core::result::Result<Self, #stub::DecodeError> {
            #table
            let found = <u32 as #stub::Data>::load(chunk)?;
            #(#loaded)*
            ::core::result::Result::Err(#stub::DecodeError::BadVariant { name: #name, found })
        }
    }
}

/// `GROWS`, `layout_at`, `encode_at` and `decode_at` of an enum with fields.
pub(super) fn tagged(
    name: &str,
    variants: &[VariantParts<'_>],
    charge: &TokenStream,
    stub: &TokenStream,
) -> TokenStream {
    let own = has_later_variant(variants) || variants.iter().any(|(_, parts, _)| has_later(parts));
    let grows = grows(own, variants.iter().flat_map(|(_, parts, _)| parts), stub);
    let table = has_later_variant(variants).then(|| table(variants));
    let written = variants.iter().enumerate().map(|(position, each)| {
        let (variant, parts, _) = each;
        let (ident, members) = (&variant.ident, parts.iter().map(|part| &part.member));
        let places: Vec<_> = (0..parts.len()).map(|index| format_ident!("field_{index}")).collect();
        let fields: TokenStream =
            parts.iter().zip(&places).map(|(part, place)| part.encode_at(quote!(#place), stub)).collect();
        let write = write_variant(name, (position, each), variants, &fields);
        quote!(Self::#ident { #(#members: #places),* } => { #write })
    });
    let read = variants.iter().enumerate().map(|(position, (variant, parts, _))| {
        let ident = &variant.ident;
        let fields = parts.iter().map(|part| part.decode_at(stub));
        quote!(::core::option::Option::Some(#position) => Self::#ident { #(#fields),* },)
    });
    let position = match table {
        Some(_) => quote!(form.position_of(SINCE, found)),
        None => quote!(::core::option::Option::Some(found as usize)),
    };
    quote! {
        #grows

        fn encode_at(&self, writer: &mut #stub::Writer<'_>, form: #stub::Form) {
            #table
            let _ = form;
            if writer.enter(#charge) {
                match self { #(#written)* }
                writer.leave(#charge);
            }
        }

        fn decode_at(
            reader: &mut #stub::Reader<'_>,
            form: #stub::Form,
        ) -> ::core::result::Result<Self, #stub::DecodeError> {
            #table
            reader.enter(#charge)?;
            let found = reader.fixed::<u32>()?;
            let _ = form;
            let value = match #position {
                #(#read)*
                _ => return ::core::result::Result::Err(#stub::DecodeError::BadVariant { name: #name, found }),
            };
            reader.leave(#charge);
            ::core::result::Result::Ok(value)
        }
    }
}

/// `layout_at` of an enum with fields which had none in some form; empty if it always had some.
pub(super) fn layout_of_tagged(variants: &[VariantParts<'_>], stub: &TokenStream) -> TokenStream {
    let fields = variants
        .iter()
        .flat_map(|(_, parts, options)| parts.iter().map(|part| part.since().max(options.since)));
    let first = fields.min().unwrap_or(0);
    if first == 0 {
        return TokenStream::new();
    }
    quote! {
        fn layout_at(form: #stub::Form) -> #stub::Layout {
            if form.has(#first) { <Self as #stub::Data>::LAYOUT } else { <u32 as #stub::Data>::LAYOUT }
        }
    }
}
