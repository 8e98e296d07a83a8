//! The attributes of what came with a later revision: `since = N`, `default = VALUE`, `drop`.

use crate::mistakes::Mistakes;
use proc_macro2::Span;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::{Error, Expr, Ident, LitInt, Token};

/// The revision with which a field or parameter came.
pub struct Since {
    /// The revision.
    pub number: u32,
    /// Its value for peers that do not know it; `None`: that of `Default`.
    pub default: Option<Expr>,
    /// Whether a caller may leave it out of calls to servers that do not know it, whatever its value is.
    pub may_drop: bool,
}

impl Since {
    /// Parses the number of a revision.
    ///
    /// # Errors
    /// It is no number from 1 on.
    pub fn number(input: ParseStream<'_>) -> Result<u32, Error> {
        let literal: LitInt = input.parse()?;
        match literal.base10_parse()? {
            0 => {
                Err(Error::new(literal.span(), "revision 0 is the first: what was there then has no `since`"))
            }
            // The last number stands for the present revision.
            u32::MAX => Err(Error::new(literal.span(), "revisions have numbers below 4,294,967,295")),
            number => Ok(number),
        }
    }
}

/// The options as far as they have been parsed.
#[derive(Default)]
pub struct SinceOptions {
    number: Option<u32>,
    default: Option<Expr>,
    /// Where `drop` or `default` stands.
    others: Option<Span>,
    may_drop: bool,
}

impl SinceOptions {
    /// Takes an option. `false`: it is another one.
    ///
    /// # Errors
    /// It is malformed.
    pub fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<bool, Error> {
        let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        match name.as_str() {
            "since" => self.number = Some(Since::number(meta.value()?)?),
            "default" => {
                self.default = Some(meta.value()?.parse()?);
                self.others = meta.path.get_ident().map(syn::Ident::span);
            }
            "drop" => {
                self.may_drop = true;
                self.others = meta.path.get_ident().map(syn::Ident::span);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Those of a parameter: `N`, `N, default = VALUE`, `N, drop`.
    ///
    /// # Errors
    /// They are malformed.
    pub fn parse(input: ParseStream<'_>) -> Result<Self, Error> {
        let mut options = Self { number: Some(Since::number(input)?), ..Self::default() };
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            let name: Ident = input.call(Ident::parse_any)?;
            match name.to_string().as_str() {
                "default" => {
                    input.parse::<Token![=]>()?;
                    options.default = Some(input.parse()?);
                }
                "drop" => options.may_drop = true,
                _ => {
                    return Err(Error::new(
                        name.span(),
                        "write `#[since(N)]`, with `default = VALUE` or `drop` behind the number",
                    ));
                }
            }
        }
        Ok(options)
    }

    /// The options when all have been parsed.
    pub fn finish(self, mistakes: &mut Mistakes) -> Option<Since> {
        let Self { number, default, others, may_drop } = self;
        if let (None, Some(span)) = (number, others) {
            let advice = "only what came with a later revision has a default: add `since = N`";
            mistakes.extend(Error::new(span, advice));
        }
        number.map(|number| Since { number, default, may_drop })
    }
}
