//! A table in Markdown whose columns also stand below each other in a terminal.

use std::fmt::Write;

/// Appends the rows, of which the first has the headings. The first column stands at the left, the others at the right.
pub(crate) fn write(out: &mut String, rows: &[Vec<String>]) {
    let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(|column| wide(column).max(2)).collect();
    for (number, row) in rows.iter().enumerate() {
        line(out, row, &widths);
        if number == 0 {
            rule(out, &widths);
        }
    }
    out.push('\n');
}

fn line(out: &mut String, row: &[String], widths: &[usize]) {
    let _ = write!(out, "| {:<1$} |", row[0], widths[0]);
    for (entry, width) in row.iter().zip(widths).skip(1) {
        let _ = write!(out, " {entry:>width$} |");
    }
    out.push('\n');
}

/// The line below the headings. Its colons tell Markdown to put all columns but the first at the right.
fn rule(out: &mut String, widths: &[usize]) {
    let _ = write!(out, "|{}|", "-".repeat(widths[0] + 2));
    for width in &widths[1..] {
        let _ = write!(out, "{}:|", "-".repeat(width + 1));
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_stand_below_each_other() {
        let mut out = String::new();
        let row = |words: [&str; 2]| words.map(String::from).to_vec();
        super::write(&mut out, &[row(["", "µs"]), row(["a peer", "12.5"])]);
        assert_eq!(out, "|        |   µs |\n|--------|-----:|\n| a peer | 12.5 |\n\n");
    }
}
