//! The time line of a graph that has ended, as text and as SVG: which node ran where and when.

use super::graph::Graph;
use super::record::{Firing, Record};
use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

/// The columns of the text, and the width of the picture.
const COLUMNS: usize = 72;
const WIDTH: f64 = 1100.0;

/// The height of a row of the picture.
const ROW: f64 = 16.0;

/// More firings are drawn as one bar for each stretch of time.
const DRAWN: usize = 4000;

/// How busy each server was over time, and the sums.
pub fn text(graph: &Graph, record: &Record, servers: &[String]) -> String {
    let mut out = String::new();
    let (path_time, path) = record.critical_path();
    let (span, work) = (record.span(), record.work());
    let count = record.firings.len();
    let _ = writeln!(out, "{count} nodes fired in {span:.2?}, {:.0} a second", count as f64 / seconds(span));
    if record.repeated > 0 {
        let _ = writeln!(out, "{} were given to a server once more", record.repeated);
    }
    let _ = writeln!(
        out,
        "parallelism {:.1}; the graph allows {:.1} (work {work:.2?}, critical path {path_time:.2?} of {} nodes)",
        work.as_secs_f64() / seconds(span),
        work.as_secs_f64() / seconds(path_time),
        path.len()
    );
    for (number, uri) in servers.iter().enumerate() {
        let own: Vec<&Firing> = record.firings.iter().filter(|firing| firing.server == number).collect();
        let _ = writeln!(out, "{:>7} {} {uri}", own.len(), busy(&own, span));
    }
    let names =
        path.iter().map(|firing| format!("{} {:.2?}", graph.nodes[firing.node as usize], firing.time()));
    let shown: Vec<String> = names.take(12).collect();
    let more = if path.len() > shown.len() { ", …" } else { "" };
    let _ = writeln!(out, "critical path: {}{more}", shown.join(", "));
    out
}

/// How many nodes a server interpreted in each stretch of time: nothing, one to nine, or more.
fn busy(firings: &[&Firing], span: Duration) -> String {
    let mut counts = [0_usize; COLUMNS];
    let column = |at: Duration| ((seconds(at) / seconds(span) * COLUMNS as f64) as usize).min(COLUMNS - 1);
    for firing in firings {
        counts[column(firing.began)..=column(firing.ended)].iter_mut().for_each(|count| *count += 1);
    }
    let sign = |count: &usize| match count {
        0 => '·',
        1..=9 => char::from_digit(*count as u32, 10).unwrap_or('+'),
        _ => '+',
    };
    counts.iter().map(sign).collect()
}

/// Never zero, so that it divides.
fn seconds(time: Duration) -> f64 {
    time.as_secs_f64().max(1e-9)
}

/// The time line as a picture that needs no other file: a row for each node that a server interprets at the same time, the critical
/// path in another colour.
pub fn svg(graph: &Graph, record: &Record, servers: &[String]) -> String {
    let critical: HashSet<(u32, Duration)> =
        record.critical_path().1.iter().map(|firing| (firing.node, firing.began)).collect();
    let span = record.firings.iter().map(|firing| firing.ended).max().unwrap_or_default();
    let (mut bars, mut top) = (String::new(), 24.0);
    for (number, uri) in servers.iter().enumerate() {
        let own: Vec<&Firing> = record.firings.iter().filter(|firing| firing.server == number).collect();
        let _ =
            writeln!(bars, r#"<text x="4" y="{}">{} — {} nodes</text>"#, top + 12.0, escaped(uri), own.len());
        top += ROW + 4.0;
        let rows = rows(&own);
        for (firing, row) in own.iter().zip(&rows).take(DRAWN) {
            let (x, width) = (
                seconds(firing.began) / seconds(span) * WIDTH,
                seconds(firing.time()) / seconds(span) * WIDTH,
            );
            let class = if critical.contains(&(firing.node, firing.began)) { "critical" } else { "node" };
            let name = escaped(&graph.nodes[firing.node as usize]);
            let _ = writeln!(
                bars,
                r#"<rect class="{class}" x="{x:.2}" y="{:.1}" width="{:.2}" height="{}"><title>{name}: {:.2?}</title></rect>"#,
                top + *row as f64 * ROW,
                width.max(0.5),
                ROW - 3.0,
                firing.time()
            );
        }
        top += (rows.iter().max().map_or(0, |row| row + 1)) as f64 * ROW + 8.0;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <style>.node{{fill:#4a7fb5}}.critical{{fill:#c8553d}}</style>\n\
         <text x=\"4\" y=\"14\">{} nodes in {span:.2?}; the critical path is red</text>\n{bars}</svg>\n",
        record.firings.len()
    )
}

/// For each firing the first row that is free when it begins.
fn rows(firings: &[&Firing]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..firings.len()).collect();
    order.sort_by_key(|&number| firings[number].began);
    let (mut rows, mut free) = (vec![0; firings.len()], Vec::<Duration>::new());
    for number in order {
        let firing = firings[number];
        let row = free.iter().position(|at| *at <= firing.began).unwrap_or(free.len());
        if row == free.len() {
            free.push(firing.ended);
        }
        free[row] = firing.ended;
        rows[number] = row;
    }
    rows
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firing(began: u64, ended: u64) -> Firing {
        Firing {
            node: 0,
            server: 0,
            began: Duration::from_millis(began),
            ended: Duration::from_millis(ended),
        }
    }

    #[test]
    fn firings_at_the_same_time_have_rows_of_their_own() {
        let firings = [firing(0, 10), firing(5, 15), firing(10, 20)];
        assert_eq!(rows(&firings.each_ref()), [0, 1, 0]);
    }

    #[test]
    fn a_column_counts_the_nodes_of_its_stretch() {
        let all = [firing(0, 100), firing(0, 40)];
        let line = busy(&all.each_ref(), Duration::from_millis(100));
        assert!(line.starts_with("22") && line.ends_with("11"), "{line}");
        assert_eq!(line.chars().count(), COLUMNS);
    }

    #[test]
    fn both_time_lines_name_the_servers_and_the_critical_path() {
        let graph = Graph::parse("place a 1\nnode <n> x : a -> b").expect("it is well formed");
        let mut record = Record::new(&graph);
        record.fired(&graph, firing(0, 10));
        let servers = ["shm:olympus".to_owned()];
        let text = text(&graph, &record, &servers);
        assert!(text.contains("1 shm:olympus") && text.contains("critical path: <n> 10.00ms"), "{text}");
        let svg = svg(&graph, &record, &servers);
        assert!(svg.contains("shm:olympus — 1 nodes") && svg.contains("class=\"critical\""), "{svg}");
        assert!(svg.contains("<title>&lt;n&gt;: 10.00ms</title>"), "{svg}");
    }
}
