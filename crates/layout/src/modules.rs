//! The tree of modules of a crate.

use crate::Sources;
use crate::attributes::{attributes, is_test};
use crate::names::{FileId, Meaning, ModuleId, Names};
use std::fmt;
use std::path::{Path, PathBuf};
use syn::ext::IdentExt;
use syn::{Attribute, Item, ItemMod, Meta};

/// A crate whose source cannot be read as modules.
#[derive(Debug)]
pub enum Error {
    /// A file is not Rust.
    Syntax {
        /// The file, below `src`.
        file: PathBuf,
        /// The parser's message and its place.
        error: syn::Error,
    },
    /// A `mod` line leads to no file.
    Missing {
        /// The file with the `mod` line.
        file: PathBuf,
        /// The module's name.
        module: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { file, error } => {
                write!(f, "{}:{}: {error}", file.display(), error.span().start().line)
            }
            Self::Missing { file, module } => {
                write!(f, "{}: no file for `mod {module}`", file.display())
            }
        }
    }
}

impl std::error::Error for Error {}

/// All modules of a crate that are not tests, and the files that they are in.
#[derive(Default)]
pub(crate) struct Modules {
    pub(crate) files: Vec<SourceFile>,
    modules: Vec<Module>,
}

pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    pub(crate) syntax: syn::File,
    /// The module that the file is.
    pub(crate) module: ModuleId,
}

pub(crate) struct Module {
    pub(crate) file: FileId,
    pub(crate) parent: Option<ModuleId>,
    pub(crate) names: Names,
}

impl Modules {
    pub(crate) fn of(sources: &Sources) -> Result<Self, Error> {
        let mut modules = Self::default();
        for root in sources.roots() {
            modules.add_file(sources, root, root.parent().unwrap_or(Path::new("")), None)?;
        }
        Ok(modules)
    }

    /// Adds the module that is the file `path`, whose submodules lie in `folder`.
    fn add_file(
        &mut self,
        sources: &Sources,
        path: &Path,
        folder: &Path,
        parent: Option<ModuleId>,
    ) -> Result<ModuleId, Error> {
        let text = sources.text(path).expect("the caller has found the file");
        let syntax = syn::parse_file(text).map_err(|error| Error::Syntax { file: path.to_owned(), error })?;
        let file = self.files.len();
        let module = self.modules.len();
        self.modules.push(Module { file, parent, names: Names::default() });
        let items = syntax.items.clone();
        self.files.push(SourceFile { path: path.to_owned(), syntax, module });
        self.add_items(sources, &items, folder, module)?;
        Ok(module)
    }

    fn add_items(
        &mut self,
        sources: &Sources,
        items: &[Item],
        folder: &Path,
        module: ModuleId,
    ) -> Result<(), Error> {
        let file = self.modules[module].file;
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(submodule) => self.add_submodule(sources, submodule, folder, module)?,
                // Such a macro is a name of the crate's root, wherever it is written.
                Item::Macro(rules) if is_exported(&rules.attrs) => {
                    let root = self.root(module);
                    self.modules[root].names.define(item, file);
                }
                item => self.modules[module].names.define(item, file),
            }
        }
        Ok(())
    }

    fn add_submodule(
        &mut self,
        sources: &Sources,
        submodule: &ItemMod,
        folder: &Path,
        parent: ModuleId,
    ) -> Result<(), Error> {
        let name = submodule.ident.unraw().to_string();
        let module = if let Some((_, items)) = &submodule.content {
            let module = self.modules.len();
            let file = self.modules[parent].file;
            self.modules.push(Module { file, parent: Some(parent), names: Names::default() });
            self.add_items(sources, items, &folder.join(&name), module)?;
            module
        } else {
            let here = &self.files[self.modules[parent].file].path;
            let (file, below) = find(sources, submodule, here, folder)
                .ok_or_else(|| Error::Missing { file: here.clone(), module: name.clone() })?;
            self.add_file(sources, &file, &below, Some(parent))?
        };
        self.modules[parent].names.add(name, Meaning::Module(module));
        Ok(())
    }

    pub(crate) fn root(&self, module: ModuleId) -> ModuleId {
        self.modules[module].parent.map_or(module, |parent| self.root(parent))
    }

    pub(crate) fn get(&self, module: ModuleId) -> &Module {
        &self.modules[module]
    }
}

/// The file of `mod name;`, and the folder in which that file's own submodules lie.
fn find(sources: &Sources, module: &ItemMod, here: &Path, folder: &Path) -> Option<(PathBuf, PathBuf)> {
    if let Some(path) = path_attribute(module) {
        let file = here.parent()?.join(path);
        let below = file.parent()?.to_owned();
        return sources.text(&file).map(|_| (file, below));
    }
    let below = folder.join(module.ident.unraw().to_string());
    let candidates = [below.with_extension("rs"), below.join("mod.rs")];
    candidates.into_iter().find(|file| sources.text(file).is_some()).map(|file| (file, below))
}

fn path_attribute(module: &ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

fn is_exported(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("macro_export"))
}
