//! The model t_L = t_B + x·T_N: the latency of a call as a base and a time for each byte, fitted to measured calls.

use super::measure::Measuring;
use super::progress::progress;
use crate::args::Procedure;
use crate::plan::Cell;
use crate::samples::Quartiles;
use indicatif::ProgressBar;
use serde::Serialize;

/// Bytes of argument or result, as long as one packet carries them.
const SIZES: [u32; 7] = [0, 240, 480, 720, 960, 1200, 1440];

/// A fitted line.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Model {
    pub(super) direction: &'static str,
    /// Base latency: a call without data.
    pub(super) t_b_ns: f64,
    /// For each byte.
    pub(super) t_n_ns: f64,
    /// Standard errors of both, from the distances of the points to the line.
    pub(super) t_b_error_ns: f64,
    pub(super) t_n_error_ns: f64,
    /// Bytes, median of the measured calls, and what the line says.
    pub(super) points: Vec<(u32, f64, f64)>,
}

/// Fits the model to calls with arguments, and to calls with results.
pub(super) fn measure(measuring: &mut Measuring<'_>, cell: &Cell, rounds: u32) -> Result<Vec<Model>, String> {
    let progress = progress("round of the model", 2 * rounds);
    let models =
        [(Procedure::BulkIn, "argument"), (Procedure::BulkOut, "result")].map(|(procedure, direction)| {
            let medians = medians(measuring, &Cell { procedure, ..*cell }, rounds, &progress)?;
            Ok(fit(direction, &medians))
        });
    progress.finish_and_clear();
    models.into_iter().collect()
}

/// The median of all calls of each size. The sizes alternate.
fn medians(
    measuring: &mut Measuring<'_>,
    cell: &Cell,
    rounds: u32,
    progress: &ProgressBar,
) -> Result<Vec<(u32, f64)>, String> {
    let mut durations = SIZES.map(|bytes| (bytes, Vec::new()));
    for _ in 0..rounds {
        for (bytes, durations) in &mut durations {
            let slice = measuring.plain_calls(&Cell { bytes: *bytes, ..*cell })?;
            durations.extend(slice.durations_ns());
        }
        progress.inc(1);
    }
    Ok(durations.map(|(bytes, durations)| (bytes, Quartiles::of(durations).median)).to_vec())
}

/// The line with the least sum of squared distances.
fn fit(direction: &'static str, medians: &[(u32, f64)]) -> Model {
    let count = medians.len() as f64;
    let mean_x = medians.iter().map(|(x, _)| f64::from(*x)).sum::<f64>() / count;
    let mean_y = medians.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = medians.iter().map(|(x, _)| (f64::from(*x) - mean_x).powi(2)).sum();
    let together: f64 = medians.iter().map(|(x, y)| (f64::from(*x) - mean_x) * (y - mean_y)).sum();
    let t_n_ns = together / spread;
    let t_b_ns = mean_y - t_n_ns * mean_x;
    let line = |x: u32| t_b_ns + t_n_ns * f64::from(x);
    let squares: f64 = medians.iter().map(|(x, y)| (y - line(*x)).powi(2)).sum();
    let variance = squares / (count - 2.0);
    Model {
        direction,
        t_b_ns,
        t_n_ns,
        t_b_error_ns: (variance * (1.0 / count + mean_x.powi(2) / spread)).sqrt(),
        t_n_error_ns: (variance / spread).sqrt(),
        points: medians.iter().map(|&(x, y)| (x, y, line(x))).collect(),
    }
}

/// The model in words.
pub(super) fn text(model: &Model) -> String {
    let points = model.points.iter().map(|(bytes, ns, line)| format!(" {bytes}: {ns:.0} ({line:.0})"));
    format!(
        "t_L = t_B + x·T_N for x bytes of {}: t_B = {:.0} ± {:.0} ns, T_N = {:.3} ± {:.3} ns\n  bytes: measured (model) ns:{}\n",
        model.direction,
        model.t_b_ns,
        model.t_b_error_ns,
        model.t_n_ns,
        model.t_n_error_ns,
        points.collect::<String>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_give_that_line_without_error() {
        let model = fit("argument", &SIZES.map(|x| (x, 3000.0 + 0.5 * f64::from(x))));
        assert!((model.t_b_ns - 3000.0).abs() < 1e-6 && (model.t_n_ns - 0.5).abs() < 1e-9);
        assert!(model.t_b_error_ns < 1e-6 && model.t_n_error_ns < 1e-9);
    }

    #[test]
    fn points_beside_the_line_give_an_error() {
        let mut points = SIZES.map(|x| (x, 3000.0 + 0.5 * f64::from(x)));
        points[3].1 += 70.0;
        let model = fit("argument", &points);
        assert!(model.t_b_error_ns > 10.0 && model.t_n_error_ns > 0.01);
    }
}
