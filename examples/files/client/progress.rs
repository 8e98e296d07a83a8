//! How far a transfer is: a bar on a terminal, and a line at the end.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

const REDRAW: Duration = Duration::from_millis(200);
const WIDTH: usize = 30;

/// Counts what has been done. Sums are in bytes.
pub(crate) struct Progress {
    begun: Instant,
    files: AtomicU64,
    total: u64,
    /// Sent or received.
    moved: AtomicU64,
    /// At the other end already.
    reused: AtomicU64,
}

impl Progress {
    /// Nothing done, of so much.
    pub(crate) fn new(total: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self { begun: Instant::now(), files: zero(), total, moved: zero(), reused: zero() }
    }

    pub(crate) fn add_file(&self) {
        self.files.fetch_add(1, Relaxed);
    }

    pub(crate) fn add_moved(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn add_reused(&self, bytes: u64) {
        self.reused.fetch_add(bytes, Relaxed);
    }

    /// Draws the bar while `work` runs, if there is a terminal.
    pub(crate) fn shown_during<R>(&self, work: impl FnOnce() -> R) -> R {
        if !std::io::stderr().is_terminal() {
            return work();
        }
        let (end, ended) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                while ended.recv_timeout(REDRAW) == Err(RecvTimeoutError::Timeout) {
                    self.draw();
                }
                // The bar is gone when the next line is printed.
                eprint!("\r\x1b[K");
            });
            let result = work();
            drop(end);
            result
        })
    }

    fn draw(&self) {
        let (moved, reused) = (self.moved.load(Relaxed), self.reused.load(Relaxed));
        let line = line(moved, reused, self.total, self.begun.elapsed());
        let mut stderr = std::io::stderr().lock();
        // A terminal that has gone is no reason to stop.
        let _ = write!(stderr, "\r\x1b[K{line}").and_then(|()| stderr.flush());
    }

    /// Prints what was done.
    pub(crate) fn summarize(&self) {
        let (moved, reused) = (self.moved.load(Relaxed), self.reused.load(Relaxed));
        let (files, seconds) = (self.files.load(Relaxed), self.begun.elapsed().as_secs_f64());
        let rate = bytes((moved as f64 / seconds) as u64);
        println!(
            "{files} files, {} moved in {seconds:.2} s ({rate}/s), {} were there",
            bytes(moved),
            bytes(reused)
        );
    }
}

/// The bar: how much is done, the rate, and how long the rest takes at this rate.
fn line(moved: u64, reused: u64, total: u64, elapsed: Duration) -> String {
    let done = (moved + reused).min(total);
    let share = if total == 0 { 1.0 } else { done as f64 / total as f64 };
    let filled = (share * WIDTH as f64) as usize;
    let rate = moved as f64 / elapsed.as_secs_f64().max(1e-3);
    let left = if rate > 0.0 { time((total - done) as f64 / rate) } else { "--:--".into() };
    let bar = format!("{}{}", "#".repeat(filled), ".".repeat(WIDTH - filled));
    format!(
        "[{bar}] {:3.0} %  {} of {}  {}/s  {left} left",
        share * 100.0,
        bytes(done),
        bytes(total),
        bytes(rate as u64)
    )
}

fn time(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

/// A number of bytes, as people read it.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes_have_four_digits_at_most() {
        let texts = [0, 1023, 1024, 1536, (1 << 20) - 1, 1 << 20, 1 << 30].map(bytes);
        assert_eq!(texts, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "1.0 MiB", "1.0 MiB", "1.0 GiB"]);
    }

    #[test]
    fn the_time_left_counts_only_what_has_moved() {
        let line = line(1 << 20, 1 << 20, 4 << 20, Duration::from_secs(1));
        assert_eq!(line, "[###############...............]  50 %  2.0 MiB of 4.0 MiB  1.0 MiB/s  0:02 left");
    }

    #[test]
    fn nothing_to_do_is_done() {
        assert!(super::line(0, 0, 0, Duration::ZERO).contains("100 %"));
    }
}
