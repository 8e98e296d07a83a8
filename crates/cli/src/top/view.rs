//! The calls that a server has served between two queries of its account, as a table and as JSON.

use super::Look;
use crate::terminal;
use serde::{Serialize, Serializer};
use std::fmt::Write;
use std::time::Duration;
use stoop::account::{CallingPeer, Histogram, PipedItems, ServedProcedure};

/// A stretch of time of a server.
#[derive(Clone, Debug, Serialize)]
pub(super) struct View {
    /// Seconds of the stretch, and since the server's start.
    seconds: f64,
    up_seconds: f64,
    /// The server was started anew meanwhile.
    restarted: bool,
    account_is_kept: bool,
    /// Of the calls of short procedures one in so many is timed.
    short_share: u32,
    procedures: Vec<Procedure>,
    peers: Vec<Peer>,
    #[serde(serialize_with = "by_name")]
    counters: Vec<(String, Counter)>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Counter {
    value: u64,
    /// How much it has grown in this stretch.
    growth: u64,
}

fn by_name<S: Serializer>(counters: &[(String, Counter)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counters.iter().map(|(name, counter)| (name, counter)))
}

/// A procedure. The one for which processors were busy longest comes first.
#[derive(Clone, Debug, Serialize)]
struct Procedure {
    name: String,
    calls: u64,
    running: u64,
    /// Calls that were timed, or for which one stands that was.
    timed: u64,
    median_ns: Option<u64>,
    p99_ns: Option<u64>,
    longest_ns: Option<u64>,
    /// Processors that it has kept busy on average, or that would have been if it did not wait. `None`: its calls have pipes, and mostly wait.
    busy: Option<f64>,
    /// Of the calls, those in forms of older revisions: the last revision of the form, and how many.
    older: Vec<(u32, u64)>,
}

#[derive(Clone, Debug, Serialize)]
struct Peer {
    peer: String,
    calls: u64,
    busy: f64,
}

/// Counters that are levels: their growth says nothing.
const LEVELS: [&str; 6] =
    ["bindings", "open", "pipes", "queue.waiting", "memory.argument_bytes", "memory.result_bytes"];

/// Columns of a table behind the names, the fewest for a name, and those of a terminal that is not wide.
const FIGURES: usize = 53;
const NAMES_MIN: usize = 12;
const NARROW: usize = 80;

impl View {
    /// All that a server has done so far.
    pub(super) fn since_start(look: &Look) -> Self {
        let none = Look { account: Default::default(), counters: Vec::new(), ..look.clone() };
        Self::of(&none, look, look.up, false)
    }

    /// The calls between two queries; if the server was restarted between them, the calls since its start.
    pub(super) fn between(before: &Look, after: &Look) -> Self {
        match before.incarnation == after.incarnation {
            true => Self::of(before, after, after.at - before.at, false),
            false => Self { restarted: true, ..Self::since_start(after) },
        }
    }

    fn of(before: &Look, after: &Look, time: Duration, restarted: bool) -> Self {
        let seconds = time.as_secs_f64().max(1e-9);
        let account = after.account.since(&before.account);
        let counters = after.counters.iter().map(|(name, value)| {
            let then = before.counters.iter().find(|then| then.0 == *name).map_or(0, |then| then.1);
            (name.clone(), Counter { value: *value, growth: value.saturating_sub(then) })
        });
        let procedures = account.procedures.into_iter().zip(&after.account.procedures);
        let mut view = Self {
            seconds,
            up_seconds: after.up.as_secs_f64(),
            restarted,
            account_is_kept: account.is_kept,
            short_share: account.short_share,
            procedures: procedures.map(|(of, whole)| Procedure::of(of, whole, seconds)).collect(),
            peers: account.peers.into_iter().map(|of| Peer::of(of, seconds)).collect(),
            counters: counters.collect(),
        };
        view.procedures.sort_by(|one, other| other.busy.unwrap_or(0.0).total_cmp(&one.busy.unwrap_or(0.0)));
        view.peers.sort_by(|one, other| other.busy.total_cmp(&one.busy));
        view
    }

    /// The table that a terminal of so many columns shows, with at most so many peers; `None`: lines may be as long as the names are.
    pub(super) fn table(&self, uri: &str, peers_max: usize, columns: Option<usize>) -> String {
        let mut text = String::new();
        // Writing to a text does not fail.
        let _ = self.write_table(&mut text, uri, peers_max, columns);
        text
    }

