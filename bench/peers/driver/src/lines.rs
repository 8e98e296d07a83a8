//! The lines that a user writes for the Test interface: interface, server and client, without comments and empty lines.

use crate::peers::Peer;
use std::path::Path;

/// Counts the lines of a peer's program, without the code that all programs share.
pub(crate) fn of(peer: &Peer) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name(peer.program);
    let mut lines = count(&folder) + count(&folder.join("src"));
    if peer.program == "tonic" {
        lines += count_file(&folder.with_file_name("grpc").join("test.proto"));
    }
    lines
}

fn count(folder: &Path) -> usize {
    let Ok(files) = std::fs::read_dir(folder) else { return 0 };
    files.flatten().map(|file| count_file(&file.path())).sum()
}

fn count_file(file: &Path) -> usize {
    let source = ["rs", "proto", "capnp", "thrift", "x", "c", "cc"];
    // Measures Null() only, in another way.
    let other = file.file_name().is_some_and(|name| name == "null.c");
    if other || !file.extension().is_some_and(|kind| source.iter().any(|known| kind == *known)) {
        return 0;
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_comment(line)).count()
}

fn is_comment(line: &str) -> bool {
    ["//", "/*", "#!", "# "].iter().any(|begin| line.starts_with(begin))
}
