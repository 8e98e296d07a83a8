//! The command line.

use crate::servers::Address;
use std::path::PathBuf;

/// `olympus GRAPH [URI…] [--servers FILE] [--resume FILE] [--marking FILE] [--svg FILE]`
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) graph: PathBuf,
    pub(crate) servers: Vec<Address>,
    /// Lines `URI [LIMIT]`; a line that is added while the graph runs is a server that joins.
    pub(crate) servers_file: Option<PathBuf>,
    /// The marking that the graph goes on from.
    pub(crate) resume: Option<PathBuf>,
    /// Where the marking of a graph that stops is written.
    pub(crate) marking: PathBuf,
    /// Where the time line is drawn.
    pub(crate) svg: Option<PathBuf>,
}

pub(crate) const USAGE: &str =
    "olympus GRAPH [URI | \"URI LIMIT\"]… [--servers FILE] [--resume FILE] [--marking FILE] [--svg FILE]";

impl Options {
    /// # Errors
    /// What is wrong, and the form that is right.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { marking: "olympus.marking".into(), ..Self::default() };
        let mut graph = None;
        while let Some(word) = words.next() {
            let mut value =
                || words.next().map(PathBuf::from).ok_or_else(|| format!("{word} needs a file: {USAGE}"));
            match word.as_str() {
                "--servers" => options.servers_file = Some(value()?),
                "--resume" => options.resume = Some(value()?),
                "--marking" => options.marking = value()?,
                "--svg" => options.svg = Some(value()?),
                option if option.starts_with('-') => {
                    return Err(format!("there is no option {option}: {USAGE}"));
                }
                _ if graph.is_none() => graph = Some(PathBuf::from(word)),
                uri => options.servers.push(Address::parse(uri)?),
            }
        }
        options.graph = graph.ok_or_else(|| format!("no graph is named: {USAGE}"))?;
        if options.servers.is_empty() && options.servers_file.is_none() {
            return Err(format!("no server is named: {USAGE}"));
        }
        Ok(options)
    }
}
