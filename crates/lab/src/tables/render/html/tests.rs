//! The page is well formed, and refers to no other file.

use super::*;
use crate::tables::calibration::Calibration;
use crate::tables::model::{InRound, Predicted};
use crate::tables::savings::judged;
use serde_json::json;

fn calibration() -> Calibration {
    let speed = json!({"median": 1.0, "low": 0.9, "high": 1.1});
    let calibration = json!({"multiplication_ns": speed, "datagram_ns": speed});
    serde_json::from_value(calibration).expect("these are its fields")
}

fn report() -> Report {
    let figure = Figure::of(vec![4.0, 5.0], 10);
    let lines = vec![
        Line::new("1 & 2 callers").paper(2660.0).today(figure.clone()).remark("<as there>"),
        Line::new("\"none\"").today(figure),
    ];
    let table = Table {
        name: "firefly-1",
        title: "Firefly Table I",
        how: "As there.",
        groups: vec![Group::new("Null()", "µs", lines)],
        why_not: None,
        void: Some("rounds <differ>".into()),
    };
    let missing =
        Table { name: "x", groups: Vec::new(), why_not: Some("no <such> thing".into()), ..table.clone() };
    Report {
        version: "0",
        date: "2026-01-01".into(),
        machine: "a & b".into(),
        network: "veth".into(),
        processors: "two".into(),
        rounds: 2,
        before: calibration(),
        after: vec![calibration()],
        void: Some("noisy".into()),
        tables: vec![table, missing],
    }
}

/// The names of open tags are closed in the reverse order.
fn assert_well_formed(page: &str) {
    let mut open = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "{text}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().expect("a tag has a name");
        match tag {
            _ if tag.starts_with('!') || tag.ends_with('/') => {}
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "in {tag}"),
            _ => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn page_is_well_formed_also_with_signs_that_mean_something() {
    let page = page(&report());
    assert_well_formed(&page);
    assert!(page.contains("1 &amp; 2 callers") && page.contains("&lt;as there&gt;"), "{page}");
    assert!(page.contains("Void") && page.contains("Not reproduced here: no &lt;such&gt; thing"), "{page}");
}

#[test]
fn savings_show_prediction_difference_and_the_names_of_those_that_were_off() {
    let mut report = report();
    let round = InRound { value: 2.0, fixed_s: 1.0, measured_s: Some(2.0) };
    let line = Line::new("faster").paper(440.0).predicted(Predicted::once(round, "the wire < 1"));
    let line = line.today(Figure::of(vec![4.0, 5.0], 10));
    report.tables[0].groups = vec![judged(Group::savings("saved", "µs", vec![line]))];
    let page = page(&report);
    assert_well_formed(&page);
    for part in ["<th>predicted</th>", "<th>off</th>", "<td>-56 %</td>", "<p>faster: the wire &lt; 1</p>"] {
        assert!(page.contains(part), "{part} is missing: {page}");
    }
}

#[test]
fn page_needs_nothing_from_elsewhere() {
    let page = page(&report());
    for word in ["http:", "https:", "src=", "<script", "<link", "@import", "url("] {
        assert!(!page.contains(word), "{word} is in the page");
    }
    let targets = page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default());
    for target in targets {
        let id = target.strip_prefix('#').expect("links stay on the page");
        assert!(page.contains(&format!("id=\"{id}\"")), "{target} leads nowhere");
    }
}
