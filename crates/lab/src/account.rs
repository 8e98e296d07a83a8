//! The command `account`: where the time of a call goes.
//!
//! Rounds alternate, because the machine is not equally fast at all times: calls without instruments, calls with stamps, and
//! for each tracepoint calls with stamps and this tracepoint alone. A tracepoint takes about as long as a short step, so one at a
//! time disturbs what it measures least.

mod checks;
mod clock;
mod doubt;
mod kernel;
mod measure;
mod model;
mod noise;
mod path;
mod perf;
mod picture;
mod progress;
mod report;
pub(crate) mod stamps;
mod steps;
mod tick;
mod typical;
mod waterfall;

use crate::args::{AccountArgs, Transport, Waiting};
use crate::network::Network;
use crate::placement::{Placement, Sides};
use crate::plan::Cell;
use crate::screen;
use crate::session::Session;
use checks::Alternate;
use kernel::Tracing;
use measure::{Measuring, tracepoints};
use model::Model;
use path::CallPath;
use progress::progress;
use report::About;
use std::fs;
use std::path::Path;
use steps::Measured;
pub(crate) use steps::{Account, Place, Step};

/// Measures the call that `args` describe, and prints its account.
pub(crate) fn run(args: &AccountArgs) -> Result<(), String> {
    refuse_impossible(args)?;
    let placement = Placement::of_this_process().map_err(|error| format!("processors: {error}"))?;
    let sides = placement.sides(args.processors).ok_or("only one processor may be used: --processors 1")?;
    // While this process has one thread: only a process with one thread can make a user namespace.
    let network = Network::prepare();
    refuse_without_frames(args, &network)?;
    let cell = cell(args);
    let tracing = open_tracing(args);
    // Before this thread is pinned, after which it may use one processor.
    let about = About::new(args, network.name(), tracing.as_ref().err().cloned());
    let mut session = Session::open(&cell, sides, &network)?;
    let mut measuring = Measuring {
        session: &mut session,
        cell: &cell,
        tracing: tracing.as_ref().ok(),
        calls: calls_of_slice(args),
    };
    let account = measure(args, &mut measuring)?.account()?;
    let models = match args.model {
        true => model::measure(&mut measuring, &cell, args.rounds)?,
        false => Vec::new(),
    };
    print(args, &about, &account, &models);
    write_pictures(args, &about, &account)
}

fn write_pictures(args: &AccountArgs, about: &About, account: &Account) -> Result<(), String> {
    let write = |file: &Path, picture: String| {
        fs::write(file, picture).map_err(|error| format!("the picture, {}: {error}", file.display()))
    };
    if let Some(file) = &args.svg {
        write(file, picture::svg(about, account))?;
    }
    if let Some(file) = &args.svg_narrow {
        write(file, picture::narrow_svg(about, account))?;
    }
    Ok(())
}

/// The account of the call that `args` describe, for the tables of other commands.
pub(crate) fn of_call(args: &AccountArgs, sides: Sides, network: &Network) -> Result<Account, String> {
    refuse_impossible(args)?;
    refuse_without_frames(args, network)?;
    let (cell, tracing) = (cell(args), open_tracing(args));
    let mut session = Session::open(&cell, sides, network)?;
    let tracing = tracing.as_ref().ok();
    let mut measuring =
        Measuring { session: &mut session, cell: &cell, tracing, calls: calls_of_slice(args) };
    measure(args, &mut measuring)?.account()
}

fn print(args: &AccountArgs, about: &About, account: &Account, models: &[Model]) {
    if args.json {
        return println!("{}", report::json(about, account, models));
    }
    screen::print(&report::table(about, account));
    screen::print(&waterfall::text(account));
    models.iter().for_each(|model| screen::print(&model::text(model)));
}

fn refuse_impossible(args: &AccountArgs) -> Result<(), String> {
    if !stoop_probe::COMPILED {
        return Err("this program was built without stamps: build it with --features account".into());
    }
    if args.transport == Transport::Local {
        return Err("a call within a process is a call through the trait, which has no steps: choose another --transport".into());
    }
    if args.procedure.is_bulk() {
        return Err(
            "account takes calls of one packet each way: --procedure null, max-arg or max-result".into()
        );
    }
    // Before minutes of measuring.
    [&args.svg, &args.svg_narrow].into_iter().flatten().try_for_each(|file| can_be_written(file))
}

