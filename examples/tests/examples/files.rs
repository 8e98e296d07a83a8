//! Runs the file service as its users do: a server process and client processes.

#[allow(dead_code, reason = "other tests use the rest of it")]
use crate::programs::example;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use stoop::Error;
use stoop_examples::files::part::is_part;
use stoop_examples::files::{FileError, FilesClient, PIECE};

/// A directory of one test, removed when this is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("stoop-files-{test}-{}", std::process::id()));
        for name in ["offered", "here"] {
            fs::create_dir_all(path.join(name)).expect("a folder can be made");
        }
        Self(path)
    }

    /// What the server offers.
    fn offered(&self, name: &str) -> PathBuf {
        self.0.join("offered").join(name)
    }

    /// What is the client's.
    fn here(&self, name: &str) -> PathBuf {
        self.0.join("here").join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the folder can be removed");
    }
}

/// A running server.
struct FileServer {
    process: Child,
    uri: String,
    /// A line for each piece.
    log: Lines<BufReader<ChildStderr>>,
}

impl FileServer {
    fn start(folder: &Folder, options: &[&str], address: &str) -> Self {
        let mut command = example("files-server");
        command.args(options).arg("--verbose").arg(folder.offered("")).arg(address);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the example starts");
        let mut first = String::new();
        BufReader::new(process.stdout.as_mut().expect("piped"))
            .read_line(&mut first)
            .expect("it prints text");
        let log = BufReader::new(process.stderr.take().expect("piped")).lines();
        let uri =
            first.trim_end().strip_prefix("listening at ").unwrap_or_else(|| panic!("it says {first:?}"));
        Self { uri: uri.to_owned(), process, log }
    }

    /// Waits until `count` more pieces have moved, and returns where they begin.
    fn await_pieces(&mut self, count: usize) -> Vec<usize> {
        self.log.by_ref().take(count).map(|line| place(&line.expect("it prints text"))).collect()
    }

    /// Stops the server, and returns where the pieces begin that have not been awaited.
    fn stop(&mut self) -> Vec<usize> {
        self.process.kill().expect("our own process can be stopped");
        self.process.wait().expect("and waited for");
        self.log.by_ref().map(|line| place(&line.expect("it prints text"))).collect()
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Where a piece begins, by its line of the log: verb, path, place and length.
fn place(line: &str) -> usize {
    line.rsplit(' ').nth(1).and_then(|at| at.parse().ok()).unwrap_or_else(|| panic!("the log says {line:?}"))
}

fn client(uri: &str, arguments: &[&str]) -> Command {
    let mut command = example("files-client");
    command.arg(uri).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(uri: &str, arguments: &[&str]) -> Output {
    client(uri, arguments).output().expect("the example starts")
}

/// What the client prints when all goes well.
fn said(uri: &str, arguments: &[&str]) -> String {
    let output = run(uri, arguments);
    assert!(output.status.success(), "{uri} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}

/// What the client prints when something goes wrong.
fn error(uri: &str, arguments: &[&str]) -> String {
    let output = run(uri, arguments);
    assert_eq!(output.status.code(), Some(1), "{uri} {arguments:?}");
    String::from_utf8(output.stderr).expect("it prints text")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("our paths are text")
}

/// Bytes that differ from piece to piece.
fn contents(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8 ^ (at >> 20) as u8).collect()
}

/// All files below a directory and their bytes.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(next) = directories.pop() {
        for entry in fs::read_dir(next).expect("it can be read") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(directory).expect("below it").to_owned();
                files.insert(name, fs::read(path).expect("it can be read"));
            }
        }
    }
    files
}

#[test]
fn a_tree_goes_there_and_back_over_every_transport() {
    let folder = Folder::new("tree");
    fs::create_dir_all(folder.here("tree/a/b")).expect("a folder can be made");
    fs::write(folder.here("tree/long"), contents(3 * PIECE + 17)).expect("it can be written");
    fs::write(folder.here("tree/a/piece"), contents(PIECE)).expect("it can be written");
    fs::write(folder.here("tree/a/empty"), b"").expect("it can be written");
    for number in 0..300 {
        fs::write(folder.here(&format!("tree/a/b/{number}")), contents(number)).expect("it can be written");
    }
    fs::set_permissions(folder.here("tree/long"), fs::Permissions::from_mode(0o750)).expect("it is ours");
    let sent = tree(&folder.here("tree"));

    let unique = format!("stoop-files-{}", std::process::id());
    for address in
        ["udp://127.0.0.1:0", "tcp://127.0.0.1:0", &format!("unix:@{unique}"), &format!("shm:{unique}")]
    {
        let server = FileServer::start(&folder, &[], address);
        said(&server.uri, &["put", "-r", text(&folder.here("tree")), ""]);
        assert_eq!(tree(&folder.offered("tree")), sent, "{address}");
        said(&server.uri, &["get", "-r", "tree", text(&folder.here("back"))]);
        assert_eq!(tree(&folder.here("back")), sent, "{address}");
        let mode = fs::metadata(folder.here("back/long")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o750, "{address}");

        let again = said(&server.uri, &["get", "-r", "tree", text(&folder.here("back"))]);
        assert!(again.starts_with("0 files"), "a copy that is there is not sent again: {again}");
        assert_eq!(said(&server.uri, &["ls", "-r", "tree/a"]).lines().count(), 303, "{address}");
        said(&server.uri, &["rm", "-r", "tree"]);
        assert_eq!(said(&server.uri, &["ls"]), "", "{address}");
        fs::remove_dir_all(folder.here("back")).expect("it is ours");
    }
}

