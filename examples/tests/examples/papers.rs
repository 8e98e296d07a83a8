//! What `docs/papers.md` names is there: each row of the papers once, and the code, tests and commands of each row.

use std::fs;
use std::path::{Path, PathBuf};

/// How many rows each letter has.
const ROWS: [(char, usize); 3] = [('F', 24), ('S', 12), ('P', 16)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The rows of the tables, as their cells.
fn rows(page: &str) -> Vec<Vec<String>> {
    let is_row = |line: &&str| {
        let digits = ROWS.iter().find_map(|(letter, _)| line.strip_prefix("| ")?.strip_prefix(*letter));
        digits.is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
    };
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
    page.lines().filter(is_row).map(cells).collect()
}

/// The parts of a cell between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The text of all source files below a folder.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    let paths = entries.map(|entry| entry.expect("it can be read").path());
    let text = |path: PathBuf| match path.is_dir() {
        true => sources(&path),
        false if path.extension().is_some_and(|extension| extension == "rs") => read(&path),
        false => String::new(),
    };
    paths.map(text).collect()
}

/// Why there is no such command of `stoop`.
fn wrong_command(words: &str) -> Option<String> {
    let commands = ["crates/cli/src", "crates/lab/src"].map(|folder| sources(&root().join(folder))).concat();
    let mut words = words.split(' ');
    let command = words.next().unwrap_or_default();
    let (first, rest) = command.split_at(1);
    let variant = format!("    {}{rest}(", first.to_uppercase());
    let is_known = |word: &str| match word.strip_prefix("--") {
        Some(option) => commands.contains(&format!(" {}: ", option.replace('-', "_"))),
        None => ["", "-1"].iter().any(|end| commands.contains(&format!("name: \"{word}{end}\""))),
    };
    if !commands.contains(&variant) {
        return Some(format!("there is no command {command}"));
    }
    words.find(|word| !is_known(word)).map(|word| format!("{word} is neither a table nor an option"))
}

/// Why there is no such item: `FILE::FUNCTION`, or `CRATE::TYPE`.
fn wrong_item(place: &str, name: &str) -> Option<String> {
    let path = root().join(place);
    if place.contains('/') {
        let is_there = path.is_file() && read(&path).contains(&format!("fn {name}("));
        return (!is_there).then(|| "no such function".into());
    }
    let source = sources(&root().join("crates").join(place).join("src"));
    let is_type =
        ["struct", "enum", "trait"].iter().any(|kind| source.contains(&format!("pub {kind} {name}")));
    (!is_type).then(|| "no such type".into())
}

/// Why the page may not name this.
fn wrong(name: &str) -> Option<String> {
    if let Some(words) = name.strip_prefix("stoop ") {
        return wrong_command(words);
    }
    if let Some(run) = name.strip_prefix("cargo run --release -p stoop-") {
        let (package, example) = run.split_once(" --example ").expect("an example is run");
        let path = root().join("crates").join(package).join("examples").join(format!("{example}.rs"));
        return (!path.is_file()).then(|| format!("{} is not there", path.display()));
    }
    match name.split_once("::") {
        Some((place, item)) => wrong_item(place, item),
        None => (!name.contains('/') || !root().join(name).exists()).then(|| "no such file".into()),
    }
}

#[test]
fn each_row_of_the_papers_is_there_once_and_in_order() {
    let page = read(&root().join("docs/papers.md"));
    let found: Vec<String> = rows(&page).into_iter().map(|mut cells| cells.swap_remove(0)).collect();
    let of = |(letter, count): (char, usize)| (1..=count).map(move |number| format!("{letter}{number}"));
    assert_eq!(found, ROWS.into_iter().flat_map(of).collect::<Vec<_>>());
}

#[test]
fn code_tests_and_commands_of_each_row_exist() {
    let page = read(&root().join("docs/papers.md"));
    let mut mistakes = Vec::new();
    for cells in rows(&page) {
        let [row, _, place, shown_by, _] = &cells[..] else { panic!("five cells: {cells:?}") };
        assert!(quoted(place).count() > 0 && quoted(shown_by).count() > 0, "{row} names nothing");
        for name in quoted(place).chain(quoted(shown_by)) {
            mistakes.extend(wrong(name).map(|why| format!("{row}: {name}: {why}")));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}
