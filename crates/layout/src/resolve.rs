//! Finds the item or module to which a path leads.

use crate::modules::Modules;
use crate::names::{FileId, Meaning, ModuleId, Names};

/// The target of a path: an item, which a file defines, or a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Item(FileId),
    Module(ModuleId),
}

/// A place in the source from which paths are resolved.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) modules: &'a Modules,
    pub(crate) module: ModuleId,
    /// The blocks around the place, the innermost last.
    pub(crate) blocks: &'a [Names],
}

/// The imports that are being followed: where they stand, and their paths. An import never leads to itself.
type Followed = Vec<(ModuleId, Vec<String>)>;

impl<'a> Scope<'a> {
    /// Everything that `path` can mean here; nothing if it leads to another crate or to no item.
    pub(crate) fn resolve(&self, path: &[String]) -> Vec<Target> {
        self.follow(path, &mut Followed::new())
    }

    /// The meaning of `name` here, if an item or an import that is no glob defines it.
    pub(crate) fn meanings(&self, name: &str) -> &'a [Meaning] {
        let blocks = self.blocks.iter().rev();
        let mut scopes = blocks.chain([&self.modules.get(self.module).names]);
        scopes.find_map(|names| Some(names.meanings(name)).filter(|all| !all.is_empty())).unwrap_or(&[])
    }

    fn follow(&self, path: &[String], followed: &mut Followed) -> Vec<Target> {
        let step = (self.module, path.to_vec());
        if followed.contains(&step) {
            return Vec::new();
        }
        followed.push(step);
        let targets = self.follow_segments(path, followed);
        followed.pop();
        targets
    }

    fn follow_segments(&self, path: &[String], followed: &mut Followed) -> Vec<Target> {
        let Some((first, rest)) = path.split_first() else { return Vec::new() };
        let mut targets = self.first_segment(first, followed);
        for segment in rest {
            let modules = targets.iter().filter_map(|target| match *target {
                Target::Module(module) => Some(module),
                Target::Item(_) => None,
            });
            let inside: Vec<_> = modules.flat_map(|module| self.member(module, segment, followed)).collect();
            if inside.is_empty() {
                // An item's own parts (variants, associated functions) lie where the item is.
                targets.retain(|target| matches!(target, Target::Item(_)));
                return targets;
            }
            targets = inside;
        }
        targets
    }

    fn first_segment(&self, name: &str, followed: &mut Followed) -> Vec<Target> {
        match name {
            "crate" => vec![Target::Module(self.modules.root(self.module))],
            "self" => vec![Target::Module(self.module)],
            "super" => self.modules.get(self.module).parent.map(Target::Module).into_iter().collect(),
            name => {
                for (depth, names) in self.blocks.iter().enumerate().rev() {
                    let scope = Scope { blocks: &self.blocks[..=depth], ..*self };
                    let found = scope.lookup(names, name, followed);
                    if !found.is_empty() {
                        return found;
                    }
                }
                self.member(self.module, name, followed)
            }
        }
    }

    fn member(&self, module: ModuleId, name: &str, followed: &mut Followed) -> Vec<Target> {
        let modules = self.modules;
        if name == "super" {
            return modules.get(module).parent.map(Target::Module).into_iter().collect();
        }
        let scope = Scope { module, blocks: &[], ..*self };
        scope.lookup(&modules.get(module).names, name, followed)
    }

    /// The meaning of `name` among `names`; globs count only if nothing else defines it.
    fn lookup(&self, names: &Names, name: &str, followed: &mut Followed) -> Vec<Target> {
        let meanings = names.meanings(name);
        let named: Vec<_> = meanings.iter().flat_map(|meaning| self.targets(meaning, followed)).collect();
        if !named.is_empty() {
            return named;
        }
        let globs = names.globs.iter().map(|glob| [glob.as_slice(), &[name.to_owned()]].concat());
        // For a name that an enum does not have, a glob finds the enum itself, which is no meaning of the name.
        globs.flat_map(|path| self.follow_glob(&path, followed)).collect()
    }

    fn follow_glob(&self, path: &[String], followed: &mut Followed) -> Vec<Target> {
        let above = self.follow(&path[..path.len() - 1], followed);
        if above.iter().any(|target| matches!(target, Target::Module(_))) {
            self.follow(path, followed)
        } else {
            Vec::new()
        }
    }

    fn targets(&self, meaning: &Meaning, followed: &mut Followed) -> Vec<Target> {
        match meaning {
            Meaning::Item(file) => vec![Target::Item(*file)],
            Meaning::Module(module) => vec![Target::Module(*module)],
            Meaning::Import { path, .. } => self.follow(path, followed),
        }
    }
}
