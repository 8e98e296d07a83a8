//! The command `bench`: the tables of a run, from first to last.

use crate::args::BenchArgs;
use crate::effort::{Effort, share_of};
use crate::network::Network;
use crate::placement::Placement;
use crate::plan::{Cell, Section, Shape, sections};
use crate::row::Row;
use crate::session::Session;
use crate::{bindings, cell, ethernet, greedy, json, machine, overload, pipes, screen, table};
use indicatif::{ProgressBar, ProgressStyle};
use std::process::ExitCode;
use std::time::Duration;

/// Measures what `args` ask for. Fails when any line could not be measured.
pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode, String> {
    if !args.overload.is_empty() {
        return overload::run(args);
    }
    if args.greedy {
        return greedy::run(args);
    }
    if args.pipes {
        return pipes::run(args);
    }
    if !args.bindings.is_empty() {
        return bindings::run(args);
    }
    if let Some(parts) = &args.ethernet {
        return ethernet::run(args, parts);
    }
    let placement =
        Placement::of_this_process().map_err(|error| format!("this process's processors: {error}"))?;
    machine::allow_many_files().map_err(|error| format!("the number of open files: {error}"))?;
    // While this process has one thread: only a process with one thread can make a user namespace.
    let network = Network::prepare();
    let mut run = Run::new(args, placement, network);
    run.print_head();
    for section in &run.sections.clone() {
        run.measure_section(section);
    }
    Ok(run.finish())
}

struct Run<'a> {
    args: &'a BenchArgs,
    placement: Placement,
    network: Network,
    session: Option<Session>,
    progress: ProgressBar,
    sections: Vec<Section>,
    cells: usize,
    /// How long each cell is measured.
    share: Duration,
    void: usize,
    disturbed: usize,
    failed: usize,
    /// How many times a call through a vtable the fastest Null() over shared memory took, and that one's nanoseconds.
    vtable: Option<(f64, f64)>,
}

impl<'a> Run<'a> {
    fn new(args: &'a BenchArgs, placement: Placement, network: Network) -> Self {
        let sections = sections(args);
        let cells = sections.iter().flat_map(Section::cells).count();
        let is_overview = sections.iter().all(|section| section.shape.is_overview());
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
            sections,
            cells,
            share: share_of(cells, is_overview),
            void: 0,
            disturbed: 0,
            failed: 0,
            vtable: None,
        }
    }

    fn is_overview(&self) -> bool {
        self.sections.iter().all(|section| section.shape.is_overview())
    }

    fn print_head(&self) {
        let name = format!("stoop {} bench", env!("CARGO_PKG_VERSION"));
        self.print_text(&match self.is_overview() {
            true => format!(
                "{name}: an overview (every table: stoop bench --full; the choices: stoop bench --help)"
            ),
            false => name,
        });
        self.print_text(&table::headed("machine", &machine::describe()));
        self.print_text(&table::headed("network", &self.network.describe()));
        self.print_text(&table::headed("processors", &self.placement.describe()));
    }

    fn measure_section(&mut self, section: &Section) {
        let (lines, shape) = (&section.lines, section.shape);
        self.print_text(&format!("\n{}\n{}", section.title, table::head(shape, screen::width())));
        for (index, cells) in lines.iter().enumerate() {
            if index > 0 && !shape.is_overview() && !alike(&lines[index - 1][0], &cells[0]) {
                self.print_text("");
            }
            let rows: Vec<Option<Row>> = cells.iter().map(|cell| self.measure_cell(cell)).collect();
            self.print_rows(&rows, shape);
        }
    }

    /// Measures a cell; `None` when that cannot be done, which it has said by then.
    fn measure_cell(&mut self, cell: &Cell) -> Option<Row> {
        self.progress.set_message(cell.describe());
        let measured = self.measure(cell);
        self.progress.inc(1);
        match measured {
            Ok(Some(row)) => {
                self.take_note_of(&row);
                Some(row)
            }
            Ok(None) => None,
            Err(why) => {
                self.failed += 1;
                // The session may be in any state after a failure: the next cell begins a new one.
                self.session = None;
                self.progress.suspend(|| eprintln!("stoop bench: {}: {why}", cell.describe()));
                None
            }
        }
    }

    fn measure(&mut self, cell: &Cell) -> Result<Option<Row>, String> {
        let Some(sides) = self.placement.sides(cell.processors) else {
            self.print_aside(&format!("{}: only one processor may be used", cell.describe()));
            return Ok(None);
        };
        if cell.transport.backend().is_some() && !self.network.has_frames {
            self.print_aside(&format!("{}: loopback is no Ethernet", cell.describe()));
            return Ok(None);
        }
        if !self.session.as_ref().is_some_and(|session| session.fits(cell)) {
            // The old server goes before the new one comes.
            self.session = None;
            self.session = Some(Session::open(cell, sides, &self.network)?);
        }
        let session = self.session.as_mut().expect("opened above");
        let effort = Effort::new(cell, self.share, self.args.calls);
        cell::measure(cell, effort, session, &self.network).map(Some)
    }

    fn take_note_of(&mut self, row: &Row) {
        self.void += usize::from(row.floor_void);
        self.disturbed += usize::from(row.is_disturbed());
        let fastest = self.vtable.map_or(f64::INFINITY, |(times, _)| times);
        if let Some(times) = row.vtable_ratio.filter(|&times| times < fastest) {
            self.vtable = row.vtable_p50_ns.map(|ns| (times, ns));
        }
    }

    /// Prints what was measured for one line of the table.
    fn print_rows(&self, rows: &[Option<Row>], shape: Shape) {
        if self.args.json {
            let measured = rows.iter().flatten();
            measured.for_each(|row| self.progress.suspend(|| println!("{}", json::line(row))));
        } else if let Some(line) = table::line(rows, shape, screen::width()) {
            self.progress.suspend(|| screen::print(&line));
        }
    }

    /// Prints a line that is for people only.
    fn print_text(&self, line: &str) {
        if !self.args.json {
            self.progress.suspend(|| screen::print(line));
        }
    }

    /// Prints what does not belong to the figures.
    fn print_aside(&self, line: &str) {
        self.progress.suspend(|| if self.args.json { eprintln!("{line}") } else { screen::print(line) });
    }

    fn finish(self) -> ExitCode {
        self.progress.finish_and_clear();
        self.print_text(&format!("\n{}", table::legend(self.sections.iter().map(|section| section.shape))));
        if let Some((times, ns)) = self.vtable.filter(|_| !self.is_overview()) {
            self.print_text(&format!("\n{}", table::note_of_vtable(times, ns)));
        }
        for note in table::notes(self.void, self.disturbed, self.cells) {
            self.print_aside(&note);
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
