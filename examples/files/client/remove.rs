//! `rm`.

use crate::failure::Failure;
use crate::list::{lost, walk};
use stoop_examples::files::tree::join;
use stoop_examples::files::{FilesClient, Kind};

/// Paths that one call removes.
const AT_ONCE: usize = 256;

/// Removes files; with `recursive` directories with all that they contain.
pub(crate) fn run(files: &FilesClient, paths: &[String], recursive: bool) -> Result<usize, Failure> {
    let mut doomed = Vec::new();
    for path in paths {
        doomed.push(path.clone());
        let kind = files.look_up(path).map(|entry| entry.kind);
        if recursive && kind.is_ok_and(|kind| kind == Kind::Directory) {
            walk(files, path, usize::MAX, |directory, entry| doomed.push(join(directory, &entry.name)))?;
        }
    }
    // What is in a directory goes before it.
    doomed.reverse();
    let mut failed = 0;
    for paths in doomed.chunks(AT_ONCE) {
        for (path, removed) in paths.iter().zip(files.remove(paths).map_err(lost)?) {
            if let Err(error) = removed {
                eprintln!("{}", Failure::of(path, error));
                failed += 1;
            }
        }
    }
    Ok(failed)
}
