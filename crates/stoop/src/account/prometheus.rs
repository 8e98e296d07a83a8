//! Accounts and counters in the text form of Prometheus.
//!
//! The form is that of <https://prometheus.io/docs/instrumenting/exposition_formats/>, which OpenMetrics collectors read as well.

use crate::account::calls::{CallAccount, CalledProcedure};
use crate::account::histogram::Histogram;
use crate::account::piped::PipedItems;
use crate::account::served::{ServedProcedure, ServerAccount};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};
use std::time::Duration;

/// Bounds of the buckets: the powers of two from this many nanoseconds (1 µs) on, so many of them (up to 69 s).
const FIRST_BOUND_NS: u64 = 1 << 10;
const BOUNDS: u32 = 27;

/// An account in the text form of Prometheus.
struct Text<T>(T);

impl CallAccount {
    /// The account in the text form of Prometheus: histograms `stoop_call_seconds` by interface, procedure and part of the call (`whole`,
    /// `server`, `rest`), with bounds at powers of two, and counters `stoop_calls_failed_total`.
    ///
    /// ```
    /// # #[stoop::interface] trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
    /// # struct Two;
    /// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("udp://127.0.0.1:0")?.start()?;
    /// # let uri = server.uris()[0].clone();
    ///
    /// let options = stoop::BindOptions::new().account(stoop::account::AccountOptions::new());
    /// let client = AdderClient::bind_with(&uri, &options)?;
    /// client.add(1, 2)?;
    /// let text = client.binding().account().prometheus().to_string();
    /// assert!(text.contains("stoop_calls_failed_total{interface=\"Adder\",procedure=\"add\"} 0"), "{text}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn prometheus(&self) -> impl Display + '_ {
        Text(self)
    }
}

impl ServerAccount {
    /// The account in the text form of Prometheus: by interface and procedure histograms `stoop_served_seconds`, counters
    /// `stoop_served_calls_total` and gauges `stoop_served_running`; and by caller counters `stoop_peer_calls_total` and
    /// `stoop_peer_seconds_total`. A caller is a host, of which there are 4096 at most and then `others`, or a user of this machine: the
    /// numbers of processes would be new labels without end.
    ///
    /// A call that was timed stands for those before it that were not, so the histograms count calls.
    ///
    /// ```
    /// use stoop::account::{StoopAccountClient, counters_for_prometheus};
    ///
    /// /// The metrics of a server that runs elsewhere, for a program that collects those of many.
    /// fn metrics(uri: &str) -> Result<String, Box<dyn std::error::Error>> {
    ///     let server = StoopAccountClient::bind(uri)?;
    ///     Ok(format!("{}{}", server.account(100)?.prometheus(), counters_for_prometheus(&server.counters()?)))
    /// }
    /// ```
    pub fn prometheus(&self) -> impl Display + '_ {
        Text(self)
    }
}

impl Display for Text<&CallAccount> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self(CallAccount { interface, procedures, .. }) = self;
        describe(f, "stoop_call_seconds", "histogram", "Time of calls, and of their parts.")?;
        for procedure in procedures {
            let parts =
                [("whole", &procedure.whole), ("server", &procedure.server), ("rest", &procedure.rest)];
            for (part, times) in parts.into_iter().filter(|(_, times)| times.count() > 0) {
                let labels = format!("{},part=\"{part}\"", labels(interface, procedure.name));
                histogram(f, "stoop_call_seconds", &labels, times)?;
            }
        }
        let of = |procedure: &CalledProcedure| (labels(interface, procedure.name), procedure.pipes);
        pipes(f, &procedures.iter().map(of).collect::<Vec<_>>())?;
        describe(f, "stoop_calls_failed_total", "counter", "Calls that ended without a result.")?;
        procedures.iter().try_for_each(|procedure| {
            let labels = labels(interface, procedure.name);
            writeln!(f, "stoop_calls_failed_total{{{labels}}} {}", procedure.failed)
        })
    }
}

impl Display for Text<&ServerAccount> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self(ServerAccount { procedures, peers, .. }) = self;
        describe(f, "stoop_served_seconds", "histogram", "Time for which procedures ran.")?;
        for procedure in procedures {
            let labels = labels(&procedure.interface, &procedure.name);
            histogram(f, "stoop_served_seconds", &labels, &procedure.ran)?;
        }
        describe(f, "stoop_served_calls_total", "counter", "Calls that have begun.")?;
        for procedure in procedures {
            let labels = labels(&procedure.interface, &procedure.name);
            writeln!(f, "stoop_served_calls_total{{{labels}}} {}", procedure.calls)?;
        }
        describe(f, "stoop_served_running", "gauge", "Calls that run now.")?;
        for procedure in procedures {
            let labels = labels(&procedure.interface, &procedure.name);
            writeln!(f, "stoop_served_running{{{labels}}} {}", procedure.running)?;
        }
        let of =
            |procedure: &ServedProcedure| (labels(&procedure.interface, &procedure.name), procedure.pipes);
        pipes(f, &procedures.iter().map(of).collect::<Vec<_>>())?;
        let mut sums: BTreeMap<&str, (u64, Duration)> = BTreeMap::new();
        for peer in peers {
            let (calls, ran) = sums.entry(host_or_user(&peer.peer)).or_default();
            (*calls, *ran) = (calls.saturating_add(peer.calls), ran.saturating_add(peer.ran));
        }
        describe(f, "stoop_peer_calls_total", "counter", "Calls of each host or user that have ended.")?;
        for (peer, (calls, _)) in &sums {
            writeln!(f, "stoop_peer_calls_total{{peer=\"{}\"}} {calls}", escaped(peer))?;
        }
        describe(
            f,
            "stoop_peer_seconds_total",
            "counter",
            "Time for which procedures ran for each host or user.",
        )?;
        sums.iter().try_for_each(|(peer, (_, ran))| {
            let seconds = ran.as_secs_f64();
            writeln!(f, "stoop_peer_seconds_total{{peer=\"{}\"}} {seconds}", escaped(peer))
        })
    }
}

