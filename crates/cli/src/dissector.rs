//! `stoop dissector`: prints a dissector for Wireshark and tshark.

use std::io::{self, Write};
use std::process::ExitCode;

/// The dissector: one file for Lua, in the parts of the folder `dissector`.
const DISSECTOR: &str = concat!(
    include_str!("dissector/fields.lua"),
    include_str!("dissector/calls.lua"),
    include_str!("dissector/packet.lua"),
    include_str!("dissector/sealed.lua"),
    include_str!("dissector/tree.lua"),
    include_str!("dissector/records.lua"),
    include_str!("dissector/carriers.lua"),
);

/// Prints it.
pub(crate) fn run() -> Result<ExitCode, String> {
    io::stdout().write_all(DISSECTOR.as_bytes()).map_err(|why| format!("standard output: {why}"))?;
    Ok(ExitCode::SUCCESS)
}
