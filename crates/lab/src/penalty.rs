//! The command `penalty`: what the network alone costs (Peregrine §5.1), and calls beside it.
//!
//! Frames of the paper's sizes go there and back on the private Ethernet, without a protocol, and both ends look for them without
//! sleeping. Half of the round trip is the penalty. Calls in frames stand beside it, each measured in turn with its own bare frames.

use crate::args::{PenaltyArgs, Procedure, Processors, Waiting, name_of};
use crate::callers::Callers;
use crate::effort::Effort;
use crate::floor::penalty::{BareTransfer, Transfer};
use crate::network::Network;
use crate::placement::{Placement, Sides, pin};
use crate::plan::Cell;
use crate::progress::Progress;
use crate::samples::Samples;
use crate::screen::{self, Columns};
use crate::session::Session;
use crate::{cell, machine, table};
use std::time::Duration;

/// Bytes of data in a frame, and the paper's penalty in microseconds (Peregrine Table 1).
pub(crate) const TABLE_1: [(usize, f64); 7] =
    [(46, 132.0), (100, 173.0), (200, 255.0), (400, 417.0), (800, 743.0), (1024, 927.0), (1500, 1314.0)];

/// Full frames in a row, and the paper's penalty in milliseconds (Peregrine Table 2).
pub(crate) const TABLE_2: [(usize, f64); 7] =
    [(1, 1.31), (2, 2.58), (4, 5.13), (8, 10.21), (16, 20.40), (32, 40.83), (64, 81.59)];

/// Data of a full frame.
pub(crate) const FULL: usize = 1500;

/// A call, and the paper's penalty and time (Peregrine Tables 3 and 5).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaperCall {
    pub(crate) name: &'static str,
    pub(crate) procedure: Procedure,
    pub(crate) bytes: u32,
    pub(crate) penalty: f64,
    pub(crate) measured: f64,
}

const fn call(
    name: &'static str,
    procedure: Procedure,
    bytes: u32,
    penalty: f64,
    measured: f64,
) -> PaperCall {
    PaperCall { name, procedure, bytes, penalty, measured }
}

/// In microseconds.
pub(crate) const TABLE_3: [PaperCall; 4] = [
    call("Null()", Procedure::Null, 0, 264.0, 562.0),
    call("4 bytes IN", Procedure::BulkIn, 4, 264.0, 563.0),
    call("1024 bytes IN", Procedure::BulkIn, 1024, 1059.0, 1364.0),
    call("1024 bytes IN-OUT", Procedure::BulkInOut, 1024, 1854.0, 2321.0),
];

/// In microseconds, too.
pub(crate) const TABLE_5: [PaperCall; 4] = [
    call("3000 bytes IN", Procedure::BulkIn, 3000, 2710.0, 3200.0),
    call("3000 bytes IN-OUT", Procedure::BulkInOut, 3000, 5160.0, 6040.0),
    call("48000 bytes IN", Procedure::BulkIn, 48_000, 40_960.0, 43_310.0),
    call("48000 bytes IN-OUT", Procedure::BulkInOut, 48_000, 81_660.0, 86_270.0),
];

/// Prints the tables.
pub(crate) fn run(args: &PenaltyArgs) -> Result<(), String> {
    let placement =
        Placement::of_this_process().map_err(|error| format!("this process's processors: {error}"))?;
    let sides = placement.sides(Processors::Two).ok_or("both ends busy wait: two processors are needed")?;
    let network = Network::prepare();
    if !network.has_frames || args.transport.backend().is_none() {
        return Err(format!(
            "bare frames need a private Ethernet and `ether`; this is {}",
            network.describe()
        ));
    }
    screen::print(&table::headed("machine", &machine::describe()));
    screen::print(&table::headed("network", &network.describe()));
    screen::print(&table::headed("processors", &placement.describe()));
    screen::print(&table::headed("mechanism", &name_of(args.transport)));
    pin(sides.caller).map_err(|error| format!("pinning the caller: {error}"))?;
    let penalties = Penalties { args, sides, network: &network, progress: progress() };
    penalties.print_table_1()?;
    penalties.print_table_2()?;
    penalties.print_calls("Table 3: calls of one packet each way", &TABLE_3)?;
    penalties.print(
        "\nTable 4, the parts of Null(): stoop tables peregrine-4, of a program with the feature `account`",
    );
    penalties.print_calls("Table 5: calls of several packets", &TABLE_5)?;
    penalties.progress.finish();
    Ok(())
}

/// Counts the lines of all tables.
fn progress() -> Progress {
    Progress::of((TABLE_1.len() + TABLE_2.len() + TABLE_3.len() + TABLE_5.len()) as u64)
}

struct Penalties<'a> {
    args: &'a PenaltyArgs,
    sides: Sides,
    network: &'a Network,
    progress: Progress,
}

