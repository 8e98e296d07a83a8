//! Compares a run with an earlier one: whether the machine gives the same figures again.

use super::calibration::AGREE_WITHIN;
use super::model::{Group, Line, Table};
use super::report::Report;
use crate::samples::Quartiles;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// An earlier run.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Earlier {
    /// Its figures by table, group and label. Lines of a group may share a label: then they are in the order of the table.
    figures: BTreeMap<String, Vec<Option<f64>>>,
    /// Names of its tables that were void; all of them if the run was.
    void: BTreeSet<String>,
}

/// Reads a file that `--json` has written.
pub(crate) fn read(file: &Path) -> Result<Earlier, String> {
    let in_words = |error: &dyn std::fmt::Display| {
        format!(
            "--against {}: {error}. Name a file that `stoop tables --json FILE` has written.",
            file.display()
        )
    };
    let text = fs::read_to_string(file).map_err(|error| in_words(&error))?;
    let run: Value = serde_json::from_str(&text).map_err(|error| in_words(&error))?;
    let earlier = earlier(&run);
    if earlier.figures.values().flatten().flatten().next().is_none() {
        Err(in_words(&"it has no figures of tables"))
    } else {
        Ok(earlier)
    }
}

fn earlier(run: &Value) -> Earlier {
    let mut earlier = Earlier::default();
    for table in list(&run["tables"]) {
        if run["void"].is_string() || table["void"].is_string() {
            earlier.void.extend(table["name"].as_str().map(str::to_owned));
        }
        for group in list(&table["groups"]) {
            for line in list(&group["lines"]) {
                let place = [&table["name"], &group["title"], &line["label"]];
                let place = place.map(|word| word.as_str().unwrap_or_default()).join("\n");
                earlier.figures.entry(place).or_default().push(line["today"]["median"].as_f64());
            }
        }
    }
    earlier
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The ratios of today's figures to the earlier ones, table by table, and whether the runs agree.
pub(crate) fn compare(earlier: &Earlier, report: &Report) -> String {
    let mut text = String::from("\nBeside the earlier run: median and quartiles of the ratios of figures\n");
    let (mut all, mut differing) = (Vec::new(), Vec::new());
    for table in &report.tables {
        let ratios = ratios(earlier, table);
        if ratios.is_empty() {
            continue;
        }
        let is_void = report.void.is_some() || table.void.is_some() || earlier.void.contains(table.name);
        let verdict = match (agree(&ratios), is_void) {
            (true, _) => "",
            (false, true) => "; void",
            (false, false) => {
                differing.push(table.name);
                "; DIFFERS"
            }
        };
        let _ = writeln!(text, "  {:<16} {}{verdict}", table.name, in_words(&ratios));
        all.extend(ratios);
    }
    let _ = writeln!(text, "  {:<16} {}", "all", in_words(&all));
    text + &verdict(&all, &differing)
}

fn ratios(earlier: &Earlier, table: &Table) -> Vec<f64> {
    // A saving near 0 may be any multiple of that of another run.
    let times = table.groups.iter().filter(|group| !group.savings);
    let lines = times.flat_map(|group| group.lines.iter().map(move |line| (group, line)));
    let mut seen = BTreeMap::<String, usize>::new();
    let ratio = |(group, line): (&Group, &Line)| {
        let place = [table.name, &group.title, &line.label].join("\n");
        let nth = seen.entry(place.clone()).or_default();
        *nth += 1;
        let before = (*earlier.figures.get(&place)?.get(*nth - 1)?)?;
        let now = line.today.as_ref()?.median;
        (before > 0.0 && now > 0.0).then_some(now / before)
    };
    lines.filter_map(ratio).collect()
}

fn agree(ratios: &[f64]) -> bool {
    (Quartiles::of(ratios.to_vec()).median - 1.0).abs() <= AGREE_WITHIN
}

fn in_words(ratios: &[f64]) -> String {
    let Quartiles { low, median, high } = Quartiles::of(ratios.to_vec());
    format!("{median:.3} ({low:.3}–{high:.3}) of {} figures", ratios.len())
}

/// `differing` are the tables that differ though neither run has called them void.
fn verdict(ratios: &[f64], differing: &[&str]) -> String {
    let off = 100.0 * (Quartiles::of(ratios.to_vec()).median - 1.0);
    let within = 100.0 * AGREE_WITHIN;
    match (ratios.is_empty(), agree(ratios), differing) {
        (true, ..) => "No figure is in both runs: choose tables that the earlier run has measured.".into(),
        (_, false, _) => format!("VOID: the runs differ by {off:+.1} %, more than {within:.0} %."),
        (_, true, []) => format!("The runs agree within {within:.0} %; tables that do not were void."),
        (_, true, names) => {
            format!("The runs agree within {within:.0} % as a whole, but not in {}: void.", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::model::Figure;
    use serde_json::json;

    #[test]
    fn figures_are_found_by_their_place() {
        let run = json!({"void": null, "tables": [{"name": "t", "void": "rounds differ", "groups": [{"title": "g", "lines": [
            {"label": "a", "today": {"median": 2.5}}, {"label": "b", "today": null},
            {"label": "a", "today": {"median": 3.5}}]}]}]});
        let earlier = earlier(&run);
        assert_eq!(earlier.figures["t\ng\na"], [Some(2.5), Some(3.5)]);
        assert_eq!(earlier.void, BTreeSet::from(["t".into()]));
        let line = |label: &str, today: f64| Line::new(label).today(Figure::of(vec![today], 1));
        let groups = vec![Group::new("g", "µs", vec![line("a", 5.0), line("b", 1.0), line("a", 3.5)])];
        let table = Table { name: "t", title: "", how: "", groups, why_not: None, void: None };
        assert_eq!(ratios(&earlier, &table), [2.0, 1.0]);
    }

    #[test]
    fn runs_that_differ_are_void() {
        assert!(verdict(&[1.08, 1.07, 1.09], &[]).starts_with("VOID"));
        assert!(verdict(&[1.02, 0.97, 1.01, 1.4], &[]).contains("agree"));
        let in_part = verdict(&[1.02, 0.97, 1.01, 1.4], &["t"]);
        assert!(in_part.contains("not in t"), "{in_part}");
    }
}
