//! What the documents point to is there.

use std::fs;
use std::path::{Path, PathBuf};

/// README and all others.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in the workspace");
    let in_docs = fs::read_dir(root.join("docs")).expect("there are documents");
    let in_docs = in_docs.map(|entry| entry.expect("it can be read").path());
    let mut all: Vec<_> = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|name| root.join(name)).into();
    all.extend(in_docs.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    all
}

/// The targets of `[text](target)`, without the parts after `#`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter_map(|target| target.split('#').next())
}

#[test]
fn every_link_within_the_documents_leads_to_a_file() {
    for document in documents() {
        let text = fs::read_to_string(&document).expect("documents are text");
        for link in links(&text).filter(|link| !link.is_empty() && !link.contains("://")) {
            let target = document.parent().expect("a file has a folder").join(link);
            assert!(target.exists(), "{} points to {link}, which is not there", document.display());
        }
    }
}

#[test]
fn every_document_is_in_the_index() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let index = fs::read_to_string(root.join("README.md")).expect("the index is text");
    for document in documents() {
        let name = document.file_name().expect("a document has a name").to_str().expect("and it is text");
        let is_listed = links(&index).any(|link| Path::new(link).ends_with(name));
        assert!(is_listed || document.ends_with("docs/README.md"), "docs/README.md does not list {name}");
    }
}
