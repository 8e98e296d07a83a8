//! The measurement `bench --greedy`: a host or user that takes all it can, and what another one still gets.
//!
//! The server has one processor; the attacker and the victim have the other, the attacker with the lowest priority. Over
//! a network the attacker is another host than the victim: it has a network namespace and an address of its own. Over Unix
//! sockets and shared memory it is another user. The victim binds, calls and unbinds again and again while the attacker
//! holds what it has, and the worst of its calls are printed.

pub(crate) mod attack;
mod attacker;
mod means;
mod packets;
mod port;
pub(crate) mod serve;
mod victim;

use crate::args::{Attack, BenchArgs, Transport, Waiting, name_of};
use crate::child::Child;
use crate::network::Network;
use crate::progress::Progress;
use crate::screen::{self, Columns};
use crate::session::{socket_path, start_server};
use crate::stage::{Stage, chosen_or};
use attacker::Attacker;
use clap::ValueEnum;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;
use stoop::InPlace;
use victim::Victim;

/// The interface of the measurement.
#[stoop::interface]
pub(crate) trait Plain {
    /// Nothing.
    fn null(&self);
    /// Takes time, and no processor: [`HOLD`] of it.
    fn hold(&self);
    /// The sum of the bytes.
    fn sum(&self, bytes: &[u8]) -> u64;
    /// Takes an argument, and the time of [`hold`](Plain::hold).
    fn hold_bytes(&self, bytes: &[u8]);
    /// A result of so many bytes.
    fn make(&self, len: u32) -> Vec<u8>;
    /// The sum of the bytes of a buffer that may lie in memory of both ends.
    fn sum_in_place(&self, bytes: &InPlace<u8>) -> u64;
}

/// How long the slow procedures take.
pub(crate) const HOLD: Duration = Duration::from_millis(500);
/// The user as which the attacker runs, where users are told apart: nobody.
const ATTACKING_USER: u32 = 65534;
/// Time after which the memory of the server is compared with that before the attacks.
const AFTER: Duration = Duration::from_secs(10);
/// A short form waits for one part in so many of that, and of the time for which an attack takes what it can.
const SHORTER: u32 = 10;
/// Bytes that the server may keep of what the attacks took.
const MEMORY_MAX: u64 = 32 << 20;

/// Measures each attack over each transport that `args` choose. Fails if the victim missed a bar.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, String> {
    let stage = Stage::set()?;
    let all = [Transport::Udp, Transport::Tcp, Transport::Unix, Transport::Shm, Transport::Ether];
    let transports = chosen_or(&args.transport, &all);
    let progress = Progress::of(transports.iter().map(|transport| lines(args, *transport)).sum());
    let mut missed = 0;
    for &transport in transports {
        if let Some(why) = why_not(transport, &stage.network) {
            progress.print(&format!("\n{}: not measured: {why}", name_of(transport)));
            progress.advance(lines(args, transport));
            continue;
        }
        let measured = measure(transport, args, &stage, &progress);
        missed += measured.map_err(|why| format!("{}: {why}", name_of(transport)))?;
    }
    progress.finish();
    screen::print(&format!(
        "\n{missed} lines miss a bar (marked !): no refusal or failure, Null() 100 ms, 1 MiB 1 s, memory 32 MiB"
    ));
    Ok(if missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Why attacker and victim cannot be told apart over this transport here.
fn why_not(transport: Transport, network: &Network) -> Option<&'static str> {
    match transport {
        Transport::Local => Some("callers of one process take from themselves"),
        Transport::Unix | Transport::Shm if !rustix::process::geteuid().is_root() => {
            Some("only root can run the attacker as another user")
        }
        Transport::Unix | Transport::Shm => None,
        _ if !network.has_frames => Some("the attacker needs a host of its own: the private Ethernet"),
        _ => None,
    }
}

fn measure(
    transport: Transport,
    args: &BenchArgs,
    stage: &Stage,
    progress: &Progress,
) -> Result<usize, String> {
    let path = socket_path("greedy");
    let waiting = args.waiting.first().copied().unwrap_or(Waiting::Adaptive);
    let server = start_server(
        "bench-greedy-server",
        (transport, waiting, stage.sides.server),
        &stage.network,
        &path,
        None,
    );
    let (mut server, uri) = server.map_err(|error| error.to_string())?;
    progress.print(&format!("\n{}", name_of(transport)));
    progress.print(&columns().head(screen::width()));
    let victim = Victim::new(&uri, args.calls, !args.short);
    // The server has run each path once when its memory is looked at.
    let quiet = victim.calls();
    print_line(progress, "none", &mut server, &quiet)?;
    let before = memory(&mut server)?;
    let (mut missed, mut most) = (usize::from(quiet.misses()), before);
    for attack in attacks(args, transport) {
        progress.show(&format!("{}, {}", name_of(transport), attack.describe()));
        let attacker = Attacker::start(attack, (transport, &uri), &stage.network, args.short);
        let attacker = attacker.map_err(|error| error.to_string())?;
        let served = victim.calls();
        missed += usize::from(served.misses());
        print_line(progress, attack.describe(), &mut server, &served)?;
        most = most.max(memory(&mut server)?);
        drop(attacker);
    }
    let pause = if args.short { AFTER / SHORTER } else { AFTER };
    thread::sleep(pause);
    let after = memory(&mut server)?;
    let keeps_much = after > before + MEMORY_MAX && !args.short;
    progress.print(&format!(
        "  memory of the server: {} before, at most {} at the end of an attack, {} {} s after the last{}",
        mib(before),
        mib(most),
        mib(after),
        pause.as_secs_f64(),
        if keeps_much { " !" } else { "" }
    ));
    let _ = std::fs::remove_file(&path);
    Ok(missed + usize::from(keeps_much))
}

/// The chosen attacks that are possible over the transport.
fn attacks(args: &BenchArgs, transport: Transport) -> impl Iterator<Item = Attack> {
    let chosen = if args.attack.is_empty() { Attack::value_variants() } else { &args.attack };
    chosen.iter().copied().filter(move |attack| attack.is_possible(transport))
}

/// Lines of the transport's table: one without an attacker, and one for each attack.
fn lines(args: &BenchArgs, transport: Transport) -> u64 {
    1 + attacks(args, transport).count() as u64
}

fn columns() -> Columns {
    Columns::new(&[("  attack", -28), ("bindings", 9), ("refused", 8)]).group(
        1,
        "the other caller",
        &[("bind ms", 9), ("Null() ms", 9), ("(calls)", 8), ("1 MiB ms", 9), ("not served", 11), ("", 1)],
    )
}

fn print_line(
    progress: &Progress,
    what: &str,
    server: &mut Child,
    served: &victim::Served,
) -> Result<(), String> {
    let stats = stats(server)?;
    let texts =
        [format!("  {what}"), stats[0].to_string(), stats[1].to_string()].into_iter().chain(served.texts());
    progress.print(&columns().row(screen::width(), &texts.collect::<Vec<_>>()));
    served.first_failure().iter().for_each(|why| progress.print(&format!("    {why}")));
    progress.advance(1);
    Ok(())
}

fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}

/// What the server tells: its bindings, binds that it refused, bytes of memory.
pub(crate) fn stats(server: &mut Child) -> Result<[u64; 3], String> {
    let asked = server.tell("stats").and_then(|()| server.expect("stats"));
    let line = asked.map_err(|error| error.to_string())?;
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().map_err(|_| format!("the server told something else than its counts: {line}"))
}

fn memory(server: &mut Child) -> Result<u64, String> {
    stats(server).map(|[_, _, memory]| memory)
}
