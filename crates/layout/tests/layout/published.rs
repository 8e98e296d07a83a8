//! Every crate that is published has the texts of both licences in its package.

use crate::workspace::crates;
use std::fs;
use std::path::Path;

fn is_published(folder: &Path) -> bool {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a crate has a manifest");
    !manifest.lines().any(|line| line == "publish = false")
}

#[test]
fn every_published_crate_has_both_licences() {
    let published: Vec<_> = crates().into_iter().filter(|folder| is_published(folder)).collect();
    assert!(published.iter().any(|folder| folder.ends_with("crates/stoop")), "the walk finds crates");
    let mut missing = String::new();
    for name in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let text = fs::read(crate::workspace::root().join(name)).expect("the repository has its licences");
        for folder in &published {
            let file = folder.join(name);
            if fs::read(&file).ok().as_ref() != Some(&text) {
                missing += &format!("{}\n", file.display());
            }
        }
    }
    assert!(missing.is_empty(), "link these to the files in the root of the repository:\n{missing}");
}
