//! The names that the items of a module define.

use std::collections::HashMap;
use syn::ext::IdentExt;
use syn::{Item, UseTree, Visibility};

pub(crate) type FileId = usize;
pub(crate) type ModuleId = usize;

/// The names that the items of a module or a block define.
#[derive(Default)]
pub(crate) struct Names {
    /// A name can have several meanings: a module and a function, for one.
    named: HashMap<String, Vec<Meaning>>,
    /// Paths of `use path::*`.
    pub(crate) globs: Vec<Vec<String>>,
}

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// An item that is not a module, and the file that defines it.
    Item(FileId),
    Module(ModuleId),
    Import {
        path: Vec<String>,
        /// It is visible outside of the module.
        reexport: bool,
    },
}

/// One name of a `use`.
pub(crate) struct UseLeaf {
    pub(crate) path: Vec<String>,
    /// The name that it defines; a glob defines none, and neither does `as _`.
    name: Option<String>,
    pub(crate) is_glob: bool,
    pub(crate) line: usize,
}

impl Names {
    /// The names that the items of a block in `file` define.
    pub(crate) fn of_block(block: &syn::Block, file: FileId) -> Self {
        let mut names = Self::default();
        for statement in &block.stmts {
            if let syn::Stmt::Item(item) = statement {
                names.define(item, file);
            }
        }
        names
    }

    pub(crate) fn define(&mut self, item: &Item, file: FileId) {
        match item {
            Item::Use(import) => self.import(import),
            item => self.add(item_name(item), Meaning::Item(file)),
        }
    }

    fn import(&mut self, import: &syn::ItemUse) {
        let reexport = !matches!(import.vis, Visibility::Inherited);
        for leaf in use_leaves(import) {
            if leaf.is_glob {
                self.globs.push(leaf.path);
            } else if let Some(name) = leaf.name {
                self.add(name, Meaning::Import { path: leaf.path, reexport });
            }
        }
    }

    pub(crate) fn add(&mut self, name: String, meaning: Meaning) {
        self.named.entry(name).or_default().push(meaning);
    }

    pub(crate) fn meanings(&self, name: &str) -> &[Meaning] {
        self.named.get(name).map_or(&[], Vec::as_slice)
    }
}

/// All names of a `use`. A path that begins with `::` names another crate and is left out.
pub(crate) fn use_leaves(import: &syn::ItemUse) -> Vec<UseLeaf> {
    let mut leaves = Vec::new();
    if import.leading_colon.is_none() {
        collect_leaves(&import.tree, &mut Vec::new(), &mut leaves);
    }
    leaves
}

fn collect_leaves(tree: &UseTree, above: &mut Vec<String>, leaves: &mut Vec<UseLeaf>) {
    match tree {
        UseTree::Path(path) => {
            above.push(path.ident.unraw().to_string());
            collect_leaves(&path.tree, above, leaves);
            above.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect_leaves(tree, above, leaves)),
        UseTree::Glob(glob) => leaves.push(UseLeaf {
            path: above.clone(),
            name: None,
            is_glob: true,
            line: glob.star_token.spans[0].start().line,
        }),
        UseTree::Name(name) => leaves.push(leaf(above, &name.ident, &name.ident)),
        UseTree::Rename(rename) => leaves.push(leaf(above, &rename.ident, &rename.rename)),
    }
}

fn leaf(above: &[String], ident: &syn::Ident, rename: &syn::Ident) -> UseLeaf {
    let mut path = above.to_vec();
    // `use a::{self}` names `a` itself.
    if ident != "self" || above.is_empty() {
        path.push(ident.unraw().to_string());
    }
    let name = if rename == "self" { path.last().cloned() } else { Some(rename.unraw().to_string()) };
    let name = name.filter(|name| name != "_");
    UseLeaf { path, name, is_glob: false, line: ident.span().start().line }
}

/// The name of an item, or the empty string.
fn item_name(item: &Item) -> String {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => return item.ident.as_ref().map(ToString::to_string).unwrap_or_default(),
        _ => return String::new(),
    };
    ident.unraw().to_string()
}
