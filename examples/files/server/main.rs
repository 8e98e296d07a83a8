//! Offers a directory to the clients of the file service:
//!
//! ```sh
//! cargo run --release --example files-server -- DIRECTORY
//! ```
//!
//! It listens at udp://127.0.0.1:7403, or at the addresses that are given after the directory. Its clients may read, replace and remove
//! everything below the directory that its user may; with `--read-only` they may only read. With `--no-sync` it does not wait for the
//! disk before it says that a file has arrived, and with `--verbose` it prints a line for each piece that it sends or receives.

mod service;

use service::Service;
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::RwLock;
use stoop::Server;
use stoop_examples::files::FilesServer;
use stoop_examples::files::tree::Tree;
use stoop_examples::serve::{exit_code, serve};

const USAGE: &str = "\
usage: files-server [--read-only] [--no-sync] [--verbose] DIRECTORY [ADDRESS]…

It listens at udp://127.0.0.1:7403 unless addresses are given.
--read-only  clients may not change anything
--no-sync    does not wait for the disk before it says that a file has arrived
--verbose    prints a line for each piece that it sends or receives";

struct Arguments {
    directory: PathBuf,
    addresses: Vec<String>,
    read_only: bool,
    durable: bool,
    verbose: bool,
}

impl Arguments {
    fn parse(given: impl Iterator<Item = String>) -> Option<Self> {
        let (options, mut places): (Vec<_>, Vec<_>) = given.partition(|argument| argument.starts_with("--"));
        let mut arguments = Self {
            directory: PathBuf::new(),
            addresses: vec![],
            read_only: false,
            durable: true,
            verbose: false,
        };
        for option in options {
            match &*option {
                "--read-only" => arguments.read_only = true,
                "--no-sync" => arguments.durable = false,
                "--verbose" => arguments.verbose = true,
                _ => return None,
            }
        }
        arguments.addresses = places.split_off(places.len().min(1));
        arguments.directory = places.pop()?.into();
        if arguments.addresses.is_empty() {
            arguments.addresses.push("udp://127.0.0.1:7403".into());
        }
        Some(arguments)
    }
}

fn serve_files(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { directory, addresses, read_only, durable, verbose } = arguments;
    let tree = Tree::open(&directory).map_err(|why| format!("{}: {why}", directory.display()))?;
    let start = RandomState::new().hash_one(std::process::id());
    let service = Service { tree, start, read_only, durable, verbose, parts: RwLock::default() };
    serve(Server::new().export(FilesServer::new(service)), &addresses)
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
    exit_code(serve_files(arguments))
}
