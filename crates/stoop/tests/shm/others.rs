//! Callers of other users, and in other namespaces: real processes, started by root.

use crate::harness::eventually;
use crate::harness::processes;
use crate::harness::processes::{NOBODY, Process, TargetClient, client, patient};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use stoop::{Server, ShmOptions};

/// Plays the role of a process of these tests; `false`: it is none of them.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    match role {
        "ask" => ask(uri),
        "bind-many" => bind_many(uri),
        "serve-guests" => serve_guests(uri),
        _ => return false,
    }
    true
}

/// Binds, tells whom the server takes it for, and calls with messages of all lengths; or tells why it is not bound.
fn ask(uri: &str) {
    // Whom the server serves is what these tests are about.
    let client = match TargetClient::bind_with(uri, &patient(uri).with(ShmOptions::new().allow_everybody())) {
        Ok(client) => client,
        Err(error) => return println!("refused: {error}"),
    };
    println!("called as {}", client.caller().unwrap());
    println!("{}", client.binding().describe());
    for len in [0, 30, 3000, 300_000] {
        let bytes = vec![5; len];
        assert!((0..20).all(|_| client.echo(&bytes).unwrap() == bytes));
    }
    println!("done");
}

/// Descriptors of a server that has few.
const FEW: u64 = 64;

/// A server with few descriptors, whom anybody may call.
fn serve_guests(uri: &str) {
    setrlimit(Resource::Nofile, Rlimit { current: Some(FEW), maximum: Some(FEW) }).unwrap();
    processes::serve(Server::new().with(ShmOptions::new().allow_everybody()), uri);
}

/// Binds as often as it may, says how often, and does so again when it has given one back; then waits for the end of its input.
fn bind_many(uri: &str) {
    let mut clients = Vec::new();
    for _ in 0..2 {
        let refused = loop {
            match TargetClient::bind_with(uri, &patient(uri)) {
                Ok(client) => clients.push(client),
                Err(error) => break error,
            }
        };
        println!("bound {}", clients.len());
        println!("refused: {refused}");
        let before = clients[0].bindings().unwrap();
        clients.pop();
        eventually(|| clients[0].bindings().unwrap() < before);
    }
    println!("waiting");
    let _ = std::io::stdin().read_line(&mut String::new());
    assert!(clients.iter().all(|client| client.next(1).unwrap() == 2));
}

/// The lines that a process prints, until its end.
struct Said(Vec<String>);

impl Said {
    fn by(command: &mut Command) -> Self {
        let said = command.output().unwrap();
        let said =
            String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
        Self(said.lines().map(String::from).collect())
    }

    fn line(&self, beginning: &str) -> &str {
        let line = self.0.iter().find_map(|line| line.strip_prefix(beginning));
        line.unwrap_or_else(|| panic!("{:#?}", self.0))
    }
}

/// Asks as another user and group.
fn asked_as(user: u32, group: u32, uri: &str) -> Said {
    let mut command = Process::command("ask", uri);
    Said::by(Process::as_user(&mut command, user, group))
}

/// Asks in other namespaces: `how` is what unshare(1) is told.
fn asked_in(how: &[&str], uri: &str) -> Said {
    Said::by(&mut Process::command_by("unshare", how, "ask", uri))
}

/// Whether this process may do what the test needs; says so if not.
fn may(test: &str, needs: &[&[&str]]) -> bool {
    let skipped = |why: &str| println!("SKIPPED: {test}: {why}");
    if !rustix::process::geteuid().is_root() {
        skipped("only root can start processes of other users and in other namespaces");
        return false;
    }
    if Process::as_user(&mut Process::command("nothing", ""), NOBODY, NOBODY).output().is_err() {
        skipped("others may not run this program");
        return false;
    }
    let refused = needs.iter().find(|need| {
        let done = Command::new(need[0]).args(&need[1..]).output();
        !done.is_ok_and(|done| done.status.success())
    });
    if let Some(refused) = refused {
        skipped(&format!("`{}` does not work here", refused.join(" ")));
    }
    refused.is_none()
}