#[test]
fn no_path_leaves_the_directory() {
    let folder = Folder::new("outside");
    fs::write(folder.here("secret"), "secret").expect("it can be written");
    std::os::unix::fs::symlink(folder.here(""), folder.offered("link")).expect("a link can be made");
    std::os::unix::fs::symlink("inside", folder.offered("within")).expect("a link can be made");
    fs::write(folder.offered("inside"), "inside").expect("it can be written");
    let server = FileServer::start(&folder, &[], "udp://127.0.0.1:0");
    let to = text(&folder.0).to_owned() + "/copy";

    let absolute = text(&folder.here("secret")).to_owned();
    for path in ["../here/secret", "link/secret", "link", "a/../../here/secret", &absolute] {
        let why = error(&server.uri, &["get", path, &to]);
        assert!(why.contains("leads out") || why.contains("no such file"), "{path}: {why}");
        assert!(!Path::new(&to).exists(), "{path}");
    }
    for path in ["../here/new", "link/new", &(absolute.clone() + "2")] {
        let why = error(&server.uri, &["put", text(&folder.here("secret")), path]);
        assert!(why.contains("leads out"), "{path}: {why}");
    }
    for path in ["../here/secret", "link/secret", &absolute] {
        assert!(error(&server.uri, &["rm", path]).contains("leads out"), "{path}");
    }
    for path in ["..", ".", "/"] {
        assert!(error(&server.uri, &["rm", path]).contains("does not end in a name"), "{path}");
    }
    assert_eq!(tree(&folder.here("")).len(), 1);
    said(&server.uri, &["get", "within", &to]);
    assert_eq!(fs::read(&to).expect("it has arrived"), b"inside");
}

/// The places of the pieces that have arrived in the only part of a directory.
fn pieces_there(directory: &Path, whole: &[u8]) -> Vec<usize> {
    let mut entries =
        fs::read_dir(directory).expect("it can be read").map(|entry| entry.expect("it can be read"));
    let Some(part) = entries.find(|entry| is_part(entry.file_name().to_str().unwrap_or_default())) else {
        return vec![];
    };
    let part = fs::read(part.path()).expect("it can be read");
    let places = (0..part.len()).step_by(PIECE);
    places
        .filter(|&at| part[at..][..PIECE.min(part.len() - at)] == whole[at..][..PIECE.min(part.len() - at)])
        .collect()
}

/// How often clients are killed; by hand, fifty times: `STOOP_KILLS=50 cargo test -p stoop-examples --test examples killed`.
fn kills() -> usize {
    std::env::var("STOOP_KILLS").map_or(4, |text| text.parse().expect("a number"))
}

/// Kills clients after they have moved a few pieces, and lets the last one end. `held` is where the receiver's part is.
fn kill_and_resume(folder: &Folder, arguments: &[&str], held: &Path, whole: &[u8]) {
    // A fixed address, and a log that ends, for each client.
    let mut there = vec![];
    for kill in 0..=kills() {
        let mut server = FileServer::start(folder, &[], "udp://127.0.0.1:0");
        let mut moved = vec![];
        if kill < kills() {
            let mut process = client(&server.uri, arguments).spawn().expect("the example starts");
            moved.extend(server.await_pieces(1 + kill % 3));
            process.kill().expect("our own process can be stopped");
            process.wait().expect("and waited for");
        } else {
            said(&server.uri, arguments);
        }
        moved.extend(server.stop());
        for at in &moved {
            assert!(!there.contains(at), "the piece at {at} was there, and was sent again after kill {kill}");
        }
        there = pieces_there(held, whole);
    }
}

#[test]
fn a_get_whose_client_was_killed_receives_only_what_is_missing() {
    let folder = Folder::new("killed-get");
    let whole = contents((kills() + 1) * 8 * PIECE + 5);
    fs::write(folder.offered("long"), &whole).expect("it can be written");
    kill_and_resume(&folder, &["get", "long", text(&folder.here(""))], &folder.here(""), &whole);
    assert!(fs::read(folder.here("long")).expect("it has arrived") == whole);
    assert_eq!(tree(&folder.here("")).len(), 1, "no part is left");
}

