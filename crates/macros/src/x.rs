//! `x!`: interface files of Sun RPC, compiled in place.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use std::path::PathBuf;
use stoop_x::{Compiled, Options, Strings, build};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Error, Ident, Item, LitInt, LitStr, Token, Type, parenthesized, parse_quote};

/// A path or a text in quotes, and options.
struct Quoted {
    text: LitStr,
    options: Vec<Setting>,
}

/// An option.
enum Setting {
    Strings(Strings),
    Define(String, String),
    Constant(String, i64),
    External(String, String),
    Include(PathBuf),
    IncludeDir(PathBuf),
}

impl Parse for Quoted {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let text = input.parse()?;
        let mut options = Vec::new();
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if !input.is_empty() {
                options.extend(settings(input)?);
            }
        }
        Ok(Quoted { text, options })
    }
}

fn settings(input: ParseStream<'_>) -> syn::Result<Vec<Setting>> {
    let name: Ident = input.parse()?;
    if name == "strings" {
        input.parse::<Token![=]>()?;
        return strings(&input.parse()?).map(|strings| vec![Setting::Strings(strings)]);
    }
    let content;
    parenthesized!(content in input);
    let setting: fn(ParseStream<'_>) -> syn::Result<Setting> = match name.to_string().as_str() {
        "define" => |input| Ok(Setting::Define(key(input)?, input.parse::<LitStr>()?.value())),
        "extern_const" => |input| Ok(Setting::Constant(key(input)?, number(input)?)),
        "extern_type" => |input| {
            let (name, ty) = (key(input)?, input.parse::<Type>()?);
            Ok(Setting::External(name, quote!(#ty).to_string()))
        },
        "include" => |input| Ok(Setting::Include(from_manifest(&input.parse::<LitStr>()?.value()))),
        "include_dir" => |input| Ok(Setting::IncludeDir(from_manifest(&input.parse::<LitStr>()?.value()))),
        _ => {
            let advice = "the options are `strings`, `define`, `extern_const`, `extern_type`, `include` and `include_dir`";
            return Err(Error::new(name.span(), advice));
        }
    };
    let all = Punctuated::<Setting, Token![,]>::parse_terminated_with(&content, setting)?;
    Ok(all.into_iter().collect())
}

fn strings(choice: &Ident) -> syn::Result<Strings> {
    match choice.to_string().as_str() {
        "text" => Ok(Strings::Text),
        "bytes" => Ok(Strings::Bytes),
        _ => Err(Error::new(choice.span(), "write `text` or `bytes`")),
    }
}

fn key(input: ParseStream<'_>) -> syn::Result<String> {
    let name: Ident = input.parse()?;
    input.parse::<Token![=]>()?;
    Ok(name.to_string())
}

fn number(input: ParseStream<'_>) -> syn::Result<i64> {
    let sign = if input.parse::<Option<Token![-]>>()?.is_some() { -1 } else { 1 };
    Ok(sign * input.parse::<LitInt>()?.base10_parse::<i64>()?)
}

/// The items for an interface file or its text.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream, Error> {
    let quoted: Result<Quoted, _> = Quoted::parse.parse2(input.clone());
    let begins_with_quotes = input.clone().into_iter().next().is_some_and(|token| {
        matches!(&token, proc_macro2::TokenTree::Literal(literal) if literal.to_string().starts_with(['"', 'r']))
    });
    let (compiled, span) = match quoted {
        Ok(quoted) => (quoted.compile(), quoted.text.span()),
        Err(error) if begins_with_quotes => return Err(error),
        Err(_) => (of_text(&input.to_string(), &Options::new().interfaces(true)), Span::call_site()),
    };
    items(&compiled.map_err(|why| Error::new(span, why))?)
}

impl Quoted {
    fn compile(&self) -> Result<Compiled, String> {
        let options =
            self.options.iter().fold(Options::new().interfaces(true), |options, setting| match setting {
                Setting::Strings(strings) => options.strings(*strings),
                Setting::Define(name, value) => options.define(name, value),
                Setting::Constant(name, value) => options.extern_const(name, *value),
                Setting::External(name, rust) => options.extern_type(name, rust),
                Setting::IncludeDir(path) => options.include_dir(path),
                Setting::Include(path) => options.declare(format!("#include \"{}\"", path.display())),
            });
        let text = self.text.value();
        let is_path = text.ends_with(".x") && !text.contains(['\n', ';']);
        if is_path { build::file(&from_manifest(&text), &options) } else { of_text(&text, &options) }
    }
}

fn of_text(text: &str, options: &Options) -> Result<Compiled, String> {
    let name = from_manifest("x!").display().to_string();
    stoop_x::compile(&name, text, options, &mut build::includes(options)).map_err(|error| error.to_string())
}

/// A path from the folder of the crate that is compiled.
fn from_manifest(path: &str) -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join(path)
}

/// The items, with the warnings for unused ones off, and the files that they depend on.
fn items(compiled: &Compiled) -> Result<TokenStream, Error> {
    let file: syn::File = syn::parse_str(&compiled.rust)?;
    let items = file.items.into_iter().map(|mut item| {
        if let Some(attributes) = attributes(&mut item) {
            attributes.push(parse_quote!(#[allow(dead_code, unreachable_pub)]));
        }
        item
    });
    let files = compiled.files.iter().filter(|name| PathBuf::from(name).is_file());
    Ok(quote! {
        #(#items)*
        #(const _: &[u8] = include_bytes!(#files);)*
    })
}

fn attributes(item: &mut Item) -> Option<&mut Vec<syn::Attribute>> {
    Some(match item {
        Item::Const(item) => &mut item.attrs,
        Item::Struct(item) => &mut item.attrs,
        Item::Enum(item) => &mut item.attrs,
        Item::Type(item) => &mut item.attrs,
        Item::Trait(item) => &mut item.attrs,
        Item::Impl(item) => &mut item.attrs,
        _ => return None,
    })
}
