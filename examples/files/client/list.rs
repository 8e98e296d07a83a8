//! `ls`, and the tree below a directory of the server.

use crate::failure::{Failure, printable};
use crate::progress::bytes;
use std::io::Write;
use stoop::{CallError, Error};
use stoop_examples::files::tree::{is_name, join};
use stoop_examples::files::{ENTRIES_MAX, Entry, FileError, FilesClient, Kind};

/// Directories that are listed at the same time.
const AT_ONCE: usize = 64;

type Listing = Result<Vec<Entry>, Error<FileError>>;

/// Prints directories.
pub(crate) fn run(files: &FilesClient, paths: &[String], recursive: bool) -> Result<usize, Failure> {
    let root = [String::new()];
    for path in if paths.is_empty() { &root[..] } else { paths } {
        let entry = files.look_up(path).map_err(|error| Failure::of_call(path, error))?;
        if entry.kind != Kind::Directory {
            print(path, &entry);
            continue;
        }
        let levels = if recursive { usize::MAX } else { 1 };
        walk(files, path, levels, |directory, entry| print(&join(directory, &entry.name), entry))?;
    }
    Ok(0)
}

fn print(path: &str, entry: &Entry) {
    let (what, end) = match entry.kind {
        Kind::File => (bytes(entry.version.size), ""),
        Kind::Directory => ("directory".into(), "/"),
        Kind::Link => ("link".into(), ""),
        Kind::Part => ("incomplete".into(), ""),
        Kind::Other => ("other".into(), ""),
    };
    if writeln!(std::io::stdout(), "{what:>10}  {}{end}", printable(path)).is_err() {
        // The reader of a pipe has seen enough.
        std::process::exit(0);
    }
}

/// Visits the entries of a directory and of so many levels below it; a directory is visited before its entries.
pub(crate) fn walk(
    files: &FilesClient,
    top: &str,
    levels: usize,
    mut visit: impl FnMut(&str, &Entry),
) -> Result<(), Failure> {
    let mut level = vec![top.to_owned()];
    for _ in 0..levels {
        if level.is_empty() {
            break;
        }
        let mut below = Vec::new();
        for directories in level.chunks(AT_ONCE) {
            for (directory, listing) in directories.iter().zip(list_all(files, directories)) {
                for entry in complete(files, directory, listing)? {
                    visit(directory, &entry);
                    if entry.kind == Kind::Directory {
                        below.push(join(directory, &entry.name));
                    }
                }
            }
        }
        level = below;
    }
    Ok(())
}

/// Lists directories by calls that travel together.
fn list_all(files: &FilesClient, directories: &[String]) -> Vec<Listing> {
    let calls = files.begin();
    let pending: Vec<_> = directories.iter().map(|directory| calls.list(directory, "")).collect();
    drop(calls);
    stoop::wait_all(pending)
}

/// Adds what a first listing had no place for.
fn complete(files: &FilesClient, directory: &str, first: Listing) -> Result<Vec<Entry>, Failure> {
    let failure = |error| Failure::of_call(if directory.is_empty() { "/" } else { directory }, error);
    let mut entries = first.map_err(failure)?;
    let mut last_len = entries.len();
    while last_len == ENTRIES_MAX {
        let next = files.list(directory, &entries[entries.len() - 1].name).map_err(failure)?;
        last_len = next.len();
        entries.extend(next);
    }
    // Names become parts of paths of this machine.
    match entries.iter().find(|entry| !is_name(&entry.name)) {
        None => Ok(entries),
        Some(entry) => {
            Err(Failure::Everything(format!("the server calls an entry {:?}, which is no name", entry.name)))
        }
    }
}

/// The entries of a directory; none if it does not exist.
pub(crate) fn entries(files: &FilesClient, directory: &str) -> Result<Vec<Entry>, Failure> {
    match files.list(directory, "") {
        Err(Error::Application(FileError::NotFound)) => Ok(vec![]),
        listing => complete(files, directory, listing),
    }
}

/// A call gave no result for a list of files.
pub(crate) fn lost(error: CallError) -> Failure {
    Failure::lost("the server", error)
}
