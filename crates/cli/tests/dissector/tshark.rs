//! Runs of tshark with the dissector.

use crate::expected::Fields;
use crate::pcap::{self, Frame};
use crate::sandbox::{self, Process, wait_until};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

/// Between the values of a field in one frame: not in any text of a test.
const BETWEEN: char = '\u{1f}';
/// Ports to which only the datagrams go that show that the capture has begun, and that it is complete.
const BEGIN_PORT: u16 = 9;
const END_PORT: u16 = 13;
/// Between two looks at a capture that is being written.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether tshark is installed; if not, says that `test` is skipped.
pub(crate) fn is_installed(test: &str) -> bool {
    let is_installed = Command::new("tshark").arg("--version").output().is_ok();
    if !is_installed {
        println!("SKIPPED: {test}: tshark is not installed");
    }
    is_installed
}

/// A file of this test.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", sandbox::name()))
}

/// The file with the dissector, as the command prints it.
fn dissector() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_stoop")).arg("dissector").output().expect("stoop starts");
        assert!(output.status.success(), "{output:?}");
        let path = file("stoop.lua");
        std::fs::write(&path, output.stdout).expect("the folder of tests can be written");
        path
    })
}

/// Runs tshark with the dissector, and without the user's own configuration.
pub(crate) fn run(arguments: &[&str]) -> String {
    let mut command = Command::new("tshark");
    command.arg("-X").arg(format!("lua_script:{}", dissector().display()));
    command.env("WIRESHARK_CONFIG_DIR", env!("CARGO_TARGET_TMPDIR")).args(arguments);
    let Output { status, stdout, stderr } = command.output().expect("tshark starts");
    let error = String::from_utf8_lossy(&stderr);
    assert!(status.success() && !error.contains("Lua"), "{arguments:?}: {error}");
    String::from_utf8_lossy(&stdout).into_owned()
}

/// The values of fields in each frame of a capture, frames without any left out, by the number of the frame.
pub(crate) fn fields(capture: &Path, names: &[&str], options: &[&str]) -> BTreeMap<usize, Fields> {
    let capture = capture.display().to_string();
    let aggregator = format!("aggregator={BETWEEN}");
    let mut arguments = vec!["-r", &capture, "-2", "-T", "fields", "-E", "occurrence=a", "-E", &aggregator];
    arguments.extend_from_slice(options);
    arguments.extend(["frame.number"].iter().chain(names).flat_map(|name| ["-e", name]));
    let text = run(&arguments);
    let frame = |line: &str| {
        let mut columns = line.split('\t');
        let number = columns.next()?.parse().ok()?;
        let values = |column: &str| column.split(BETWEEN).map(plain).collect::<Vec<_>>();
        let of_field = names.iter().zip(columns).filter(|(_, column)| !column.is_empty());
        let fields: Fields = of_field.map(|(name, column)| ((*name).to_owned(), values(column))).collect();
        (!fields.is_empty()).then_some((number, fields))
    };
    text.lines().filter_map(frame).collect()
}

/// Later versions write truth values as words.
fn plain(value: &str) -> String {
    match value {
        "True" => "1",
        "False" => "0",
        other => other,
    }
    .to_owned()
}

/// The frames that a filter selects, a line each.
pub(crate) fn selected(capture: &Path, filter: &str, options: &[&str]) -> Vec<String> {
    let capture = capture.display().to_string();
    let text = run(&[&["-r", &capture, "-2", "-Y", filter][..], options].concat());
    text.lines().map(str::to_owned).collect()
}

/// Captures what `traffic` sends and receives at interfaces, into `file`, in the order of time. Datagrams to `address` pass them all.
pub(crate) fn capture(interfaces: &[&str], address: &str, file: &Path, traffic: impl FnOnce()) {
    let files: Vec<PathBuf> = interfaces.iter().map(|interface| file.with_extension(interface)).collect();
    let start = |(interface, file): (&&str, &PathBuf)| {
        let _ = std::fs::remove_file(file);
        let mut command = Command::new("tshark");
        Process::spawn(command.args(["-q", "-F", "pcap", "-i", interface, "-w"]).arg(file))
    };
    let processes: Vec<Process> = interfaces.iter().zip(&files).map(start).collect();
    let all_have = |port| files.iter().all(|file| has_captured(file, address, port));
    wait_until("tshark captures", || all_have(BEGIN_PORT));
    traffic();
    // It is captured after all the traffic.
    wait_until("tshark has written all", || all_have(END_PORT));
    drop(processes);
    let mut frames: Vec<_> = files.iter().flat_map(|file| pcap::read(file)).collect();
    frames.sort_by_key(|frame| frame.ns);
    pcap::write(file, &frames);
}

/// Sends a datagram to a port, and says whether the capture has one a little later.
fn has_captured(file: &Path, address: &str, port: u16) -> bool {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("there is a free port");
    socket.set_read_timeout(Some(LOOK_EVERY)).expect("it is no zero");
    // No program listens at the port, so this only waits.
    let _ = socket.send_to(b"captured?", (address, port));
    let _ = socket.recv(&mut [0]);
    let is_it = |frame: &Frame| pcap::data_of(&frame.bytes, 17).is_some_and(|(_, to, _)| to == port);
    pcap::read_begun(file).iter().any(is_it)
}
