//! The measurement `bench --bindings`: the memory of the server for each binding that makes no calls.
//!
//! The server is a process of its own. This process makes bindings and one call of Null() on each; then it waits. The memory
//! of the server's process is that which the kernel counts as resident.

use crate::args::{BenchArgs, Transport, Waiting, name_of};
use crate::child::Child;
use crate::greedy::{PlainClient, stats};
use crate::network::Network;
use crate::session::{socket_path, start_server};
use crate::stage::{Stage, chosen_or};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;
use stoop::BindOptions;

/// The callers' deadline, and the time after which the server no longer retains results for them: it looks every 15 s.
const DEADLINE: Duration = Duration::from_secs(5);
const AFTER: Duration = Duration::from_secs(22);

/// Bindings before the first count: what the server makes once is made then.
const FIRST: u32 = 16;

/// Measures each transport that `args` choose.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, String> {
    let stage = Stage::set()?;
    let all = [Transport::Udp, Transport::Tcp, Transport::Unix];
    let transports = chosen_or(&args.transport, &all);
    println!("transport  bindings  memory KiB  bytes each  {} s later", AFTER.as_secs());
    for &transport in transports {
        let measured = measure(transport, &args.bindings, stage.sides.server, &stage.network);
        measured.map_err(|why| format!("{}: {why}", name_of(transport)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(transport: Transport, counts: &[u32], cpu: usize, network: &Network) -> Result<(), String> {
    let path = socket_path("bindings");
    // A host gets three quarters of all bindings.
    let most = counts.iter().max().map_or(0, |&most| 2 * most as usize);
    let how = (transport, Waiting::Block, cpu);
    let server = start_server("bench-greedy-server", how, network, &path, Some(format!("--bindings={most}")));
    let (mut server, uri) = server.map_err(|error| error.to_string())?;
    let mut clients = Vec::new();
    let mut before = add(&mut clients, FIRST, &uri, &mut server)?;
    for &count in counts {
        let more = f64::from(count.saturating_sub(clients.len() as u32));
        let memory = add(&mut clients, count, &uri, &mut server)?;
        thread::sleep(AFTER);
        let [.., later] = stats(&mut server)?;
        let each = |memory: u64| (memory as f64 - before as f64) / more;
        println!(
            "{:9} {:9} {:11} {:11.0} {:11.0}",
            name_of(transport),
            clients.len(),
            memory / 1024,
            each(memory),
            each(later)
        );
        before = later;
    }
    let _ = std::fs::remove_file(&path);
    Ok(())
}

/// Binds until there are `count`, and calls once by each new binding. Returns the server's memory.
fn add(clients: &mut Vec<PlainClient>, count: u32, uri: &str, server: &mut Child) -> Result<u64, String> {
    let options = BindOptions::new().timeout(DEADLINE).waiting(stoop::Waiting::Block);
    while clients.len() < count as usize {
        let client = PlainClient::bind_with(uri, &options).map_err(|error| error.to_string())?;
        client.null().map_err(|error| error.to_string())?;
        clients.push(client);
    }
    let [.., memory] = stats(server)?;
    Ok(memory)
}
