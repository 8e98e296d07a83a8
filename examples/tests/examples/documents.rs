//! What the documents point to is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use stoop::account::AccountOptions;
use stoop::{BindOptions, Server};
use stoop_examples::greeter::{Greeter, GreeterClient, GreeterServer};

struct Silent;

impl Greeter for Silent {
    fn greet(&self, _: &str) -> String {
        String::new()
    }
}

/// README and all others.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in the workspace");
    let in_docs =
        ["docs", "docs/tasks"].map(|folder| fs::read_dir(root.join(folder)).expect("there are documents"));
    let in_docs = in_docs.into_iter().flatten().map(|entry| entry.expect("it can be read").path());
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

/// The metrics that a text names: `stoop_server_bindings`.
fn metrics(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = text.split(|c: char| !is_part(c)).filter(|word| word.starts_with("stoop_"));
    words.filter(|word| !word.ends_with('_')).collect()
}

#[test]
fn every_metric_to_alert_on_is_one_that_a_program_writes() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tasks/alerts.md");
    let page = fs::read_to_string(page).expect("the page is text");
    let server = Server::new().account(AccountOptions::new()).export(GreeterServer::new(Silent));
    let server = server.listen("tcp://127.0.0.1:0").unwrap().start().unwrap();
    let options = BindOptions::new().account(AccountOptions::new());
    let client = GreeterClient::bind_with(&server.uris()[0], &options).unwrap();
    client.greet("world").unwrap();
    let written = format!("{}{}", server.prometheus(), client.binding().account().prometheus());
    let written = metrics(&written);
    for metric in metrics(&page) {
        assert!(written.contains(metric), "no program writes {metric}");
    }
}