impl Penalties<'_> {
    fn show(&self, what: &str) {
        self.progress.show(what);
    }

    fn print(&self, line: &str) {
        self.progress.print(line);
    }

    /// Prints a line of a table, which is one of those that are counted.
    fn print_measured(&self, line: &str) {
        self.print(line);
        self.progress.advance(1);
    }

    fn print_table_1(&self) -> Result<(), String> {
        self.print("\nTable 1: the network penalty of one frame, µs one way");
        self.print(&format!("{:>6} {:>10} {:>8} {:>8} {:>8}", "data", "Peregrine", "p50", "p99", "times"));
        for (data, paper_us) in TABLE_1 {
            self.show(&format!("a frame of {data} bytes"));
            let mut times = self.bare(Transfer { data, frames: 1 })?;
            let [p50, p99] = [0.5, 0.99].map(|share| times.percentile_ns(share) / 2e3);
            let line = format!("{data:>6} {paper_us:>10.0} {p50:>8.2} {p99:>8.2} {:>8.0}", paper_us / p50);
            self.print_measured(&line);
        }
        Ok(())
    }

    fn print_table_2(&self) -> Result<(), String> {
        self.print("\nTable 2: the network penalty of full frames in a row, µs one way");
        self.print(&format!(
            "{:>6} {:>6} {:>10} {:>8} {:>9} {:>8} {:>8}",
            "data", "frames", "Peregrine", "p50", "Mbit/s", "paper's", "times"
        ));
        for (frames, paper_ms) in TABLE_2 {
            self.show(&format!("full frames in a row: {frames}"));
            let (data, paper_us) = (frames * FULL, paper_ms * 1e3);
            let us = self.bare(Transfer { data: FULL, frames })?.percentile_ns(0.5) / 2e3;
            let mbits = |us: f64| data as f64 * 8.0 / us;
            self.print_measured(&format!(
                "{data:>6} {frames:>6} {paper_us:>10.0} {us:>8.2} {:>9.0} {:>8.2} {:>8.0}",
                mbits(us),
                mbits(paper_us),
                paper_us / us
            ));
        }
        Ok(())
    }

    /// The times of round trips.
    fn bare(&self, transfer: Transfer) -> Result<Samples, String> {
        let slices = bare_slices(self.args, transfer, self.sides, self.network)?;
        let mut all = Samples::default();
        slices.iter().for_each(|slice| all.append(slice));
        Ok(all)
    }

    fn print_calls(&self, title: &str, calls: &[PaperCall]) -> Result<(), String> {
        self.print(&format!("\n{title}, µs. The penalty is that of call and result packets"));
        self.print(&columns_of_calls().head(screen::width()));
        let mut session: Option<Session> = None;
        for call in calls {
            self.show(call.name);
            let cell = self.cell(call);
            let session = match &mut session {
                Some(session) => session,
                none => none.insert(Session::open(&cell, self.sides, self.network)?),
            };
            let effort = Effort::new(&cell, CALLS_TIME, None);
            let row = cell::measure(&cell, effort, session, self.network)?;
            let PaperCall { name, penalty, measured, .. } = *call;
            let (ours, bare) = (row.p50_ns / 1e3, row.floor_p50_ns / 1e3);
            let papers = [measured, penalty, measured - penalty].map(|us| format!("{us:.0}"));
            let today = [ours, bare, ours - bare, row.ratio].map(|figure| format!("{figure:.2}"));
            let texts = [vec![name.to_owned()], papers.into(), today.into()].concat();
            self.print_measured(&columns_of_calls().row(screen::width(), &texts));
        }
        Ok(())
    }

    fn cell(&self, call: &PaperCall) -> Cell {
        Cell {
            transport: self.args.transport,
            procedure: call.procedure,
            bytes: call.bytes,
            waiting: Waiting::Spin,
            ..Cell::NULL
        }
    }
}

/// Those of calls: the paper's, and today's.
fn columns_of_calls() -> Columns {
    let papers = [("all", 9), ("penalty", 9), ("overhead", 9)];
    let today = [("p50", 8), ("penalty", 8), ("overhead", 9), ("ratio", 6)];
    Columns::new(&[("", -19)]).group(1, "Peregrine", &papers).group(3, "today", &today)
}

/// The times of round trips of bare frames, slice by slice.
pub(crate) fn bare_slices(
    args: &PenaltyArgs,
    transfer: Transfer,
    sides: Sides,
    network: &Network,
) -> Result<Vec<Samples>, String> {
    let open = BareTransfer::open(args.transport, transfer, sides, network);
    let calls = open.map_err(|error| format!("bare frames: {error}"))?;
    let (mut bare, mut callers) = (vec![calls.calls], Callers::new());
    let effort = Effort::for_calls(args.calls.div_ceil(transfer.frames as u64));
    let calls_max = effort.calls.unwrap_or(u64::MAX);
    let mut slice = || callers.run(&mut bare, effort, calls_max);
    let slices = (0..effort.pairs).map(|_| Ok(slice()?.remove(0).samples)).collect();
    drop(calls.echo);
    slices
}

/// How long each call is measured.
const CALLS_TIME: Duration = Duration::from_secs(2);
