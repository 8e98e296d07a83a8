//! The laboratory of the command `stoop`: its commands that only measure, and the processes that they start.

#![deny(unsafe_code)]

mod account;
mod args;
mod bench;
mod bindings;
mod busy;
mod callers;
mod cell;
mod child;
mod effort;
mod ethernet;
mod floor;
mod greedy;
mod json;
mod machine;
mod network;
mod others;
mod ours;
mod overload;
mod penalty;
mod pipes;
mod placement;
mod plan;
mod progress;
mod row;
mod samples;
mod screen;
mod serve;
mod session;
mod stage;
mod table;
mod tables;

pub use args::Command;
use args::{EchoArgs, PenaltyEchoArgs};
use std::io;
use std::process::ExitCode;

impl Command {
    /// Measures what the command line asks for, and prints it. The program must have these commands under their names, because it
    /// is started again for the processes of a measurement. Tables are at most
    /// `columns` wide; `None`: the output goes to a pipe, and lines stay whole.
    ///
    /// # Errors
    /// Why it could not be measured.
    pub fn run(&self, columns: Option<usize>) -> Result<ExitCode, String> {
        screen::set_columns(columns);
        match self {
            Self::Bench(args) => bench::run(args),
            Self::Penalty(args) => penalty::run(args).map(|()| ExitCode::SUCCESS),
            Self::PenaltyEcho(args) => child::unless_orphaned(penalty_echo(args)).map(|()| ExitCode::SUCCESS),
            Self::Account(args) => account::run(args).map(|()| ExitCode::SUCCESS),
            Self::Tables(args) => tables::run(args),
            Self::TablesServe(args) => tables::programs::run(args).map(|()| ExitCode::SUCCESS),
            Self::BenchServe(args) => serve::run(args).map(|()| ExitCode::SUCCESS),
            Self::BenchOverloaded(args) => overload::serve::run(args).map(|()| ExitCode::SUCCESS),
            Self::BenchGreedyServer(args) => greedy::serve::run(args).map(|()| ExitCode::SUCCESS),
            Self::BenchGreedyAttacker(args) => greedy::attack::run(args).map(|()| ExitCode::SUCCESS),
            Self::BenchPipesServer(args) => pipes::service::run(args).map(|()| ExitCode::SUCCESS),
            Self::BenchEcho(args) => child::unless_orphaned(echo(args)).map(|()| ExitCode::SUCCESS),
            Self::BenchBusy(args) => child::unless_orphaned(busy::run(args)).map(|()| ExitCode::SUCCESS),
            Self::BenchNetwork => network::try_here().map(|()| ExitCode::SUCCESS),
        }
    }
}

fn penalty_echo(args: &PenaltyEchoArgs) -> io::Result<()> {
    child::end_with_parent()?;
    placement::pin(args.cpu)?;
    floor::penalty::echo(args)
}

fn echo(args: &EchoArgs) -> io::Result<()> {
    child::end_with_parent()?;
    placement::pin(args.serve.cpu)?;
    floor::echo::run(args)
}
