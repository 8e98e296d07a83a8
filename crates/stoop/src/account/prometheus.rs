//! Accounts in the text form of Prometheus.
//!
//! The form is that of <https://prometheus.io/docs/instrumenting/exposition_formats/>, which OpenMetrics collectors read as well.

use crate::account::calls::CallAccount;
use crate::account::histogram::Histogram;
use crate::account::served::ServerAccount;
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
    pub fn prometheus(&self) -> impl Display + '_ {
        Text(self)
    }
}

impl ServerAccount {
    /// The account in the text form of Prometheus: by interface and procedure histograms `stoop_served_seconds`, counters
    /// `stoop_served_calls_total` and gauges `stoop_served_running`; and by caller counters `stoop_peer_calls_total` and
    /// `stoop_peer_seconds_total`.
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
        describe(
            f,
            "stoop_served_seconds",
            "histogram",
            "Time for which procedures ran, of the timed calls.",
        )?;
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
        describe(f, "stoop_peer_calls_total", "counter", "Calls of each caller that have ended.")?;
        for peer in peers {
            writeln!(f, "stoop_peer_calls_total{{peer=\"{}\"}} {}", escaped(&peer.peer), peer.calls)?;
        }
        describe(f, "stoop_peer_seconds_total", "counter", "Time for which procedures ran for each caller.")?;
        peers.iter().try_for_each(|peer| {
            let seconds = peer.ran.as_secs_f64();
            writeln!(f, "stoop_peer_seconds_total{{peer=\"{}\"}} {seconds}", escaped(&peer.peer))
        })
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
