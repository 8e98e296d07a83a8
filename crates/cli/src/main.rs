//! The `stoop` command.

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
mod generate;
mod greedy;
mod json;
mod machine;
mod network;
mod others;
mod ours;
mod overload;
mod penalty;
mod ping;
mod placement;
mod plan;
mod progress;
mod row;
mod samples;
mod serve;
mod session;
mod stage;
mod table;
mod tables;
mod top;

use args::{Args, Command, EchoArgs, PenaltyEchoArgs};
use clap::Parser;
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    end_quietly_without_reader();
    let result = match Args::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::Penalty(args) => penalty::run(&args).map(|()| ExitCode::SUCCESS),
        Command::PenaltyEcho(args) => child::unless_orphaned(penalty_echo(&args)).map(|()| ExitCode::SUCCESS),
        Command::Account(args) => account::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Tables(args) => tables::run(&args),
        Command::Ping(args) => ping::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Gen { source } => generate::run(&source).map(|()| ExitCode::SUCCESS),
        Command::TablesServe(args) => tables::programs::run(&args).map(|()| ExitCode::SUCCESS),
        Command::BenchServe(args) => serve::run(&args).map(|()| ExitCode::SUCCESS),
        Command::BenchOverloaded(args) => overload::serve::run(&args).map(|()| ExitCode::SUCCESS),
        Command::BenchGreedyServer(args) => greedy::serve::run(&args).map(|()| ExitCode::SUCCESS),
        Command::BenchGreedyAttacker(args) => greedy::attack::run(&args).map(|()| ExitCode::SUCCESS),
        Command::BenchEcho(args) => child::unless_orphaned(echo(&args)).map(|()| ExitCode::SUCCESS),
        Command::BenchBusy(args) => child::unless_orphaned(busy::run(&args)).map(|()| ExitCode::SUCCESS),
        Command::BenchNetwork => network::try_here().map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::FAILURE
    })
}

/// A reader that has seen enough, such as `head`, closes the pipe: printing then panics, which would look like a fault of this program.
fn end_quietly_without_reader() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload_as_str().unwrap_or_default();
        if message.starts_with("failed printing to stdout") && message.contains("Broken pipe") {
            std::process::exit(0);
        }
        usual(panic);
    }));
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
