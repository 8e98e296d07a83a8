//! The server programs of tables that need another server than that of the benchmark: each runs as a process of its own.

use super::elliott_nutt;
use super::firefly::{marshaling, slower_path};
use super::what_if;
use crate::args::{Program, ProgramArgs};
use crate::ours::wait;
use crate::{child, placement};
use std::io;

/// Runs the server program until the parent process ends it.
pub(crate) fn run(args: &ProgramArgs) -> Result<(), String> {
    prepare(args).map_err(|error| format!("the server process: {error}"))?;
    match args.program {
        Program::Marshaling => served(marshaling::serve(&args.address)),
        Program::Threads => served(slower_path::serve(&args.address, wait(args.waiting))),
        Program::SunRpc => served(elliott_nutt::programs::serve(&args.address, wait(args.waiting))),
        Program::Udp => child::unless_orphaned(elliott_nutt::by_hand::serve_udp(args)),
        Program::Tcp => child::unless_orphaned(elliott_nutt::by_hand::serve_tcp(args)),
        Program::Headers => child::unless_orphaned(what_if::headers::serve(args)),
        Program::Exerciser => served(what_if::exerciser::serve(&args.address, wait(args.waiting))),
    }
}

fn prepare(args: &ProgramArgs) -> io::Result<()> {
    child::end_with_parent()?;
    placement::pin_to(&args.cpu)
}

fn served(server: Result<stoop::RunningServer, String>) -> Result<(), String> {
    let server = server?;
    let serve = || {
        child::answer(&format!("listening {}", server.uris()[0]))?;
        while child::next_order()?.is_some() {}
        Ok(())
    };
    child::unless_orphaned(serve())
}
