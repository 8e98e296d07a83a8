//! The means by which tables are measured: the network, the processors, and the open session.

use super::model::Figure;
use crate::args::{LinkRate, Procedure, Processors, Program, TablesArgs, Transport, Waiting, name_of};
use crate::callers::{Callers, Calls, Measured, Window, call_repeatedly};
use crate::cell;
use crate::child::Child;
use crate::effort::Effort;
use crate::machine;
use crate::network::Network;
use crate::placement::{Placement, Sides, pin};
use crate::plan::Cell;
use crate::row::Row;
use crate::session::Session;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// The means by which tables are measured.
pub(crate) struct Lab<'a> {
    pub(crate) args: &'a TablesArgs,
    pub(crate) placement: Placement,
    pub(crate) network: Network,
    /// Describes the machine; read before this thread was pinned, so that it counts all processors.
    pub(crate) machine: String,
    session: Option<Session>,
    progress: ProgressBar,
    begun: Instant,
}

impl<'a> Lab<'a> {
    /// `seconds` is the length of the progress bar.
    pub(crate) fn new(args: &'a TablesArgs, placement: Placement, network: Network, seconds: u64) -> Self {
        // Drawn only between measurements: a thread that redraws would take the processor from a caller.
        let progress = ProgressBar::new(seconds * 1000).with_style(
            ProgressStyle::with_template("{bar:24} about {eta} left: {prefix}{msg}")
                .expect("the template is well formed"),
        );
        Self {
            args,
            placement,
            network,
            machine: machine::describe(),
            session: None,
            progress,
            begun: Instant::now(),
        }
    }

    /// Shows the next measurement in the progress bar.
    pub(crate) fn now(&self, what: &str) {
        self.progress.set_message(what.to_owned());
        self.progress.tick();
    }

    /// Shows in the progress bar that round `round` has begun.
    pub(crate) fn round(&self, round: u32) {
        self.progress.set_prefix(format!("round {round} of {}, ", self.args.rounds));
    }

    /// Moves the progress bar to `seconds` of the whole run.
    pub(crate) fn passed(&self, seconds: u64) {
        self.progress.set_position(seconds * 1000);
    }

    pub(crate) fn finish(&self) {
        self.progress.finish_and_clear();
    }

    /// Hides the progress bar while `print` prints.
    pub(crate) fn aside(&self, print: impl FnOnce()) {
        self.progress.suspend(print);
    }

    /// Seconds since the run began.
    pub(crate) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// The processors of caller and server.
    pub(crate) fn sides(&self, processors: Processors) -> Result<Sides, String> {
        self.placement.sides(processors).ok_or_else(|| "only one processor may be used here".into())
    }

    /// Measures `cell` beside its floor, for as long as the options say.
    pub(crate) fn row(&mut self, cell: &Cell) -> Result<Row, String> {
        self.row_in(cell, self.args.time())
    }

    /// Measures `cell` beside its floor in about this time.
    pub(crate) fn row_in(&mut self, cell: &Cell, time: Duration) -> Result<Row, String> {
        let effort = Effort::new(cell, time, self.args.calls);
        self.in_session(cell, time, |session, network| cell::measure(cell, effort, session, network))
    }

    /// Measures the calls of `cell` without its floor in about this time.
    pub(crate) fn call_alone(&mut self, cell: &Cell, time: Duration) -> Result<Vec<Measured>, String> {
        // Slices of one kind: twice as many take the same time.
        let effort = Effort::new(cell, 2 * time, self.args.calls);
        self.in_session(cell, time, |session, _| cell::measure_alone(cell, effort, session))
    }

    /// Measures the floor of `cell` alone in about this time.
    pub(crate) fn floor_alone(&mut self, cell: &Cell, time: Duration) -> Result<Vec<Measured>, String> {
        let effort = Effort::new(cell, 2 * time, self.args.calls);
        self.floor_by(cell, effort, &mut |_, _| Ok(()))
    }

    /// Measures the floor of `cell` on two networks in turn, slice by slice: `switch` makes the network the second one, or the first
    /// again. Both ends of the exchange stay as they are, so that nothing else differs.
    pub(crate) fn floor_in_turn(
        &mut self,
        cell: &Cell,
        switch: fn(&Network, bool) -> Result<(), String>,
    ) -> Result<[Vec<Measured>; 2], String> {
        let effort = Effort::new(cell, 2 * self.args.time(), self.args.calls);
        let effort = Effort { pairs: 2 * effort.pairs.div_ceil(2), ..effort };
        let slices = self.floor_by(cell, effort, &mut |network, number| switch(network, number % 2 == 1))?;
        let (first, second): (Vec<_>, Vec<_>) =
            slices.into_iter().enumerate().partition(|(number, _)| number % 2 == 0);
        Ok([first, second].map(|slices| slices.into_iter().map(|(_, slice)| slice).collect()))
    }

