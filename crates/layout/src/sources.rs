//! The source files of one crate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The source files of one crate, by their paths below its `src`.
#[derive(Clone, Debug, Default)]
pub struct Sources(BTreeMap<PathBuf, String>);

impl Sources {
    /// Reads every `.rs` file below `src`.
    ///
    /// # Errors
    /// A folder or file cannot be read.
    pub fn read(src: &Path) -> io::Result<Self> {
        let mut sources = Self::default();
        sources.read_folder(src, Path::new(""))?;
        Ok(sources)
    }

    fn read_folder(&mut self, src: &Path, folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(src.join(folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.read_folder(src, &path)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                self.0.insert(path, fs::read_to_string(entry.path())?);
            }
        }
        Ok(())
    }

    /// The crate's roots: `lib.rs`, `main.rs`, and the programs in `bin`.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Path> {
        let is_root = |path: &Path| {
            path == "lib.rs" || path == "main.rs" || path.parent().is_some_and(|parent| parent == "bin")
        };
        self.0.keys().map(PathBuf::as_path).filter(move |path| is_root(path))
    }

    pub(crate) fn text(&self, path: &Path) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Sources {
    /// Source files that exist only in memory: pairs of a path below `src` and a text.
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(files: T) -> Self {
        Self(files.into_iter().map(|(path, text)| (path.into(), text.into())).collect())
    }
}
