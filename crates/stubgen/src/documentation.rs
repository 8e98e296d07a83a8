//! The documentation of items, as servers tell it: the first paragraph.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Bytes of the longest documentation of an item.
const DOCS_MAX: usize = 2048;

/// The first paragraph of an item's documentation; empty if it has none.
pub fn first_paragraph(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let lines = text.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    let paragraph: Vec<_> =
        lines.skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty()).collect();
    let mut docs = paragraph.join("\n");
    docs.truncate(docs.floor_char_boundary(DOCS_MAX));
    docs
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn the_first_paragraph_is_told_and_cut_at_a_character() {
        let item: syn::ItemFn = parse_quote! {
            /// One.
            /// Two.
            ///
            /// Three.
            #[inline]
            fn f() {}
        };
        assert_eq!(first_paragraph(&item.attrs), "One.\nTwo.");
        let long = "é".repeat(DOCS_MAX);
        let item: syn::ItemFn = parse_quote! { #[doc = #long] fn f() {} };
        assert_eq!(first_paragraph(&item.attrs).len(), DOCS_MAX);
        assert_eq!(first_paragraph(&[]), "");
    }
}