    fn floor_by(
        &mut self,
        cell: &Cell,
        effort: Effort,
        before: &mut dyn FnMut(&Network, u32) -> Result<(), String>,
    ) -> Result<Vec<Measured>, String> {
        let sides = self.prepare(cell)?;
        self.clear()?;
        pin(sides.caller).map_err(|error| format!("pinning the caller: {error}"))?;
        let network = &self.network;
        network.limit(cell.link_rate)?;
        let measured =
            cell::measure_floor(cell, effort, sides, network, &mut |number| before(network, number));
        self.progress.inc((effort.pairs * (effort.slice + effort.warm_up)).as_millis() as u64);
        measured
    }

    /// Shows `cell` in the progress bar. Fails where it cannot be measured.
    fn prepare(&self, cell: &Cell) -> Result<Sides, String> {
        let sides = self.sides(cell.processors)?;
        if cell.transport.backend().is_some() && !self.network.has_frames {
            return Err("loopback is no Ethernet".into());
        }
        self.now(&words(cell));
        Ok(sides)
    }

    /// Measures in the open session, or in a new one where that does not fit `cell`.
    fn in_session<T>(
        &mut self,
        cell: &Cell,
        time: Duration,
        measure: impl FnOnce(&mut Session, &Network) -> Result<T, String>,
    ) -> Result<T, String> {
        let sides = self.prepare(cell)?;
        if !self.session.as_ref().is_some_and(|session| session.fits(cell)) {
            // The old server ends before the new one starts: they would share a processor.
            self.session = None;
            self.session = Some(Session::open(cell, sides, &self.network)?);
        }
        let measured = measure(self.session.as_mut().expect("opened above"), &self.network);
        self.progress.inc(time.as_millis() as u64);
        if measured.is_err() {
            // The failure may have left the session in any state.
            self.session = None;
        }
        measured
    }

    /// Closes the session and lifts the limit of the link, so that the next measurement has the processors and the network alone.
    pub(crate) fn clear(&mut self) -> Result<(), String> {
        self.session = None;
        self.network.limit(None)
    }

    /// Measures several ways to call in turn, slice by slice, each by the calling thread's processor. Nanoseconds times `scale`.
    pub(crate) fn in_turn(&self, ways: Vec<Box<dyn Calls>>, scale: f64) -> Result<Vec<Figure>, String> {
        let effort = Effort::new(&Cell::NULL, self.args.time(), self.args.calls);
        let calls_max = effort.calls.unwrap_or(u64::MAX);
        let mut callers = Callers::new();
        let mut ways: Vec<Vec<Box<dyn Calls>>> = ways.into_iter().map(|way| vec![way]).collect();
        let mut slices = vec![Vec::new(); ways.len()];
        for _ in 0..effort.pairs {
            for (way, slices) in ways.iter_mut().zip(&mut slices) {
                slices.push(callers.run(way, effort, calls_max)?.remove(0));
            }
            self.measured(effort, ways.len());
        }
        Ok(slices.into_iter().map(|slices| Figure::of_measured(slices, scale)).collect())
    }

    /// The calls per second of callers that call at the same time, slice by slice, on the processors of this thread.
    pub(crate) fn rates(&self, mut ways: Vec<Box<dyn Calls>>) -> Result<Figure, String> {
        let effort = Effort::new(&Cell::NULL, self.args.time(), self.args.calls);
        let each = |calls: u64| calls.div_ceil(ways.len() as u64);
        let calls_max = effort.calls.map_or(u64::MAX, each);
        let (mut callers, mut rates, mut calls) = (Callers::new(), Vec::new(), 0);
        for _ in 0..effort.pairs {
            let slice = callers.run(&mut ways, effort, calls_max)?;
            rates.push(slice.iter().map(Measured::calls_per_second).sum());
            calls += slice.iter().map(|caller| caller.calls).sum::<u64>();
            self.measured(effort, 1);
        }
        Ok(Figure::of(rates, calls))
    }

