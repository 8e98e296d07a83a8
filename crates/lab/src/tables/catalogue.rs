//! The list of all tables, and the choice among them.

use super::entry::Entry;
use super::{elliott_nutt, firefly, peregrine, what_if};

/// The tables with these names, or of these papers; all, if nothing is named.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<&'static Entry>, String> {
    let all: Vec<&'static Entry> =
        [firefly::TABLES, elliott_nutt::TABLES, peregrine::TABLES, what_if::TABLES]
            .into_iter()
            .flatten()
            .collect();
    let is_named = |entry: &Entry, name: &str| name == entry.name || name == entry.paper();
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|entry| is_named(entry, name))) {
        return Err(format!("no table is called {unknown}: `stoop tables --list` shows them all"));
    }
    let chosen = |entry: &&Entry| names.is_empty() || names.iter().any(|name| is_named(entry, name));
    Ok(all.into_iter().filter(chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn named(names: &[&str]) -> Result<Vec<&'static Entry>, String> {
        chosen(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn each_name_is_of_one_table() {
        let all = named(&[]).expect("nothing is unknown");
        let names: BTreeSet<&str> = all.iter().map(|entry| entry.name).collect();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn tables_are_chosen_by_name_and_by_paper() {
        let one = named(&["firefly-1"]).expect("it is known");
        assert_eq!(one.iter().map(|entry| entry.name).collect::<Vec<_>>(), ["firefly-1"]);
        let paper = named(&["peregrine"]).expect("it is known");
        assert_eq!(paper.len(), peregrine::TABLES.len());
        assert!(named(&["firefly-99"]).is_err());
    }
}