/// What the pipes of procedures with these labels have carried.
fn pipes(f: &mut Formatter<'_>, procedures: &[(String, PipedItems)]) -> Result {
    let piped = || procedures.iter().filter(|(_, pipes)| !pipes.is_none());
    if piped().next().is_none() {
        return Ok(());
    }
    describe(f, "stoop_pipe_items_total", "counter", "Items of pipes that were sent or received here.")?;
    for (labels, pipes) in piped() {
        writeln!(f, "stoop_pipe_items_total{{{labels},way=\"sent\"}} {}", pipes.sent)?;
        writeln!(f, "stoop_pipe_items_total{{{labels},way=\"received\"}} {}", pipes.received)?;
    }
    describe(f, "stoop_pipe_wait_seconds_total", "counter", "Time for which programs waited at pipes.")?;
    for (labels, pipes) in piped() {
        let (room, items) = (pipes.waited_for_room.as_secs_f64(), pipes.waited_for_items.as_secs_f64());
        writeln!(f, "stoop_pipe_wait_seconds_total{{{labels},for=\"room\"}} {room}")?;
        writeln!(f, "stoop_pipe_wait_seconds_total{{{labels},for=\"items\"}} {items}")?;
    }
    Ok(())
}

/// `user 7` of `process 9 of user 7`; other callers as they are.
fn host_or_user(peer: &str) -> &str {
    let process = peer.strip_prefix("process ").and_then(|process| process.split_once(" of "));
    process.map_or(peer, |(_, user)| user)
}

/// The counters of a server, as [`StoopAccount::counters`](crate::account::StoopAccount::counters) tells them, in the text form of
/// Prometheus: `bindings` as the gauge `stoop_server_bindings`, `queue.full` as the counter `stoop_server_queue_full_total`, and
/// `refused.overloaded` as `stoop_server_refusals_total{reason="overloaded"}`, and so the refused handshakes of sealed bindings. Names that are no such words are left out.
///
/// ```
/// let counters = [("bindings".to_owned(), 3), ("refused.overloaded".to_owned(), 7)];
/// let text = stoop::account::counters_for_prometheus(&counters).to_string();
/// assert!(text.contains("stoop_server_bindings 3\n"));
/// assert!(text.contains("stoop_server_refusals_total{reason=\"overloaded\"} 7\n"));
/// ```
pub fn counters_for_prometheus(counters: &[(String, u64)]) -> impl Display + '_ {
    Text(Counters(counters.iter().map(|(name, value)| (name.as_str(), *value)).collect()))
}

/// Counters by name.
pub(crate) struct Counters<'a>(BTreeMap<&'a str, u64>);

/// Those that can fall.
const GAUGES: [&str; 6] =
    ["bindings", "open", "pipes", "queue.waiting", "memory.argument_bytes", "memory.result_bytes"];

/// Those of one thing by reasons: how their names begin, the metric of all, and its help.
const REASONS: [(&str, &str, &str); 2] = [
    ("refused.", "stoop_server_refusals_total", "Calls refused, by the reason that callers are told."),
    (
        "handshakes_refused.",
        "stoop_server_handshakes_refused_total",
        "Handshakes of sealed bindings that gave none, by reason.",
    ),
];

impl Display for Text<Counters<'_>> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || b"._".contains(&byte))
        };
        let named = || self.0.0.iter().filter(|(name, _)| is_name(name));
        let has_reason = |name: &str| REASONS.iter().any(|(prefix, ..)| name.starts_with(prefix));
        for (name, value) in named().filter(|(name, _)| !has_reason(name)) {
            let (kind, end) = if GAUGES.contains(name) { ("gauge", "") } else { ("counter", "_total") };
            let metric = format!("stoop_server_{}{end}", name.replace('.', "_"));
            describe(f, &metric, kind, &format!("The counter {name} of the server."))?;
            writeln!(f, "{metric} {value}")?;
        }
        for (prefix, metric, help) in REASONS {
            let of_reason = |(name, value): (&&str, _)| Some((name.strip_prefix(prefix)?.to_owned(), value));
            let mut refusals = named().filter_map(of_reason).peekable();
            if refusals.peek().is_some() {
                describe(f, metric, "counter", help)?;
            }
            refusals
                .try_for_each(|(reason, value)| writeln!(f, "{metric}{{reason=\"{reason}\"}} {value}"))?;
        }
        Ok(())
    }
}

fn describe(f: &mut Formatter<'_>, name: &str, kind: &str, help: &str) -> Result {
    writeln!(f, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

fn labels(interface: &str, procedure: &str) -> String {
    format!("interface=\"{}\",procedure=\"{}\"", escaped(interface), escaped(procedure))
}

/// A label's value: a peer may have told it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn histogram(f: &mut Formatter<'_>, name: &str, labels: &str, times: &Histogram) -> Result {
    for power in 0..BOUNDS {
        let bound = Duration::from_nanos(FIRST_BOUND_NS << power);
        let (below, bound) = (times.count_below(bound), bound.as_secs_f64());
        writeln!(f, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}")?;
    }
    writeln!(f, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", times.count())?;
    writeln!(f, "{name}_sum{{{labels}}} {}", times.sum().as_secs_f64())?;
    writeln!(f, "{name}_count{{{labels}}} {}", times.count())
}

#[cfg(test)]
mod tests;
