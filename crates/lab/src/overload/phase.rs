//! The phases of the measurement at one server, each printed second by second.

use crate::args::{BenchArgs, Transport, name_of};
use crate::child::Child;
use crate::overload::load::{Callers, Outcomes, Pattern};
use crate::overload::serve::ServerStats;
use crate::overload::{DEADLINE, WorkClient};
use crate::progress::Progress;
use crate::screen::{self, Columns};
use std::thread;
use std::time::{Duration, Instant};
use stoop::BindOptions;

/// A server, and clients of it.
pub(super) struct Phases<'a> {
    transport: Transport,
    server: Child,
    /// The load comes over several bindings, as from several programs.
    clients: Vec<WorkClient>,
    other: WorkClient,
    /// It takes less time.
    pub(super) is_short: bool,
    pub(super) progress: &'a Progress,
}

/// Bindings of the load.
const BINDINGS: usize = 4;
/// Callers of the control, each of which makes one call after the other.
const CONTROL_CALLERS: usize = 8;
const CONTROL: Duration = Duration::from_secs(3);
const OVERLOAD: Duration = Duration::from_secs(6);
const AFTER: Duration = Duration::from_secs(3);
/// A short form takes one part in so many of the time.
const SHORTER: u32 = 10;
/// In a closed loop: threads, and calls that are begun again at once.
const CLOSED_THREADS: usize = 64;
const CLOSED_BEGUN: usize = 2880;

/// One second of a phase.
struct Second {
    of: f64,
    outcomes: Outcomes,
    server: ServerStats,
}

impl Second {
    fn rate(&self) -> f64 {
        self.outcomes.good as f64 / self.of
    }

    fn line(&self, at: f64) -> String {
        let Outcomes { begun, good, refused, failed, unknown, not_sent } = self.outcomes;
        let ServerStats { cpu_ns, run, late, latest_ns, .. } = self.server;
        let counts =
            [begun, good, refused, failed, unknown, not_sent, run, late].map(|count| count.to_string());
        let server =
            [format!("{:.1}", latest_ns as f64 / 1e6), format!("{:.0}", cpu_ns as f64 / 1e7 / self.of)];
        let texts = [vec![format!("{at:.1} s")], counts.into(), server.into()].concat();
        columns().row(screen::width(), &texts)
    }
}

fn columns() -> Columns {
    let callers = [("calls", 7), ("good", 6), ("refused", 8), ("failed", 8), ("unknown", 8), ("unsent", 8)];
    let server = [("run", 6), ("late", 5), ("max ms", 6), ("cpu %", 6)];
    Columns::new(&[("", 7)]).group(1, "callers", &callers).group(3, "server", &server)
}

/// Steps of the progress bar for so long: two a second, if it takes its whole time.
const fn steps(of: Duration) -> u64 {
    of.as_millis() as u64 / 500
}

/// Steps of the progress bar for the phases at one server.
pub(super) fn steps_of_all(args: &BenchArgs) -> u64 {
    let overloads = args.overload.len() as u64 + 1;
    steps(CONTROL) + overloads * (steps(OVERLOAD) + steps(AFTER))
}

impl<'a> Phases<'a> {
    pub(super) fn new(
        transport: Transport,
        server: Child,
        uri: &str,
        is_short: bool,
        progress: &'a Progress,
    ) -> Result<Self, String> {
        let options = BindOptions::new().timeout(DEADLINE);
        let bind = |_| WorkClient::bind_with(uri, &options).map_err(|error| error.to_string());
        let clients = (0..BINDINGS).map(bind).collect::<Result<_, _>>()?;
        Ok(Self { transport, server, clients, other: bind(0)?, is_short, progress })
    }

