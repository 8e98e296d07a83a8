//! The folders of every crate of the workspace form layers.

use std::path::{Path, PathBuf};
use stoop_layout::{Sources, faults, imports};

fn crates() -> Vec<PathBuf> {
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