fn refuse_without_frames(args: &AccountArgs, network: &Network) -> Result<(), String> {
    match args.transport.backend().is_some() && !network.has_frames {
        true => Err(format!("there is no Ethernet for frames: {}", network.describe())),
        false => Ok(()),
    }
}

/// Makes the file unless it exists, and leaves its contents as they are.
pub(crate) fn can_be_written(file: &Path) -> Result<(), String> {
    let opened = fs::OpenOptions::new().append(true).create(true).open(file);
    opened
        .map(drop)
        .map_err(|error| format!("{} cannot be written: {error}; name another file", file.display()))
}

/// The kernel's tracepoints, or why they are not used.
fn open_tracing(args: &AccountArgs) -> Result<Tracing, String> {
    match args.no_kernel {
        true => Err("the kernel is one step, as --no-kernel asks".into()),
        false => Tracing::open(),
    }
}

/// Calls of a slice. A thread's buffer has room for the stamps of three thousand.
fn calls_of_slice(args: &AccountArgs) -> usize {
    match (args.waiting, args.processors.number()) {
        // A server that spins on its caller's processor keeps it for a time slice of the scheduler: a call takes milliseconds. Over shared
        // memory each end knows where the other runs.
        (Waiting::Spin, 1) if args.transport != Transport::Shm => 20,
        // Where a thread sleeps on one processor and is woken by another, a call takes tens of microseconds.
        (Waiting::Block, 2) => 500,
        _ => 2000,
    }
}

fn measure(args: &AccountArgs, measuring: &mut Measuring<'_>) -> Result<Measured, String> {
    let mut measured = Measured {
        path: CallPath::new(args.processors.number() == 1),
        plain: Vec::new(),
        stamped: Vec::new(),
        traced: tracepoints().map(|tracepoint| (tracepoint, Vec::new())).collect(),
        apart: Vec::new(),
        alternate: [Vec::new(), Vec::new()],
        stamp_cycles: measure::stamp_cost(),
        tick_cycles: tick::measure(),
        way: way(args.transport),
        others_cpu: 0.0,
    };
    let before = measuring.others();
    let progress = progress("round", args.rounds);
    for round in 0..args.rounds {
        measured.plain.push(measuring.plain()?);
        let stamped = measuring.stamped()?;
        if round == 0 {
            measured.path = CallPath::most_taken(args.processors.number() == 1, &stamped);
        }
        measured.stamped.push(stamped);
        for (first, slices) in measured.alternate.iter_mut().enumerate() {
            slices.push(measuring.stamped_at(&Alternate::of(&measured.path, first).path.0)?);
        }
        if is_shorter_than_its_stamps(args) {
            measure_apart(measuring, &mut measured)?;
        }
        for (tracepoint, slices) in &mut measured.traced {
            slices.extend(measuring.traced(tracepoint)?);
        }
        progress.inc(1);
    }
    measured.others_cpu = measuring.others().others_since(before);
    progress.finish_and_clear();
    Ok(measured)
}

/// A call over shared memory takes less time than all of its stamps, unless a thread sleeps or waits for the other's processor.
fn is_shorter_than_its_stamps(args: &AccountArgs) -> bool {
    args.transport == Transport::Shm && args.waiting != Waiting::Block && args.processors.number() == 2
}

/// Each point of the path is stamped in calls of its own, so that one stamp at a time disturbs what it measures.
fn measure_apart(measuring: &mut Measuring<'_>, measured: &mut Measured) -> Result<(), String> {
    let points = &measured.path.0;
    measured.apart.resize_with(points.len(), Vec::new);
    for (slices, point) in measured.apart.iter_mut().zip(points) {
        slices.push(measuring.stamped_at(&[*point])?);
    }
    Ok(())
}

fn way(transport: Transport) -> &'static str {
    match transport {
        Transport::Shm => "shared memory: publish the message, until the other end sees it",
        _ => "kernel: from the sender's system call to the return of the receiver's",
    }
}

/// One caller that makes one call at a time.
fn cell(args: &AccountArgs) -> Cell {
    Cell {
        transport: args.transport,
        procedure: args.procedure,
        waiting: args.waiting,
        processors: args.processors,
        ..Cell::NULL
    }
}
