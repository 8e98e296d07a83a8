//! The machine of the figures, and the processors that this process may use.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io;

/// The processor, how many of them this process may use, and the kernel, in a line.
pub(crate) fn describe() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = rustix::system::uname();
    format!(
        "{}, {processors} processor{}, {} {} {}",
        processor_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        if processors == 1 { "" } else { "s" },
        kernel.sysname().to_string_lossy(),
        kernel.release().to_string_lossy(),
        kernel.machine().to_string_lossy(),
    )
}

/// Lets this process, and those that it starts, open as many files as the administrator lets it: a client may need several.
pub(crate) fn allow_many_files() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?)
}

/// The model as the kernel has it; not every architecture tells.
fn processor_model(cpuinfo: &str) -> &str {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "model name")
        .map_or("a processor of unknown model", |(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_among_other_lines() {
        assert_eq!(
            processor_model("processor\t: 0\nmodel name\t: Z80 @ 4 MHz\nflags\t: none\n"),
            "Z80 @ 4 MHz"
        );
        assert_eq!(processor_model("processor\t: 0\n"), "a processor of unknown model");
    }
}