/// A directory that every user may enter; dropping this removes it.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("stoop-others-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// A socket in it.
    fn socket(&self) -> String {
        format!("{}/socket", self.path())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn another_user_is_refused_and_told_what_to_do() {
    if !may("another_user_is_refused_and_told_what_to_do", &[]) {
        return;
    }
    let uri = processes::name();
    let server = Process::server(&uri);
    let own = client(&uri);
    let held = server.holds();
    for _ in 0..3 {
        let said = asked_as(NOBODY, NOBODY, &uri);
        let why = said.line("refused: ");
        assert!(why.contains("of its own user only"), "{why}");
        assert!(why.contains("`allow_user`") && why.contains("`allow_everybody`"), "{why}");
    }
    eventually(|| processes::is_no_more(server.holds(), held));
    assert_eq!((own.bindings().unwrap(), own.malformed().unwrap()), (1, 0));
}

#[test]
fn allowed_users_are_served_and_no_others() {
    if !may("allowed_users_are_served_and_no_others", &[]) {
        return;
    }
    let uri = processes::name();
    let mut server = Process::start("serve-nobody", &uri);
    server.await_line("ready");
    // The group is what it is, and says nothing.
    let said = asked_as(NOBODY, 12345, &uri);
    assert!(said.line("called as process ").ends_with(&format!(" of {NOBODY}:12345")), "{:#?}", said.0);
    said.line("done");
    asked_as(NOBODY - 1, NOBODY, &uri).line("refused: ");
    // Root is always let in.
    asked_as(0, 0, &uri).line("done");
}

#[test]
fn a_guest_that_binds_without_end_keeps_no_other_user_out() {
    if !may("a_guest_that_binds_without_end_keeps_no_other_user_out", &[]) {
        return;
    }
    let uri = processes::name();
    let mut server = Process::start("serve-guests", &uri);
    server.await_line("ready");
    let mut command = Process::command("bind-many", &uri);
    let mut guest = Process::spawn(Process::as_user(&mut command, NOBODY, NOBODY));
    for _ in 0..2 {
        let mut lines = std::iter::repeat_with(|| guest.next_line());
        let bound = lines.find(|line| line.starts_with("bound "));
        assert_eq!(bound.unwrap(), format!("bound {}", FEW / 8));
        let refused = guest.next_line();
        assert!(refused.contains("quarter of its descriptors") && refused.contains("ulimit -n"), "{refused}");
    }
    guest.await_line("waiting");
    // Another guest, and root.
    asked_as(NOBODY - 1, NOBODY - 1, &uri).line("done");
    assert_eq!(client(&uri).next(1).unwrap(), 2);
    guest.tell("");
    guest.ends_well();
}

#[test]
fn everybody_is_served_where_everybody_is_allowed() {
    if !may("everybody_is_served_where_everybody_is_allowed", &[]) {
        return;
    }
    let uri = processes::name();
    let mut server = Process::start("serve-all", &uri);
    server.await_line("ready");
    for user in [0, 1, 12345, NOBODY] {
        let said = asked_as(user, user, &uri);
        assert!(said.line("called as process ").ends_with(&format!(" of {user}:{user}")), "{:#?}", said.0);
        said.line("done");
    }
}

#[test]
fn root_is_served_by_another_users_server_and_a_third_user_is_not() {
    if !may("root_is_served_by_another_users_server_and_a_third_user_is_not", &[]) {
        return;
    }
    let uri = processes::name();
    let mut command = Process::command("serve", &uri);
    let mut server = Process::spawn(Process::as_user(&mut command, NOBODY, NOBODY));
    server.await_line("ready");
    let said = asked_as(0, 0, &uri);
    assert!(said.line("shm:").contains(&format!("of user {NOBODY}")), "{:#?}", said.0);
    said.line("done");
    asked_as(NOBODY, NOBODY, &uri).line("done");
    asked_as(12345, 12345, &uri).line("refused: ");
}

#[test]
fn the_permissions_of_a_sockets_file_are_named_to_whom_they_keep_out() {
    if !may("the_permissions_of_a_sockets_file_are_named_to_whom_they_keep_out", &[]) {
        return;
    }
    let directory = Directory::new();
    let uri = format!("shm:{}", directory.socket());
    let mut server = Process::start("serve-all", &uri);
    server.await_line("ready");
    fs::set_permissions(directory.socket(), Permissions::from_mode(0o755)).unwrap();
    let said = asked_as(NOBODY, NOBODY, &uri);
    let why = said.line("refused: ");
    assert!(why.contains("write to the socket's file") && why.contains("chmod"), "{why}");
    fs::set_permissions(directory.socket(), Permissions::from_mode(0o775)).unwrap();
    chown(directory.socket(), Some(0), Some(12345)).unwrap();
    asked_as(NOBODY, 12345, &uri).line("done");
    asked_as(NOBODY, NOBODY, &uri).line("refused: ");
}

#[test]
fn a_caller_in_another_network_namespace_reaches_a_path_and_learns_that_it_does_not_reach_a_name() {
    let test =
        "a_caller_in_another_network_namespace_reaches_a_path_and_learns_that_it_does_not_reach_a_name";
    if !may(test, &[&["unshare", "--net", "true"]]) {
        return;
    }
    let (name, directory) = (processes::name(), Directory::new());
    let path = format!("shm:{}", directory.socket());
    let _servers = [&name, &path].map(|uri| Process::server(uri));
    let said = asked_in(&["--net"], &name);
    let why = said.line("refused: ");
    assert!(why.contains("network namespace") && why.contains("shm:/PATH"), "{why}");
    // The same by the name alone, which stands for the best that there is.
    let said = asked_in(&["--net"], name.strip_prefix("shm:").unwrap());
    let why = said.line("refused: ");
    assert!(why.contains("network namespace") && why.contains("shm:/PATH"), "{why}");
    asked_in(&["--net"], &path).line("done");
}

#[test]
fn a_caller_in_another_mount_namespace_is_served_through_a_directory_that_is_mounted_there() {
    let test = "a_caller_in_another_mount_namespace_is_served_through_a_directory_that_is_mounted_there";
    if !may(test, &[&["unshare", "--mount", "mount", "--bind", "/tmp", "/tmp"]]) {
        return;
    }
    let (here, there) = (Directory::new(), Directory::new());
    let _server = Process::server(&format!("shm:{}", here.socket()));
    let mount = format!("mount --bind {} {} && exec \"$0\" \"$@\"", here.path(), there.path());
    let said = asked_in(&["--mount", "sh", "-c", &mount], &format!("shm:{}", there.socket()));
    said.line("done");
    assert!(!PathBuf::from(there.socket()).exists());
}

#[test]
fn process_namespaces_between_caller_and_server_change_nothing_but_the_number_of_the_process() {
    let test = "process_namespaces_between_caller_and_server_change_nothing_but_the_number_of_the_process";
    if !may(test, &[&["unshare", "--pid", "--fork", "true"]]) {
        return;
    }
    let apart = ["--pid", "--fork", "--kill-child"];
    // Below the server: it has a number here, too.
    let uri = processes::name();
    let server = Process::server(&uri);
    let said = asked_in(&apart, &uri);
    assert!(!said.line("called as process ").starts_with("0 of"), "{:#?}", said.0);
    // The listener's process is outside of the caller's pid namespace, and has no number in it.
    assert!(said.line("shm:").contains("a process of user 0"), "{:#?}", said.0);
    said.line("done");
    drop(server);
    // The caller is outside of the server's pid namespace, and has no number in it.
    let uri = processes::name();
    let mut server = Process::spawn(&mut Process::command_by("unshare", &apart, "serve", &uri));
    server.await_line("ready");
    let said = asked_as(0, 0, &uri);
    assert_eq!(said.line("called as process "), "0 of 0:0");
    said.line("done");
    // Each in its own.
    let said = asked_in(&apart, &uri);
    assert_eq!(said.line("called as process "), "0 of 0:0");
    said.line("done");
}

#[test]
fn a_caller_in_a_namespace_of_users_is_whom_the_server_knows_it_as() {
    let test = "a_caller_in_a_namespace_of_users_is_whom_the_server_knows_it_as";
    if !may(test, &[&["unshare", "--user", "--map-root-user", "true"]]) {
        return;
    }
    let uri = processes::name();
    let _server = Process::server(&uri);
    // Root of that user namespace is the user nobody in this one.
    let mut command = Process::command_by("unshare", &["--user", "--map-root-user"], "ask", &uri);
    Said::by(Process::as_user(&mut command, NOBODY, NOBODY)).line("refused: ");
    // The user nobody of that user namespace is root in this one.
    asked_in(&["--user"], &uri).line("done");
}