    /// As [`in_turn`](Self::in_turn), for differences of a few nanoseconds: by this thread, in slices so short that the machine has one
    /// speed in all of a turn. Every second turn is in reverse order, so that a speed that rises or falls does not count.
    pub(crate) fn in_short_turns(
        &self,
        mut ways: Vec<Box<dyn Calls>>,
        scale: f64,
    ) -> Result<Vec<Figure>, String> {
        let effort = Effort::short(self.args.time(), self.args.calls);
        let mut slices = vec![Vec::new(); ways.len()];
        for turn in 0..effort.pairs {
            let mut order: Vec<_> = ways.iter_mut().zip(&mut slices).collect();
            if turn % 2 == 1 {
                order.reverse();
            }
            for (way, slices) in order {
                slices.push(way.run(Window::of(effort))?);
            }
        }
        self.measured(effort, ways.len() * effort.pairs as usize);
        Ok(slices.into_iter().map(|slices| Figure::of_measured(slices, scale)).collect())
    }

    /// As [`in_short_turns`](Self::in_short_turns), for pairs of ways before and after a change. Two sockets, or two bindings, that do the
    /// same differ by a hundredth: the figures of all pairs together have that in their spread.
    pub(crate) fn pairs_in_short_turns(
        &self,
        pairs: Vec<[Box<dyn Calls>; 2]>,
        scale: f64,
    ) -> Result<[Figure; 2], String> {
        let figures = self.in_short_turns(pairs.into_iter().flatten().collect(), scale)?;
        let (before, after): (Vec<_>, Vec<_>) =
            figures.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
        let joined = |figures: Vec<(usize, Figure)>| {
            Figure::joined(figures.into_iter().map(|(_, figure)| figure).collect())
        };
        Ok([joined(before), joined(after)])
    }

    /// Moves the progress bar by so many slices.
    fn measured(&self, effort: Effort, slices: usize) {
        self.progress.inc(((effort.slice + effort.warm_up) * slices as u32).as_millis() as u64);
    }

    /// Starts a server program of the tables, beside the caller or on the server's side. Returns also where it listens.
    pub(crate) fn serve(
        &self,
        program: Program,
        cpu: usize,
        at: At,
        more: &[&str],
    ) -> Result<(Child, String), String> {
        self.serve_on(program, &[cpu], at, more)
    }

    /// As [`serve`](Self::serve), on any of these processors.
    pub(crate) fn serve_on(
        &self,
        program: Program,
        cpus: &[usize],
        at: At,
        more: &[&str],
    ) -> Result<(Child, String), String> {
        let cpus = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let mut arguments = vec![
            "tables-serve".to_owned(),
            format!("--program={}", name_of(program)),
            format!("--cpu={cpus}"),
            format!("--address={}", at.address),
        ];
        arguments.extend(more.iter().map(|&word| word.to_owned()));
        let start = || {
            let mut process = match at.beside_caller {
                true => Child::start_beside_caller("server", &arguments)?,
                false => Child::start("server", &arguments, &self.network)?,
            };
            let listening = process.expect("listening")?;
            Ok((process, listening))
        };
        start().map_err(|error: std::io::Error| error.to_string())
    }
}

impl TablesArgs {
    /// How long each figure is measured.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_millis(self.ms.into())
    }
}

/// The address at which a server program listens, and the side on which it runs.
pub(crate) struct At {
    pub(crate) address: String,
    pub(crate) beside_caller: bool,
}

/// A function that makes a call, as a way to call, and how many calls are timed together.
pub(crate) struct Way<F>(F, u64);

impl<F: FnMut() -> Result<(), String> + Send + 'static> Way<F> {
    pub(crate) fn boxed(call: F) -> Box<dyn Calls> {
        Box::new(Self(call, 1))
    }

    /// Short calls, timed `batch` at a time.
    pub(crate) fn in_batches(batch: u64, call: F) -> Box<dyn Calls> {
        Box::new(Self(call, batch))
    }
}

impl<F: FnMut() -> Result<(), String> + Send> Calls for Way<F> {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        call_repeatedly(window, self.1, &mut self.0)
    }
}

fn words(cell: &Cell) -> String {
    let Cell { transport, procedure, callers, waiting, processors, .. } = cell;
    format!(
        "{} over {}, {callers} caller{}, {}, {}",
        name_of(*procedure),
        name_of(*transport),
        if *callers == 1 { "" } else { "s" },
        name_of(*waiting),
        if *processors == Processors::One { "one processor" } else { "two processors" }
    )
}

/// One caller that spins, as its server does, on a processor each.
pub(crate) fn spinning(transport: Transport, procedure: Procedure) -> Cell {
    Cell { transport, procedure, waiting: Waiting::Spin, ..Cell::NULL }
}

/// A link of so many megabits per second.
pub(crate) fn at_rate(cell: Cell, mbits: u32) -> Cell {
    Cell { link_rate: Some(LinkRate { mbits }), ..cell }
}
