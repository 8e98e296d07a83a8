//! The `stoop` command.

#![forbid(unsafe_code)]

#[cfg(any(test, not(all(feature = "lab", feature = "seal"))))]
mod absent;
mod call;
mod check;
mod complete;
mod describe;
mod dissector;
mod generate;
#[cfg(feature = "seal")]
mod key;
mod ping;
mod piped;
mod prepared;
mod remote;
mod sun;
mod terminal;
mod top;

#[cfg(not(feature = "lab"))]
use absent as lab;
use clap::{Parser, Subcommand};
use std::process::ExitCode;
#[cfg(feature = "lab")]
use stoop_lab as lab;

/// Remote procedure calls as fast as the machine allows, measured beside the floor of their transport.
#[derive(Debug, Parser)]
#[command(name = "stoop", version)]
#[cfg_attr(not(feature = "lab"), command(after_help = absent::AFTER_HELP))]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Lab(lab::Command),
    /// Calls a server again and again: whether it answers, by which transport, how fast, and whether it serves.
    Ping(ping::PingArgs),
    /// Shows a running server live: its counters, and which procedures take its time, for which callers.
    Top(top::TopArgs),
    /// Prints a dissector for Wireshark and tshark, which shows packets over UDP, TCP and Ethernet: `stoop dissector > stoop.lua`
    Dissector,
    /// Tells what a running server offers: its interfaces, or one of them as Rust.
    Describe(describe::DescribeArgs),
    /// Calls a procedure of a running server, without its types.
    Call(call::CallArgs),
    /// Tells whether programs of an old and of a new form of an interface can call each other.
    Check(check::CheckArgs),
    /// Prints the script by which a shell completes this command, also from running servers.
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: complete::Shell,
    },
    /// Prints the words that may stand in the place of the last of these.
    #[command(hide = true)]
    Complete {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Makes a key for sealed calls and prints its public part, or makes a secret that a group shares.
    #[cfg(feature = "seal")]
    Keygen(key::KeygenArgs),
    /// Prints the public part of a key.
    #[cfg(feature = "seal")]
    Key(key::KeyArgs),
    #[cfg(not(feature = "seal"))]
    #[command(hide = true)]
    Keygen(absent::Words),
    #[cfg(not(feature = "seal"))]
    #[command(hide = true)]
    Key(absent::Words),
    /// Prints Rust code for an interface that is declared in another language.
    Gen {
        #[command(subcommand)]
        source: generate::Source,
    },
}

fn main() -> ExitCode {
    end_quietly_without_reader();
    let result = match Args::parse().command {
        Command::Lab(command) => command.run(terminal::columns()),
        Command::Ping(args) => ping::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Dissector => dissector::run(),
        Command::Describe(args) => describe::run(&args),
        Command::Call(args) => Ok(call::run(&args)),
        Command::Check(args) => Ok(check::run(&args)),
        Command::Completions { shell } => complete::print_script(shell),
        Command::Complete { words } => complete::print_candidates::<Args>(&words),
        #[cfg(feature = "seal")]
        Command::Keygen(args) => {
            key::generate(&args).map(|()| ExitCode::SUCCESS).map_err(|why| why.to_string())
        }
        #[cfg(feature = "seal")]
        Command::Key(args) => key::print(&args).map(|()| ExitCode::SUCCESS).map_err(|why| why.to_string()),
        #[cfg(not(feature = "seal"))]
        Command::Keygen(_) => Err(absent::how_to_get("keygen", "seal", "seal")),
        #[cfg(not(feature = "seal"))]
        Command::Key(_) => Err(absent::how_to_get("key", "seal", "seal")),
        Command::Gen { source } => generate::run(&source).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|why| {
        eprintln!("{}", terminal::harmless(&why));
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
