//! The folders of every crate of the workspace form layers, and no file of the repository is too long.

use std::fs;
use std::path::{Path, PathBuf};
use stoop_layout::{Sources, faults, imports};

/// Lines of a source file, at most.
const MAX_LINES: usize = 500;

/// The folders of all crates of the workspace.
pub(crate) fn crates() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in a folder");
    let entries = folder.read_dir().expect("the folder of crates can be read");
    let entries = entries.map(|entry| entry.expect("the folder of crates can be read").path());
    let mut crates: Vec<_> = entries.filter(|entry| entry.join("Cargo.toml").exists()).collect();
    crates.push(folder.with_file_name("examples"));
    crates.sort();
    crates
}

/// The circles of a crate that break the rule, as text.
fn faults_in(folder: &Path) -> String {
    let sources = Sources::read(&folder.join("src")).expect("the sources can be read");
    let (files, imports) = imports(&sources).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    faults(&files, &imports).iter().map(ToString::to_string).collect()
}

#[test]
fn no_circle_of_imports_passes_through_a_folder() {
    let mut broken = String::new();
    for folder in crates() {
        let faults = faults_in(&folder);
        let name = folder.file_name().expect("a crate has a folder").to_string_lossy();
        if !faults.is_empty() {
            broken += &format!("in {name}:\n{faults}");
        }
    }
    assert!(broken.is_empty(), "imports do not form layers (CONTRIBUTING.md has the rule)\n{broken}");
}

/// The folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root is there")
}

/// The Rust sources below a folder, without those that a compiler of this repository has written.
pub(crate) fn sources_below(folder: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for entry in folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder of sources can be read").path();
        if path.is_dir() {
            let is_written_here = path.ends_with("target") || path.ends_with("tests/golden");
            if !is_written_here {
                sources.extend(sources_below(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
    sources
}

#[test]
fn no_source_file_is_too_long() {
    let root = root();
    let folders = ["crates", "examples", "bench", "fuzz"].map(|folder| root.join(folder));
    let sources: Vec<_> = folders.iter().flat_map(|folder| sources_below(folder)).collect();
    assert!(
        sources.iter().any(|source| source.ends_with("layout/tests/layout/workspace.rs")),
        "the walk finds sources"
    );
    let mut too_long = String::new();
    for source in sources {
        let lines = fs::read_to_string(&source).expect("a source is text").lines().count();
        if lines > MAX_LINES {
            too_long +=
                &format!("{}: {lines} lines\n", source.strip_prefix(&root).unwrap_or(&source).display());
        }
    }
    assert!(too_long.is_empty(), "a source file has at most {MAX_LINES} lines; split these:\n{too_long}");
}