#[test]
fn a_put_whose_client_was_killed_sends_only_what_is_missing() {
    let folder = Folder::new("killed-put");
    let whole = contents((kills() + 1) * 8 * PIECE + 5);
    fs::write(folder.here("long"), &whole).expect("it can be written");
    kill_and_resume(&folder, &["put", text(&folder.here("long")), ""], &folder.offered(""), &whole);
    assert!(fs::read(folder.offered("long")).expect("it has arrived") == whole);
    assert_eq!(tree(&folder.offered("")).len(), 1, "no part is left");
}

#[test]
fn a_transfer_survives_the_restart_of_its_server() {
    let folder = Folder::new("restart");
    let whole = contents(40 * PIECE);
    fs::write(folder.here("long"), &whole).expect("it can be written");
    let socket = format!("unix:{}", folder.0.join("socket").display());
    for uri in [&*socket, "udp://127.0.0.1:0"] {
        let (copy, back) = (folder.offered("copy"), folder.here("back"));
        for arguments in [["put", text(&folder.here("long")), "copy"], ["get", "copy", text(&back)]] {
            let mut server = FileServer::start(&folder, &[], uri);
            let process = client(&server.uri, &arguments).spawn().expect("the example starts");
            server.await_pieces(3);
            server.stop();
            let _next = FileServer::start(&folder, &[], &server.uri);
            let output = process.wait_with_output().expect("it ends");
            assert!(
                output.status.success(),
                "{uri}, {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        for file in [copy, back] {
            assert!(fs::read(&file).expect("it has arrived") == whole);
            fs::remove_file(file).expect("it can be removed");
        }
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_nothing_under_the_final_name() {
    let folder = Folder::new("full");
    fs::write(folder.here("long"), contents(3 * PIECE)).expect("it can be written");
    fs::create_dir(folder.here("short")).expect("a folder can be made");
    for number in 0..40 {
        fs::write(folder.here(&format!("short/{number}")), contents(60_000)).expect("it can be written");
    }
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        "mount -t tmpfs -o size=2m none \"$1\" && exec \"$0\" \"$1\" udp://127.0.0.1:0",
    ]);
    command.arg(example("files-server").get_program()).arg(folder.offered(""));
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        println!(
            "SKIPPED: a_full_disk_is_an_error_and_leaves_nothing_under_the_final_name: no private mounts"
        );
        return;
    }
    let server = FileServer::spawn(command);
    let why = error(&server.uri, &["put", text(&folder.here("long")), ""]);
    assert!(why.contains("no space is left on the file system; make space"), "{why}");
    assert_eq!(said(&server.uri, &["ls"]), "");

    let why = error(&server.uri, &["put", "-r", text(&folder.here("short")), ""]);
    assert!(why.contains("no space is left"), "{why}");
    said(&server.uri, &["get", "-r", "short", text(&folder.here("back"))]);
    for (name, bytes) in tree(&folder.here("back")) {
        assert!(bytes == contents(60_000), "{name:?} is not whole");
    }
}

#[test]
fn a_missing_file_and_one_without_permission_do_not_keep_others_from_being_copied() {
    let folder = Folder::new("refused");
    for name in ["a", "b"] {
        fs::write(folder.offered(name), contents(2 * PIECE)).expect("it can be written");
    }
    fs::set_permissions(folder.offered("a"), fs::Permissions::from_mode(0o000)).expect("it is ours");
    let mut command = example("files-server");
    command.arg(folder.offered("")).arg("udp://127.0.0.1:0");
    if fs::metadata("/proc/self").is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0) {
        // Root may read everything.
        command.uid(65534).gid(65534);
    }
    let server = FileServer::spawn(command);
    let why = error(&server.uri, &["get", "-r", "", text(&folder.here("back"))]);
    assert!(why.contains("a: permission denied"), "{why}");
    assert_eq!(tree(&folder.here("back")).into_keys().collect::<Vec<_>>(), [Path::new("b")]);
    assert!(error(&server.uri, &["get", "missing", text(&folder.here(""))]).contains("no such file"));
}

#[test]
fn a_file_that_changes_while_it_is_read_is_noticed() {
    let folder = Folder::new("changed");
    fs::write(folder.offered("file"), contents(2 * PIECE)).expect("it can be written");
    let server = FileServer::start(&folder, &["--read-only"], "udp://127.0.0.1:0");
    let files = FilesClient::bind(&server.uri).expect("it runs");
    let version = files.look_up("file").expect("it is there").version;
    let mut piece = vec![0; PIECE];
    files.read("file", &version, 0, &mut piece).expect("it has not changed");
    fs::write(folder.offered("file"), contents(2 * PIECE)).expect("it can be written");
    let changed = files.read("file", &version, PIECE as u64, &mut piece);
    assert!(matches!(changed, Err(Error::Application(FileError::Changed))), "{changed:?}");
    let refused = files.make_directory("new");
    assert!(matches!(refused, Err(Error::Application(FileError::ReadOnly))), "{refused:?}");
}
