//! Runs a precedence graph whose nodes are interpreted by remote procedures on several servers:
//!
//! ```sh
//! cargo run --example olympus-worker -- shm:olympus udp://127.0.0.1:7420
//! cargo run --example olympus -- examples/olympus/bread.graph shm:olympus udp://127.0.0.1:7420
//! ```
//!
//! docs/olympus.md describes the file of a graph, and the options.

mod options;
mod picture;
mod run;
mod servers;

use options::{Options, USAGE};
use picture::Picture;
use run::Run;
use servers::Servers;
use std::error::Error;
use std::fs;
use std::process::ExitCode;
use stoop_examples::olympus::graph::Graph;
use stoop_examples::olympus::marking::Marking;
use stoop_examples::olympus::timeline;

/// Returns whether all that could fire has fired.
fn run(options: &Options) -> Result<bool, Box<dyn Error>> {
    let text =
        fs::read_to_string(&options.graph).map_err(|why| format!("{}: {why}", options.graph.display()))?;
    let graph = Graph::parse(&text).map_err(|why| format!("{}, {why}", options.graph.display()))?;
    let marking = match &options.resume {
        Some(file) => Marking::parse(&graph, &fs::read_to_string(file)?)
            .map_err(|why| format!("{}: {why}", file.display()))?,
        None => Marking::first(&graph),
    };
    let servers = Servers::new(&graph.procedures, options.servers.clone(), options.servers_file.clone());
    let mut picture = Picture::new(&graph);
    let ended = Run::new(&graph, servers, marking).finish(|state| picture.draw(state));
    print!("{}", timeline::text(&graph, &ended.record, &ended.servers));
    if let Some(file) = &options.svg {
        fs::write(file, timeline::svg(&graph, &ended.record, &ended.servers))?;
    }
    let Some(stop) = ended.stop else { return Ok(true) };
    eprintln!("stopped: {stop}");
    ended.marking.save(&graph, &options.marking)?;
    eprintln!("the marking is in {0}; go on with --resume {0}", options.marking.display());
    Ok(false)
}

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|argument| argument == "--help") {
        println!("usage: {USAGE}\ndocs/olympus.md describes the options");
        return ExitCode::SUCCESS;
    }
    match Options::parse(std::env::args().skip(1)).map_err(Into::into).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
