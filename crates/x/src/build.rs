//! Compiling files from a build script.
//!
//! ```no_run
//! // build.rs
//! stoop_x::build::compile("protocol/mount.x", &stoop_x::Options::new());
//! ```
//!
//! ```ignore
//! // src/lib.rs
//! pub mod mount {
//!     include!(concat!(env!("OUT_DIR"), "/mount.rs"));
//! }
//! ```

use crate::{Compiled, Options};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Compiles a file into `OUT_DIR`, under its name with `.rs` in place of `.x`, and has the script run again when the file or one
/// that it includes has changed.
///
/// # Panics
///
/// If the file cannot be read or has a mistake, or the result cannot be written: cargo shows why.
pub fn compile(path: impl AsRef<Path>, options: &Options) {
    let path = path.as_ref();
    let written = file(path, options).and_then(|compiled| {
        compiled
            .files
            .iter()
            .filter(|name| Path::new(name).exists())
            .for_each(|name| println!("cargo::rerun-if-changed={name}"));
        let directory = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: this is for build scripts")?;
        let name = path.with_extension("rs");
        let to = PathBuf::from(directory).join(name.file_name().ok_or("the path has no file name")?);
        fs::write(&to, compiled.rust).map_err(|why| format!("{}: {why}", to.display()))
    });
    if let Err(why) = written {
        panic!("\n{why}\n");
    }
}

/// Compiles a file. Files that it includes are looked up beside the file that includes them, then in the folders of
/// [`Options::include_dir`], then as the path is written.
///
/// # Errors
///
/// Why the file cannot be read, or the mistake in it, as text.
pub fn file(path: &Path, options: &Options) -> Result<Compiled, String> {
    let text = read(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let compiled = crate::compile(&path.display().to_string(), &text, options, &mut includes(options));
    compiled.map_err(|error| error.to_string())
}

/// Finds included files: a callback for [`compile`](crate::compile), which looks where [`file()`] does.
pub fn includes(options: &Options) -> impl FnMut(&str, &str) -> Result<(String, String), String> + '_ {
    |name, from| {
        let beside = Path::new(from).parent().unwrap_or(Path::new(""));
        let folders = std::iter::once(beside).chain(options.include_dirs.iter().map(PathBuf::as_path));
        let found = folders.map(|folder| folder.join(name)).find(|path| path.exists());
        let path = found.unwrap_or_else(|| PathBuf::from(name));
        let text = read(&path).map_err(|why| format!("`{name}` cannot be included: {why}"))?;
        Ok((path.display().to_string(), text))
    }
}

/// The text of a file, whose comments may be in any encoding.
fn read(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}