    /// The columns of names: as many as the longest needs, if there is so much room.
    fn names(&self, columns: Option<usize>) -> usize {
        let names =
            self.procedures.iter().map(|each| &each.name).chain(self.peers.iter().map(|each| &each.peer));
        let older = self.procedures.iter().flat_map(|each| &each.older).map(|(to, _)| label(*to).len() + 1);
        let longest = names.map(|name| name.chars().count() + 1).chain(older).max().unwrap_or(0);
        let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(FIGURES));
        longest.min(room).max(NAMES_MIN)
    }

    fn write_table(
        &self,
        text: &mut String,
        uri: &str,
        peers_max: usize,
        columns: Option<usize>,
    ) -> std::fmt::Result {
        let shown = match (self.restarted, self.seconds < self.up_seconds) {
            (true, _) => "started anew; since then".into(),
            (false, true) => format!("in the last {:.1} s", self.seconds),
            (false, false) => "since its start".into(),
        };
        writeln!(text, "{uri}: up for {:.0} s; {shown}:", self.up_seconds)?;
        self.write_counters(text, columns.unwrap_or(NARROW))?;
        if !self.account_is_kept {
            return writeln!(
                text,
                "The server keeps no account of its procedures: `Server::account` in its\nprogram makes it keep one."
            );
        }
        let names = self.names(columns);
        let head = format!(
            "{:<names$}{:>10}{:>8}{:>9}{:>9}{:>9}{:>8}",
            "procedure", "calls/s", "running", "median", "99 %", "longest", "busy"
        );
        writeln!(text, "\n{}", terminal::heading(&head))?;
        for each in self.procedures.iter().filter(|each| each.calls > 0 || each.running > 0) {
            let [median, p99, longest] = [each.median_ns, each.p99_ns, each.longest_ns].map(time);
            let (rate, busy) = (self.rate(each.calls), each.busy.map_or_else(|| "-".into(), percent));
            let name = shortened(&each.name, names - 1);
            writeln!(
                text,
                "{name:<names$}{rate:>10}{:>8}{median:>9}{p99:>9}{longest:>9}{busy:>8}",
                each.running
            )?;
            for (to, calls) in &each.older {
                let label = shortened(&label(*to), names - 1);
                writeln!(text, "{label:<names$}{:>10}", self.rate(*calls))?;
            }
        }
        let head = format!("{:<names$}{:>10}{:>43}", "caller", "calls/s", "busy");
        writeln!(text, "\n{}", terminal::heading(&head))?;
        for each in self.peers.iter().filter(|each| each.calls > 0).take(peers_max) {
            let (name, rate) = (shortened(&each.peer, names - 1), self.rate(each.calls));
            writeln!(text, "{name:<names$}{rate:>10}{:>43}", percent(each.busy))?;
        }
        let share = self.short_share;
        writeln!(
            text,
            "\nTimes are those of procedures, without queue and network; busy is in percent of\n\
             one processor. Of calls that take less than 5 µs one in {share} is timed, hence\n\
             figures of callers are estimates (- where no call was timed, and for busy of\n\
             calls with pipes, which mostly wait)."
        )
    }

    fn write_counters(&self, text: &mut String, columns: usize) -> std::fmt::Result {
        let shown = |(name, counter): &(String, Counter)| match (LEVELS.contains(&&**name), counter) {
            (true, Counter { value: 1.., .. }) => Some(format!("{name} {}", counter.value)),
            (false, Counter { growth: 1.., .. }) => Some(format!("{name} {}/s", self.rate(counter.growth))),
            _ => None,
        };
        let all: Vec<_> = self.counters.iter().filter_map(shown).collect();
        writeln!(text, "{}", terminal::wrapped(&all, columns))
    }

    fn rate(&self, number: u64) -> String {
        let rate = number as f64 / self.seconds;
        if rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
    }
}

impl Procedure {
    fn of(of: ServedProcedure, whole: &ServedProcedure, seconds: f64) -> Self {
        let ServedProcedure { interface, name, calls, running, ran, older, .. } = of;
        let ns = |share| ran.quantile(share).map(|time| time.as_nanos() as u64);
        Self {
            name: format!("{interface}.{name}"),
            calls,
            running,
            timed: ran.count(),
            median_ns: ns(0.5),
            p99_ns: ns(0.99),
            longest_ns: ns(1.0),
            busy: (whole.pipes == PipedItems::default()).then(|| busy(&ran, calls, seconds)),
            older,
        }
    }
}

