//! What `tables` is to measure.

use super::Waiting;
use clap::ValueEnum;
use std::path::PathBuf;

/// The tables that are chosen, and the forms in which they are written.
#[derive(Clone, Debug, clap::Args)]
pub struct TablesArgs {
    /// Tables, or papers: firefly, elliott-nutt, peregrine, what-if [default: all]
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// List the tables and about how long each takes
    #[arg(long)]
    pub(crate) list: bool,
    /// Write all figures with the samples that they are medians of to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write one page with all tables and pictures to this file: it needs no other file and no network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Compare with an earlier run, which was written by --json
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,
    /// Rounds: each measures all tables once; a table whose later rounds differ from the earlier ones is void
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Milliseconds in which a round measures each figure, together with its floor
    #[arg(long, default_value_t = 510, value_name = "MS", value_parser = cell_time)]
    pub(crate) ms: u32,
    /// Calls measured for each figure in a round, at least [default: as many as fit in its time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) calls: Option<u64>,
}

/// Milliseconds for a figure and its floor.
fn cell_time(text: &str) -> Result<u32, String> {
    let ms = text.parse().map_err(|why: std::num::ParseIntError| why.to_string())?;
    match ms {
        0..510 => Err("a figure needs 510 ms at least, for five pairs of slices, its own and its floor's, of 45 ms each behind 6 ms \
             of warm-up: fewer have no median worth the name; for a shorter run choose a table by its name, or one round (--rounds 1)"
            .into()),
        60_001.. => Err("from 510 to 60000".into()),
        ms => Ok(ms),
    }
}

/// What a server program of the tables is told.
#[derive(Clone, Debug, clap::Args)]
pub struct ProgramArgs {
    #[arg(long, value_enum)]
    pub(crate) program: Program,
    /// The processors on which it may run.
    #[arg(long, value_delimiter = ',', required = true)]
    pub(crate) cpu: Vec<usize>,
    /// Where to listen, in the program's own form.
    #[arg(long)]
    pub(crate) address: String,
    /// Wait by `select` before each `recv`.
    #[arg(long)]
    pub(crate) select: bool,
    /// How it waits, if it is a server of Stoop.
    #[arg(long, value_enum, default_value = "block")]
    pub(crate) waiting: Waiting,
}

/// A server program of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Program {
    /// The procedures of Firefly Tables II to V.
    Marshaling,
    /// Null(), and a procedure that sleeps.
    Threads,
    /// Program Two of Elliott and Nutt.
    SunRpc,
    /// Program Three: a protocol made by hand, over UDP.
    Udp,
    /// Program Four: the same over TCP.
    Tcp,
    /// Datagrams with the header of Sun RPC or with that of Stoop.
    Headers,
    /// The Test interface with emitted stubs, and one with stubs made by hand.
    Exerciser,
}
