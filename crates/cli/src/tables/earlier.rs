//! Compares a run with an earlier one: whether the machine gives the same figures again.

use super::calibration::AGREE_WITHIN;
use super::report::Report;
use crate::samples::Quartiles;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The figures of an earlier run by table, group and label.
pub(crate) type Earlier = BTreeMap<String, f64>;

/// Reads a file that `--json` has written.
pub(crate) fn read(file: &Path) -> Result<Earlier, String> {
    let in_words = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = fs::read_to_string(file).map_err(|error| in_words(&error))?;
    let run: Value = serde_json::from_str(&text).map_err(|error| in_words(&error))?;
    Ok(figures(&run))
}

fn figures(run: &Value) -> Earlier {
    let mut figures = Earlier::new();
    for table in list(&run["tables"]) {
        for group in list(&table["groups"]) {
            for line in list(&group["lines"]) {
                let place = [&table["name"], &group["title"], &line["label"]];
                let place = place.map(|word| word.as_str().unwrap_or_default()).join("\n");
                figures.extend(line["today"]["median"].as_f64().map(|median| (place, median)));
            }
        }
    }
    figures
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The ratios of today's figures to the earlier ones, table by table, and whether the runs agree.
pub(crate) fn compare(earlier: &Earlier, report: &Report) -> String {
    let mut text = String::from("\nBeside the earlier run: median and quartiles of the ratios of figures\n");
    let mut all = Vec::new();
    for table in &report.tables {
        let lines = table.groups.iter().flat_map(|group| group.lines.iter().map(move |line| (group, line)));
        let ratios = lines.filter_map(|(group, line)| {
            let place = [table.name, &group.title, &line.label].join("\n");
            let (before, now) = (*earlier.get(&place)?, line.today.as_ref()?.median);
            (before > 0.0 && now > 0.0).then_some(now / before)
        });
        let ratios: Vec<f64> = ratios.collect();
        if !ratios.is_empty() {
            let _ = writeln!(text, "  {:<16} {}", table.name, in_words(&ratios));
            all.extend(ratios);
        }
    }
    let _ = writeln!(text, "  {:<16} {}", "all", in_words(&all));
    text + &verdict(&all)
}

fn in_words(ratios: &[f64]) -> String {
    let Quartiles { low, median, high } = Quartiles::of(ratios.to_vec());
    format!("{median:.3} ({low:.3}–{high:.3}) of {} figures", ratios.len())
}

fn verdict(ratios: &[f64]) -> String {
    let off = Quartiles::of(ratios.to_vec()).median - 1.0;
    match ratios.is_empty() {
        true => "No figure is in both runs.".into(),
        false if off.abs() > AGREE_WITHIN => {
            format!(
                "VOID: the runs differ by {:+.1} %, more than {:.0} %.",
                100.0 * off,
                100.0 * AGREE_WITHIN
            )
        }
        false => format!("The runs agree within {:.0} %.", 100.0 * AGREE_WITHIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_found_by_their_place() {
        let run = json!({"tables": [{"name": "t", "groups": [{"title": "g", "lines": [
            {"label": "a", "today": {"median": 2.5}}, {"label": "b", "today": null}]}]}]});
        assert_eq!(figures(&run), Earlier::from([("t\ng\na".into(), 2.5)]));
    }

    #[test]
    fn runs_that_differ_are_void() {
        assert!(verdict(&[1.08, 1.07, 1.09]).starts_with("VOID"));
        assert!(verdict(&[1.02, 0.97, 1.01, 1.4]).contains("agree"));
    }
}
