//! The command `bench`: the tables of a run, from first to last.

use crate::args::{BenchArgs, name_of};
use crate::effort::Effort;
use crate::network::Network;
use crate::placement::Placement;
use crate::plan::{Cell, Section, Shape, sections};
use crate::row::Row;
use crate::session::Session;
use crate::{cell, json, machine, table};
use indicatif::{ProgressBar, ProgressStyle};
use std::process::ExitCode;

/// Measures what `args` ask for. Fails when any line could not be measured.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, String> {
    let placement =
        Placement::of_this_process().map_err(|error| format!("this process's processors: {error}"))?;
    machine::allow_many_files().map_err(|error| format!("the number of open files: {error}"))?;
    // While this process has one thread: a user namespace is made by nobody else.
    let network = Network::prepare();
    let mut run = Run::new(args, placement, network);
    run.print_head();
    for section in sections(args) {
        run.measure_section(&section);
    }
    Ok(run.finish())
}

struct Run<'a> {
    args: &'a BenchArgs,
    placement: Placement,
    network: Network,
    session: Option<Session>,
    progress: ProgressBar,
    cells: usize,
    void: usize,
    disturbed: usize,
    failed: usize,
    /// How many times a call through a vtable the fastest Null() over shared memory took, and that one's nanoseconds.
    vtable: Option<(f64, f64)>,
}

impl<'a> Run<'a> {
    fn new(args: &'a BenchArgs, placement: Placement, network: Network) -> Self {
        let cells = sections(args).iter().map(|section| section.cells.len()).sum();
        // Drawn only between cells: a thread that redraws would take the processor from a caller.
        let progress = ProgressBar::new(cells as u64).with_style(
            ProgressStyle::with_template("{bar:24} {pos}/{len}, about {eta} left: {msg}")
                .expect("the template is well formed"),
        );
        Run {
            args,
            placement,
            network,
            session: None,
            progress,
            cells,
            void: 0,
            disturbed: 0,
            failed: 0,
            vtable: None,
        }
    }

    fn print_head(&self) {
        self.print_text(&format!("stoop {} bench", env!("CARGO_PKG_VERSION")));
        self.print_text(&format!("machine    {}", machine::describe()));
        self.print_text(&format!("network    {}", self.network.describe()));
        self.print_text(&format!("pinning    {}", self.placement.describe()));
        self.print_text(table::LEGEND);
    }

    fn measure_section(&mut self, section: &Section) {
        let cells = &section.cells;
        self.print_text(&format!("\n{}\n{}", section.title, table::head(section.shape)));
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 && !alike(&cells[index - 1], cell) {
                self.print_text("");
            }
            self.progress.set_message(describe(cell));
            self.measure_cell(cell, section.shape);
            self.progress.inc(1);
        }
    }

    fn measure_cell(&mut self, cell: &Cell, shape: Shape) {
        match self.measure(cell) {
            Ok(Some(row)) => self.print_row(&row, shape),
            Ok(None) => self.print_aside(&format!("{}: only one processor may be used", describe(cell))),
            Err(why) => {
                self.failed += 1;
                // What is left of it may be in any state: the next cell begins anew.
                self.session = None;
                self.progress.suspend(|| eprintln!("stoop bench: {}: {why}", describe(cell)));
            }
        }
    }

    fn measure(&mut self, cell: &Cell) -> Result<Option<Row>, String> {
        let Some(sides) = self.placement.sides(cell.processors) else { return Ok(None) };
        if !self.session.as_ref().is_some_and(|session| session.fits(cell)) {
            // The old server goes before the new one comes.
            self.session = None;
            self.session = Some(Session::open(cell, sides, &self.network)?);
        }
        let session = self.session.as_mut().expect("opened above");
        let effort = Effort::new(cell, self.cells, self.args.calls);
        cell::measure(cell, effort, session, &self.network).map(Some)
    }

    fn print_row(&mut self, row: &Row, shape: Shape) {
        self.void += usize::from(row.floor_void);
        self.disturbed += usize::from(row.is_disturbed());
        let fastest = self.vtable.map_or(f64::INFINITY, |(times, _)| times);
        if let Some(times) = row.vtable_ratio.filter(|&times| times < fastest) {
            self.vtable = row.vtable_p50_ns.map(|ns| (times, ns));
        }
        let line = if self.args.json { json::line(row) } else { table::line(row, shape) };
        self.progress.suspend(|| println!("{line}"));
    }

    /// Prints a line that is for people only.
    fn print_text(&self, line: &str) {
        if !self.args.json {
            self.progress.suspend(|| println!("{line}"));
        }
    }

    /// Prints what does not belong to the figures.
    fn print_aside(&self, line: &str) {
        self.progress.suspend(|| if self.args.json { eprintln!("{line}") } else { println!("{line}") });
    }

    fn finish(self) -> ExitCode {
        self.progress.finish_and_clear();
        if let Some((times, ns)) = self.vtable {
            self.print_text(&format!("\n{}", table::note_of_vtable(times, ns)));
        }
        for note in table::notes(self.void, self.disturbed, self.cells) {
            self.print_aside(&format!("\n{note}"));
        }
        if self.failed > 0 {
            eprintln!("stoop bench: {} of {} lines could not be measured", self.failed, self.cells);
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }
}

/// Whether two cells stand together in a table.
fn alike(one: &Cell, other: &Cell) -> bool {
    let of = |cell: &Cell| (cell.transport, cell.procedure, cell.processors);
    of(one) == of(other)
}

fn describe(cell: &Cell) -> String {
    let (transport, procedure, waiting) =
        (name_of(cell.transport), name_of(cell.procedure), name_of(cell.waiting));
    let clients = if cell.clients > 1 { format!(" of {} clients", cell.clients) } else { String::new() };
    let silence = cell.silence.map_or_else(String::new, |silence| format!(" after {silence} of silence"));
    let busy = if cell.busy { " beside a busy process" } else { "" };
    let bytes = if cell.bytes > 0 { format!(" of {} bytes", cell.bytes) } else { String::new() };
    let in_flight =
        if cell.in_flight > 1 { format!(", {} in flight", cell.in_flight) } else { String::new() };
    let rate = cell.link_rate.map_or_else(String::new, |rate| format!(" at {rate}"));
    let callers = if cell.callers == 1 { "1 caller".into() } else { format!("{} callers", cell.callers) };
    let processors = if cell.processors.number() == 1 { "one processor" } else { "two processors" };
    let what = format!("{transport}{rate} {procedure}{bytes}{in_flight}{silence}");
    format!("{what}, {callers}{clients}, {waiting}, {processors}{busy}")
}