    pub(super) fn run(&mut self, args: &BenchArgs, uri: &str) -> Result<(), String> {
        let name = name_of(self.transport);
        self.refusals(uri)?;
        let control = self.control(&format!("{name}, control: {CONTROL_CALLERS} callers"))?;
        for times in &args.overload {
            let offered = control * f64::from(*times);
            let mut load = Callers::new();
            for client in &self.clients {
                load.begin_calls(client, Pattern::Open(offered / BINDINGS as f64));
            }
            let what = format!("{name}, open loop: {offered:.0} calls a second, {times} times the control");
            self.overload(&what, load, control)?;
        }
        let mut load = Callers::new();
        for client in &self.clients {
            load.call(client, CLOSED_THREADS / BINDINGS);
            load.begin_calls(client, Pattern::Closed(CLOSED_BEGUN / BINDINGS));
        }
        let what = format!("{name}, closed loop: {CLOSED_THREADS} threads and {CLOSED_BEGUN} begun calls");
        self.overload(&what, load, control)
    }

    fn print_head(&self, what: &str) {
        self.progress.print(&format!("\n{what}\n{}", columns().head(screen::width())));
        self.progress.show(what);
    }

    /// The server's capacity: calls a second.
    fn control(&mut self, what: &str) -> Result<f64, String> {
        self.print_head(what);
        let mut callers = Callers::new();
        callers.call(&self.other, CONTROL_CALLERS);
        let seconds = self.watch(&callers, CONTROL, Duration::from_secs(1))?;
        callers.join();
        Ok(median(&seconds))
    }

    fn overload(&mut self, what: &str, load: Callers, control: f64) -> Result<(), String> {
        self.print_head(what);
        let seconds = self.watch(&load, OVERLOAD, Duration::from_secs(1))?;
        load.stop();
        let mut callers = Callers::new();
        callers.call(&self.other, CONTROL_CALLERS);
        self.progress.print(&format!("after it, {CONTROL_CALLERS} callers:"));
        let after = self.watch(&callers, AFTER, Duration::from_millis(500))?;
        callers.join();
        load.join();
        let steady = &seconds[1..];
        let least = steady.iter().map(Second::rate).fold(f64::INFINITY, f64::min);
        self.progress.print(&format!(
            "goodput after the first second: median {:.0} %, least {:.0} % of the control; {:.0} % in the second after the load's end",
            percent(median(steady), control),
            percent(least, control),
            percent(after[2].rate(), control),
        ));
        let late: u64 = seconds.iter().chain(&after).map(|second| second.server.late).sum();
        self.progress.print(&format!("begun after their deadline: {late}"));
        Ok(())
    }

    /// So much time, or less in a short form.
    pub(super) fn time(&self, whole: Duration) -> Duration {
        if self.is_short { whole / SHORTER } else { whole }
    }

    /// Prints what happens in each interval of a time.
    fn watch(&mut self, callers: &Callers, time: Duration, each: Duration) -> Result<Vec<Second>, String> {
        let (time, steps, each) = (self.time(time), steps(each), self.time(each));
        let begun = Instant::now();
        let (mut last, mut outcomes, mut stats) = (begun, callers.tally.outcomes(), self.stats()?);
        let mut seconds = Vec::new();
        while seconds.len() < time.div_duration_f64(each).round() as usize {
            let until = begun + each * (seconds.len() as u32 + 1);
            thread::sleep(until.saturating_duration_since(Instant::now()));
            let (at, outcomes_now, stats_now) = (Instant::now(), callers.tally.outcomes(), self.stats()?);
            let of = (at - last).as_secs_f64();
            let second = Second { of, outcomes: outcomes_now - outcomes, server: stats_now.since(&stats) };
            self.progress.print(&second.line((at - begun).as_secs_f64()));
            self.progress.advance(steps);
            seconds.push(second);
            (last, outcomes, stats) = (at, outcomes_now, stats_now);
        }
        Ok(seconds)
    }

    pub(super) fn stats(&mut self) -> Result<ServerStats, String> {
        let told = self.server.tell("stats").and_then(|()| self.server.expect("stats"));
        told.and_then(|line| line.parse()).map_err(|error| error.to_string())
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

fn median(seconds: &[Second]) -> f64 {
    let mut rates: Vec<f64> = seconds.iter().map(Second::rate).collect();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
