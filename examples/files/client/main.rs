//! Lists, fetches, sends and removes files of a server (`cargo run --release --example files-server -- DIRECTORY`):
//!
//! ```sh
//! cargo run --release --example files-client -- udp://127.0.0.1:7403 ls -r
//! cargo run --release --example files-client -- udp://127.0.0.1:7403 get -r reports .
//! cargo run --release --example files-client -- udp://127.0.0.1:7403 put big.iso reports/
//! cargo run --release --example files-client -- udp://127.0.0.1:7403 rm -r reports
//! ```
//!
//! A file that has the same size and time at the other end is not sent again. A transfer that was interrupted goes on where it was: run
//! the same command again.

mod arguments;
mod buffer;
mod failure;
mod get;
mod list;
mod local;
mod plan;
mod progress;
mod put;
mod remove;
mod transfer;

use arguments::{Arguments, Command, USAGE};
use failure::Failure;
use std::process::ExitCode;
use std::time::Duration;
use stoop::BindOptions;
use stoop_examples::files::FilesClient;

/// How long a server that was lost is waited for.
const RESTART: Duration = Duration::from_secs(60);

/// Does what the command says; returns how many files could not be copied or removed.
fn run(arguments: &Arguments) -> Result<usize, Failure> {
    let options = BindOptions::new().wait_for_restart(RESTART).timeout(2 * RESTART);
    let files = FilesClient::bind_with(&arguments.uri, &options);
    let files = files.map_err(|why| Failure::Everything(why.to_string()))?;
    let Arguments { paths, recursive, durable, .. } = arguments;
    match arguments.command {
        Command::List => list::run(&files, paths, *recursive),
        Command::Get => get::run(&files, paths, *recursive, *durable),
        Command::Put => put::run(&files, paths, *recursive),
        Command::Remove => remove::run(&files, paths, *recursive),
    }
}

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|argument| argument == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(arguments) = Arguments::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
