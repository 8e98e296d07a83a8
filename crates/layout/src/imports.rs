//! The imports of a crate: which file names an item of which other one, and where.

use crate::Sources;
use crate::attributes::{attributes, is_test};
use crate::modules::{Error, Modules};
use crate::names::{FileId, Meaning, ModuleId, Names, use_leaves};
use crate::resolve::{Scope, Target};
use proc_macro2::{TokenStream, TokenTree};
use std::path::PathBuf;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// One place at which a file names an item of another file of its crate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The file that names the item, below `src`.
    pub from: PathBuf,
    /// The line of the name, from 1 on.
    pub line: usize,
    /// The path as it is resolved; renaming is left out.
    pub path: String,
    /// The file that defines the item, below `src`.
    pub to: PathBuf,
}

/// All files of a crate that are not tests, and the imports between them.
///
/// # Errors
/// A file cannot be parsed, or a `mod` line leads to no file.
pub fn imports(sources: &Sources) -> Result<(Vec<PathBuf>, Vec<Import>), Error> {
    let modules = Modules::of(sources)?;
    let mut found = Vec::new();
    for (id, file) in modules.files.iter().enumerate() {
        let mut collector =
            Collector { modules: &modules, file: id, module: file.module, blocks: Vec::new(), found: vec![] };
        collector.visit_file(&file.syntax);
        found.extend(collector.found);
    }
    found.sort();
    found.dedup();
    Ok((modules.files.iter().map(|file| file.path.clone()).collect(), found))
}

/// Collects the imports of one file.
struct Collector<'a> {
    modules: &'a Modules,
    file: FileId,
    module: ModuleId,
    blocks: Vec<Names>,
    found: Vec<Import>,
}

impl Collector<'_> {
    fn scope(&self) -> Scope<'_> {
        Scope { modules: self.modules, module: self.module, blocks: &self.blocks }
    }

    fn add(&mut self, path: &[String], line: usize) {
        for target in self.scope().resolve(path) {
            if let Target::Item(to) = target {
                self.add_arrow(path, line, to);
            }
        }
    }

    fn add_arrow(&mut self, path: &[String], line: usize, to: FileId) {
        if to != self.file {
            let (from, to) = (&self.modules.files[self.file].path, &self.modules.files[to].path);
            self.found.push(Import { from: from.clone(), line, path: path.join("::"), to: to.clone() });
        }
    }

    /// Adds a path written out in code, unless a `use` of this file says the same already.
    fn add_written(&mut self, path: &[String], line: usize) {
        if !self.is_imported_item(&path[0]) {
            self.add(path, line);
        }
    }

    fn is_imported_item(&self, name: &str) -> bool {
        let is_import = |meaning: &Meaning| matches!(meaning, Meaning::Import { reexport: false, .. });
        let scope = self.scope();
        let meanings = scope.meanings(name);
        !meanings.is_empty()
            && meanings.iter().all(is_import)
            && !scope.resolve(&[name.to_owned()]).iter().any(|target| matches!(target, Target::Module(_)))
    }

    fn add_use(&mut self, import: &syn::ItemUse) {
        for leaf in use_leaves(import) {
            self.add(&leaf.path, leaf.line);
            if leaf.is_glob {
                self.add_glob(&leaf.path, leaf.line);
            }
        }
    }

    /// A glob leads to the file of the module; the names that are used through it lead to where they are defined.
    fn add_glob(&mut self, path: &[String], line: usize) {
        for target in self.scope().resolve(path) {
            if let Target::Module(module) = target {
                self.add_arrow(&[path, &["*".to_owned()]].concat(), line, self.modules.get(module).file);
            }
        }
    }

    /// Looks for paths of at least two segments; `of_macro`: for those that begin with `crate`.
    fn visit_tokens(&mut self, tokens: TokenStream, of_macro: bool) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        while let Some(token) = rest.first() {
            if let TokenTree::Group(group) = token {
                self.visit_tokens(group.stream(), of_macro);
            }
            let (path, length) = leading_path(rest);
            if path.len() > 1 && (!of_macro || path[0] == "crate") {
                self.add_written(&path, token.span().start().line);
            }
            rest = &rest[length..];
        }
    }
}

/// The path that the tokens begin with, and how many tokens to step over. A path that begins with `::` is another crate's.
fn leading_path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut at = 0;
    let is_foreign = are_colons(tokens);
    if is_foreign {
        at = 2;
    }
    while let Some(TokenTree::Ident(segment)) = tokens.get(at) {
        path.push(segment.unraw().to_string());
        at += 1;
        if !are_colons(&tokens[at..]) {
            break;
        }
        at += 2;
    }
    if is_foreign {
        path.clear();
    }
    (path, at.clamp(1, tokens.len()))
}

fn are_colons(tokens: &[TokenTree]) -> bool {
    let is_colon = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':');
    tokens.len() >= 2 && tokens[..2].iter().all(is_colon)
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let Some((_, items)) = &module.content else { return };
        let names = &self.modules.get(self.module).names;
        let meanings = names.meanings(&module.ident.unraw().to_string());
        let inside = meanings.iter().find_map(|meaning| match meaning {
            Meaning::Module(module) => Some(*module),
            _ => None,
        });
        let outside = std::mem::replace(&mut self.module, inside.expect("the tree has all inline modules"));
        items.iter().for_each(|item| self.visit_item(item));
        self.module = outside;
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        if matches!(import.vis, syn::Visibility::Inherited) {
            self.add_use(import);
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.blocks.push(Names::of_block(block, self.file));
        visit::visit_block(self, block);
        self.blocks.pop();
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let segments: Vec<_> =
                path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect();
            self.add_written(&segments, path.span().start().line);
        }
        visit::visit_path(self, path);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if item.ident.is_some() {
            self.visit_tokens(item.mac.tokens.clone(), true);
        } else {
            visit::visit_item_macro(self, item);
        }
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.visit_path(&invocation.path);
        // Quoted code belongs to the crate that it is emitted into.
        let name = invocation.path.segments.last().map(|segment| segment.ident.to_string());
        if !name.is_some_and(|name| name.starts_with("quote") || name.starts_with("parse_quote")) {
            self.visit_tokens(invocation.tokens.clone(), false);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}
