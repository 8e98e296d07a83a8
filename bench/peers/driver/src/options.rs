//! The options of the command line.

use std::path::PathBuf;
use std::time::Duration;

pub(crate) struct Options {
    /// How often each peer has its turn. None at all is possible with `add_to`: its rounds are printed.
    pub(crate) rounds: usize,
    /// How long each cell is measured in a turn.
    pub(crate) time: Duration,
    /// The names of the peers that are measured; empty: all of them.
    pub(crate) only: Vec<String>,
    /// The file to which the samples of this run are written.
    pub(crate) json: Option<PathBuf>,
    /// A file with the samples of earlier runs, to which those of this run are added.
    pub(crate) add_to: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let time = Duration::from_millis(100);
        let mut options = Options { rounds: 10, time, only: Vec::new(), json: None, add_to: None };
        while let Some(option) = words.next() {
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--rounds" => options.rounds = number(&option, &value, 0)?,
                "--milliseconds" => options.time = Duration::from_millis(number(&option, &value, 1)? as u64),
                "--only" => options.only = value.split(',').map(String::from).collect(),
                "--json" => options.json = Some(value.into()),
                "--add-to" => options.add_to = Some(value.into()),
                _ => return Err(format!("there is no option {option}")),
            }
        }
        Ok(options)
    }
}

fn number(option: &str, value: &str, least: usize) -> Result<usize, String> {
    match value.parse() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(format!("{option} {value}: give a whole number, at least {least}")),
    }
}
