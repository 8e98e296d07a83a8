//! Items as formatted text.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::HashSet;

/// The items of the runtime that emitted code imports if it uses them.
const IMPORTS: [&str; 9] =
    ["Chain", "Decode", "DecodeError", "Encode", "Layout", "Reader", "UNBOUNDED", "Writer", "Xdr"];

/// The file: where it comes from, what it imports from the runtime, and its items.
pub(super) fn text(name: &str, heading: &[String], items: &[TokenStream], runtime: &str) -> String {
    let mut text = format!("// @generated from {name} by stoop-x: change that file instead.\n");
    if !heading.is_empty() {
        text.push_str("//\n");
    }
    for line in heading {
        text.push_str(format!("// {line}").trim_end());
        text.push('\n');
    }
    let mut used = HashSet::new();
    items.iter().for_each(|item| collect(item.clone(), &mut used));
    let imports: Vec<&str> = IMPORTS.into_iter().filter(|import| used.contains(*import)).collect();
    if !imports.is_empty() {
        text.push_str(&format!("\nuse {runtime}::{};\n", braced(&imports)));
    }
    let mut was_constant = false;
    for item in items.iter().flat_map(parsed) {
        let is_constant = matches!(item, syn::Item::Const(_));
        if !(is_constant && was_constant) {
            text.push('\n');
        }
        text.push_str(&spaced(&formatted(item)));
        was_constant = is_constant;
    }
    text
}

/// A list of imports.
fn braced(imports: &[&str]) -> String {
    match imports {
        [one] => (*one).to_owned(),
        several => format!("{{{}}}", several.join(", ")),
    }
}

fn collect(tokens: TokenStream, used: &mut HashSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(ident) => {
                used.insert(ident.to_string());
            }
            TokenTree::Group(group) => collect(group.stream(), used),
            _ => {}
        }
    }
}

fn parsed(tokens: &TokenStream) -> Vec<syn::Item> {
    let file: Result<syn::File, _> = syn::parse2(tokens.clone());
    match file {
        Ok(file) => file.items,
        Err(error) => panic!("emitted code is Rust, but {error}: {tokens}"),
    }
}

fn formatted(item: syn::Item) -> String {
    prettyplease::unparse(&syn::File { shebang: None, attrs: Vec::new(), items: vec![item] })
}

/// Puts an empty line between the methods of a block.
fn spaced(item: &str) -> String {
    let mut spaced = String::new();
    let (mut before, mut is_in_trait) = ("", false);
    for line in item.lines() {
        is_in_trait |= line.starts_with("pub trait ");
        let begins =
            ["    ///", "    pub fn ", "    fn ", "    #["].iter().any(|start| line.starts_with(start));
        let ends =
            before == "    }" || before.starts_with("    type ") || (is_in_trait && before.ends_with(';'));
        let is_first_of_item = !before.starts_with("    ///") && !before.starts_with("    #[");
        if begins && is_first_of_item && (ends || (line.starts_with("    ///") && is_last_constant(before))) {
            spaced.push('\n');
        }
        spaced.push_str(line);
        spaced.push('\n');
        before = line;
    }
    spaced
}

fn is_last_constant(line: &str) -> bool {
    line.starts_with("    pub const VERSION")
}
