//! Prints the layers of the workspace's crates, or of those that are named, and the circles that break the rule.
//!
//! `cargo run -p stoop-layout --example layers [CRATE…]`

use std::path::Path;
use stoop_layout::{Sources, faults, imports, layers};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no folder of crates")?;
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        for entry in crates.read_dir()? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
    }
    for name in names {
        let (files, imports) = imports(&Sources::read(&crates.join(&name).join("src"))?)?;
        println!("== {name}\n{}", layers(&files, &imports));
        for fault in faults(&files, &imports) {
            println!("{fault}");
        }
    }
    Ok(())
}