fn label(revision: u32) -> String {
    format!("  to revision {revision}")
}

/// Processors that so many calls have kept busy, of which some were timed.
fn busy(ran: &Histogram, calls: u64, seconds: f64) -> f64 {
    let (timed, sum) = (ran.count() as f64, ran.sum().as_secs_f64());
    // Calls that still run are not timed yet, so that calls can be fewer or more than those of which one was timed.
    let each_stands_for = if timed > 0.0 { (calls as f64 / timed).max(1.0) } else { 0.0 };
    sum * each_stands_for / seconds
}

impl Peer {
    fn of(CallingPeer { peer, calls, ran }: CallingPeer, seconds: f64) -> Self {
        Self { peer, calls, busy: ran.as_secs_f64() / seconds }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "-".into(), |ns| format!("{:.1?}", Duration::from_nanos(ns)))
}

/// At most so many characters. What a server tells may have any length, and characters that a terminal would obey.
fn shortened(text: &str, most: usize) -> String {
    let shown = |character: char| if character.is_control() { '?' } else { character };
    let kept: String = text.chars().map(shown).take(most).collect();
    if text.chars().count() > most { kept.chars().take(most - 1).collect::<String>() + "…" } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use stoop::account::ServerAccount;

    fn look(incarnation: u64, calls: u64) -> Look {
        let procedure = ServedProcedure {
            interface: "Store".into(),
            name: "get".into(),
            calls,
            running: 1,
            older: vec![(0, 70), (2, calls / 2)],
            ..ServedProcedure::default()
        };
        let peer = CallingPeer { peer: "10.0.0.1".into(), calls, ran: Duration::from_millis(calls) };
        let account =
            ServerAccount { is_kept: true, short_share: 64, procedures: vec![procedure], peers: vec![peer] };
        let counters = vec![("calls".into(), calls), ("bindings".into(), 3)];
        Look { at: Instant::now(), up: Duration::from_secs(10), incarnation, account, counters }
    }

    #[test]
    fn a_view_has_what_changed_between_two_looks() {
        let (before, mut after) = (look(1, 100), look(1, 150));
        after.at = before.at + Duration::from_secs(2);
        let view = View::between(&before, &after);
        assert_eq!((view.procedures[0].calls, view.peers[0].calls), (50, 50));
        assert!((view.peers[0].busy - 0.025).abs() < 1e-9, "{}", view.peers[0].busy);
        let table = view.table("udp://x:1", 10, None);
        for part in
            ["Store.get", "25.0", "to revision 2", "12.5", "10.0.0.1", "2.5 %", "calls 25.0/s, bindings 3"]
        {
            assert!(table.contains(part), "{part}: {table}");
        }
        assert!(!table.contains("to revision 0"), "no more calls: {table}");
    }

    #[test]
    fn after_a_restart_all_counts_since_the_start_are_shown() {
        let (before, after) = (look(1, 100), look(2, 30));
        let view = View::between(&before, &after);
        assert!(view.restarted && view.procedures[0].calls == 30);
        assert!(view.table("x", 1, None).contains("started anew"));
    }

    #[test]
    fn a_table_fits_the_terminal_and_shows_whole_names_where_there_is_room() {
        let mut all = look(1, 100);
        all.account.procedures[0].name = "a_procedure_with_a_name_that_is_quite_long".into();
        all.counters.extend((0..20).map(|number| (format!("counter.number_{number}"), 7)));
        let view = View::since_start(&all);
        let widest = |table: &str| table.lines().map(|line| line.chars().count()).max().unwrap();
        let (narrow, wide) = (view.table("udp://x:1", 10, Some(80)), view.table("udp://x:1", 10, None));
        assert!(widest(&narrow) <= 80, "{narrow}");
        let whole = &view.procedures[0].name;
        assert!(!narrow.contains(whole) && wide.contains(whole), "{wide}");
        assert!(view.table("udp://x:1", 10, Some(120)).contains(whole));
    }

    #[test]
    fn counters_have_their_names_in_json() {
        let json = serde_json::to_value(View::since_start(&look(1, 100))).unwrap();
        assert_eq!(json["counters"]["bindings"]["value"], 3, "{json}");
        assert_eq!(json["counters"]["calls"]["growth"], 100, "{json}");
    }

    #[test]
    fn text_of_a_server_cannot_command_the_terminal() {
        assert_eq!(shortened("a\x1b[2Jb", 31), "a?[2Jb");
        assert_eq!(shortened("abcdefgh", 4), "abc…");
    }
}
