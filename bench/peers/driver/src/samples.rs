//! Samples in a file: written as JSON, and read again, so that the rounds of several runs count together.

use crate::measure::Measured;
use crate::program::Sample;
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;
use std::{fs, io};

/// Writes all samples to `file`: times in nanoseconds, rates in calls per second.
pub(crate) fn write(file: &Path, all: &[Measured]) -> io::Result<()> {
    let cells: Vec<Value> = all
        .iter()
        .map(|measured| {
            let mut cell = name(measured);
            cell["rounds"] = measured.rounds.iter().map(to_json).collect();
            cell
        })
        .collect();
    // A run that is interrupted while it writes leaves the earlier file whole.
    let new = file.with_extension("new");
    fs::write(&new, serde_json::to_string_pretty(&cells).expect("values of JSON"))?;
    fs::rename(new, file)
}

/// Puts the rounds that `file` holds before those of `all`. A file that does not exist holds none.
///
/// # Errors
///
/// The file cannot be read, or it holds other cells than `all`: rounds pair the samples of a peer with those of Stoop.
pub(crate) fn read(file: &Path, all: &mut [Measured]) -> Result<(), Box<dyn Error>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        text => text?,
    };
    let cells: Vec<Value> = serde_json::from_str(&text)?;
    if cells.len() != all.len() {
        return Err("it holds other peers than those measured now: choose the same with --only".into());
    }
    for measured in all {
        let mut cell = name(measured);
        let is_same = |earlier: &&Value| {
            cell["rounds"] = earlier["rounds"].clone();
            **earlier == cell
        };
        let earlier = cells.iter().find(is_same).ok_or_else(|| format!("it has no rounds of {cell}"))?;
        let rounds = earlier["rounds"].as_array().into_iter().flatten().map(from_json);
        measured.rounds = rounds.collect::<Option<Vec<_>>>().ok_or("its rounds cannot be read")?;
    }
    Ok(())
}

fn name(measured: &Measured) -> Value {
    let Measured { name, placement, cell, .. } = measured;
    json!({ "peer": name, "placement": placement.name(), "procedure": cell.procedure,
            "bytes": cell.bytes, "callers": cell.callers })
}

/// `null` where a peer failed.
fn to_json(sample: &Option<Sample>) -> Value {
    let Some(sample) = sample else { return Value::Null };
    json!({ "calls_per_second": sample.rate, "p50_p90_p99_p999_ns": sample.times,
            "processors": sample.processors })
}

/// The sample of a round, if it has one; `None` if it cannot be read.
fn from_json(round: &Value) -> Option<Option<Sample>> {
    if round.is_null() {
        return Some(None);
    }
    let times = round["p50_p90_p99_p999_ns"].as_array()?.iter().map(Value::as_f64);
    let times: Vec<f64> = times.collect::<Option<_>>()?;
    let (rate, processors) = (round["calls_per_second"].as_f64()?, round["processors"].as_f64()?);
    Some(Some(Sample { rate, times: times.try_into().ok()?, processors }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::{CALLERS, Placement};

    fn measured(name: &str, rates: &[f64]) -> Measured {
        let round = |&rate: &f64| {
            (rate > 0.0).then_some(Sample { rate, times: [1.0, 2.0, 3.0, 4.0], processors: 1.5 })
        };
        Measured {
            peer: 0,
            placement: Placement::Two,
            cell: CALLERS[1],
            name: name.into(),
            rounds: rates.iter().map(round).collect(),
        }
    }

    #[test]
    fn rounds_of_an_earlier_run_are_read_and_those_of_other_peers_refused() {
        let file = std::env::temp_dir().join(format!("peers-samples-{}.json", std::process::id()));
        let mut now = [measured("Stoop", &[])];
        read(&file, &mut now).expect("a file that does not exist holds no rounds");
        assert!(now[0].rounds.is_empty());

        write(&file, &[measured("Stoop", &[5.0, 0.0, 7.0])]).expect("the directory can be written");
        read(&file, &mut now).expect("the file holds this cell");
        let rates: Vec<_> = now[0].rounds.iter().map(|round| round.map(|sample| sample.rate)).collect();
        assert_eq!(rates, [Some(5.0), None, Some(7.0)]);
        assert_eq!(now[0].rounds[2].map(|sample| sample.times), Some([1.0, 2.0, 3.0, 4.0]));
        assert_eq!(now[0].rounds[2].map(|sample| sample.processors), Some(1.5));

        assert!(read(&file, &mut [measured("another", &[])]).is_err());
        assert!(read(&file, &mut []).is_err());
        fs::remove_file(file).expect("it was written");
    }
}
