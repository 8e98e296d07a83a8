//! Processes of tests: a server, and a client that checks every answer.
//!
//! A program of tests starts itself as another process: its test `process` calls [`play`], which does nothing when no role is given.

use super::{LIMIT, eventually};
use rustix::process::{Pid, Signal};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;
use stoop::{BindOptions, Caller, PacketOptions, RunningServer, Server, ShmOptions, UnixOptions};

#[stoop::interface]
pub(crate) trait Target {
    /// Adds one.
    fn next(&self, number: u32) -> u32;
    /// Gives back what it is given.
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// As many bytes, each with that value.
    fn bytes(&self, count: u32, value: u8) -> Vec<u8>;
    /// Appends a mark to a file that outlives the server: two marks of one call mean that it ran twice.
    fn mark(&self, number: u64, bytes: &[u8]) -> Vec<u8>;
    /// Prints a line at the server, and returns when its call has been cancelled.
    fn hang(&self);
    /// How many have broken the protocol.
    fn malformed(&self) -> u64;
    /// How many bindings callers have given up.
    fn given_up(&self) -> u64;
    /// How many are bound.
    fn bindings(&self) -> u64;
    /// The process that calls, its user and group.
    fn caller(&self) -> String;
    /// Seconds that are left to the call.
    fn seconds_left(&self) -> u64;
    /// As `hang`; what it fills has a length that its caller knows.
    fn hang_and_fill(&self, #[out] bytes: &mut [u8]);
    /// As `hang`, under a name.
    fn hang_as(&self, name: u32);
    /// Whether a call hangs under that name.
    fn hangs(&self, name: u32) -> bool;
}

struct Honest;

static RUNNING: OnceLock<RunningServer> = OnceLock::new();
static HANGING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn running() -> &'static RunningServer {
    RUNNING.get().expect("it runs")
}

impl Target for Honest {
    fn next(&self, number: u32) -> u32 {
        number.wrapping_add(1)
    }
    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.into()
    }
    fn bytes(&self, count: u32, value: u8) -> Vec<u8> {
        vec![value; count as usize]
    }
    fn mark(&self, number: u64, bytes: &[u8]) -> Vec<u8> {
        let mut marks = std::fs::OpenOptions::new().append(true).open(std::env::var(MARKS).unwrap()).unwrap();
        marks.write_all(&number.to_ne_bytes()).unwrap();
        bytes.into()
    }
    fn hang(&self) {
        println!("hanging");
        eventually(|| stoop::current_call().unwrap().is_cancelled());
    }
    fn seconds_left(&self) -> u64 {
        stoop::current_call().unwrap().time_left().as_secs()
    }
    fn hang_and_fill(&self, bytes: &mut [u8]) {
        self.hang();
        bytes.fill(1);
    }
    fn hang_as(&self, name: u32) {
        HANGING.lock().unwrap().push(name);
        self.hang();
        HANGING.lock().unwrap().retain(|hanging| *hanging != name);
    }
    fn hangs(&self, name: u32) -> bool {
        HANGING.lock().unwrap().contains(&name)
    }
    fn malformed(&self) -> u64 {
        running().counters().malformed
    }
    fn given_up(&self) -> u64 {
        running().counters().shm.given_up
    }
    fn bindings(&self) -> u64 {
        running().counters().bindings
    }
    fn caller(&self) -> String {
        match stoop::current_call().unwrap().caller() {
            Caller::Process(process) => format!("process {} of {}:{}", process.pid, process.uid, process.gid),
            other => format!("{other:?}"),
        }
    }
}

pub(crate) fn interface() -> &'static stoop::stub::Interface {
    use stoop::stub::Exported;
    static EXPORT: OnceLock<TargetServer<Honest>> = OnceLock::new();
    EXPORT.get_or_init(|| TargetServer::new(Honest)).interface()
}

/// A name that no other test uses.
pub(crate) fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("shm:test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether processes use no processor time in one second; `ticks` is their [sum](Process::ticks). A process that polls uses all
/// hundred ticks. The second is a time and no condition, because the use of time is what is measured.
pub(crate) fn is_idle_for_a_second(ticks: impl Fn() -> u64) -> bool {
    let before = ticks();
    thread::sleep(Duration::from_secs(1));
    ticks() == before
}

/// Options for the address that are patient beyond all that a busy machine can do: nothing is measured by it.
pub(crate) fn patient(uri: &str) -> BindOptions {
    let options = BindOptions::new().timeout(LIMIT).bind_timeout(LIMIT);
    if uri.starts_with("udp:") { options.with(PacketOptions::new().silence_limit(LIMIT)) } else { options }
}

pub(crate) fn client(uri: &str) -> TargetClient {
    TargetClient::bind_with(uri, &patient(uri)).unwrap()
}

/// A user that is neither root nor the one that runs the tests.
pub(crate) const NOBODY: u32 = 65534;

/// Where a server leaves its marks.
pub(crate) const MARKS: &str = "STOOP_TEST_MARKS";
/// Set in the environment of a process that is to play a role.
const ROLE: &str = "STOOP_TEST_ROLE";

/// Plays a role at an address; `false`: the role is none of those that it knows.
type Play = fn(&str, &str) -> bool;

/// The role of this process, if it has one: to be the server at an address (or the one whom anybody may call), or a client that
/// calls until its input ends. `others` know further roles.
pub(crate) fn play(others: &[Play]) {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, uri) = role.split_once(' ').unwrap();
    // With one processor the line has been begun: "test process ... ".
    println!();
    match role {
        "serve" => serve(Server::new(), uri),
        "serve-all" if uri.starts_with("unix:") => {
            serve(Server::new().with(UnixOptions::new().allow_everybody()), uri);
        }
        "serve-all" => serve(Server::new().with(ShmOptions::new().allow_everybody()), uri),
        "serve-nobody" if uri.starts_with("unix:") => {
            serve(Server::new().with(UnixOptions::new().allow_user(NOBODY)), uri);
        }
        "serve-nobody" => serve(Server::new().with(ShmOptions::new().allow_user(NOBODY)), uri),
        "call" => call(uri),
        "fetch" => fetch(uri),
        role => assert!(others.iter().any(|play| play(role, uri)), "no process has the role {role:?}"),
    }
}

/// Set in the environment of a process that runs one test [alone].
const ALONE: &str = "STOOP_TEST_ALONE";

/// Runs a test in a process of its own, because it counts what its process has, or forks. It is a closure in the test's function, or
/// that function itself.
pub(crate) fn alone<F: FnOnce()>(test: F) {
    if std::env::var_os(ALONE).is_some() {
        println!();
        end_with_starter();
        return test();
    }
    let path = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let (_program, name) = path.split_once("::").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(ALONE, "1");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let open_while_we_live = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(open_while_we_live);
    let [said, complained] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    println!("{said}");
    assert!(output.status.success() && said.contains("1 passed"), "{complained}");
}

/// Ends this process when the one that started it has ended, and with it the other end of standard input.
fn end_with_starter() {
    let end = || {
        // Nothing is ever written; an error is an end, too.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(1);
    };
    thread::Builder::new().name("end-with-starter".into()).spawn(end).unwrap();
}

/// A server of this process.
pub(crate) fn started(server: Server, uri: &str) -> RunningServer {
    server.export(TargetServer::new(Honest)).listen(uri).unwrap().start().unwrap()
}

pub(crate) fn serve(server: Server, uri: &str) {
    let server = started(server, uri);
    RUNNING.set(server).unwrap_or_else(|_| panic!("it runs once"));
    println!("ready");
    running().wait();
}

/// Calls without end, of all lengths, tells how often, and ends with the process that started it.
fn call(uri: &str) {
    let client = client(uri);
    let (small, large): (Vec<u8>, Vec<u8>) = ((0..3000).map(|n| n as u8).collect(), vec![7; 300_000]);
    for number in 0.. {
        assert_eq!(client.next(number).unwrap(), number + 1);
        if number % 8 == 0 {
            assert_eq!(client.echo(&small).unwrap(), small);
        }
        if number % 64 == 0 {
            assert_eq!(client.echo(&large).unwrap(), large);
            println!("lap");
        }
    }
}

/// Fetches long results without end.
fn fetch(uri: &str) {
    let client = client(uri);
    loop {
        assert_eq!(client.bytes(2 << 20, 1).unwrap().len(), 2 << 20);
        println!("fetched");
    }
}

/// A process in a role, which is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    pub(crate) fn start(role: &str, uri: &str) -> Self {
        Self::spawn(&mut Self::command(role, uri))
    }

    /// A server at an address, which serves when this returns.
    pub(crate) fn server(uri: &str) -> Self {
        let mut server = Self::start("serve", uri);
        server.await_line("ready");
        server
    }

    /// The command that starts a process in a role, for changes.
    pub(crate) fn command(role: &str, uri: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "process", "--nocapture"]).env(ROLE, format!("{role} {uri}"));
        command
    }

    /// The command that starts a process in a role by another program, which runs the command behind its own arguments.
    pub(crate) fn command_by(program: &str, arguments: &[&str], role: &str, uri: &str) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).arg(std::env::current_exe().unwrap());
        command.args(["--exact", "process", "--nocapture"]).env(ROLE, format!("{role} {uri}"));
        command
    }

    /// Has a command run as another user. By root only.
    pub(crate) fn as_user(command: &mut Command, user: u32, group: u32) -> &mut Command {
        command.uid(user).gid(group)
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        // Bounded as a pipe is: a process that prints more than is read waits.
        let (said, lines) = mpsc::sync_channel(1000);
        thread::spawn(move || output.map_while(Result::ok).try_for_each(|line| said.send(line)));
        Self { child, lines }
    }

    /// Waits for the next line that it prints; `None`: it has ended.
    ///
    /// # Panics
    /// It prints nothing for longer than a busy machine takes.
    #[track_caller]
    fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(LIMIT) {
            Err(RecvTimeoutError::Timeout) => {
                panic!("process {} has printed nothing for {LIMIT:?}", self.pid())
            }
            line => line.ok(),
        }
    }

    #[track_caller]
    pub(crate) fn await_line(&mut self, wanted: &str) {
        self.find_line(|line| line == wanted);
    }

    /// Returns the next such line.
    #[track_caller]
    pub(crate) fn find_line(&mut self, is_wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.next_line();
            if is_wanted(&line) {
                return line;
            }
        }
    }

    #[track_caller]
    pub(crate) fn next_line(&mut self) -> String {
        self.line().unwrap_or_else(|| panic!("the process has ended: {:?}", self.child.wait()))
    }

    /// Ends its standard input.
    pub(crate) fn end_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Ends it as a service manager does, if it [serves](super::passed_sockets::serve) until its input ends.
    pub(crate) fn end(&mut self) {
        self.end_input();
        self.ends_well();
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns when all its threads have stopped.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid());
        let is_stopped = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        eventually(|| std::fs::read_dir(&tasks).unwrap().flatten().all(is_stopped));
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, which is a good one.
    pub(crate) fn ends_well(&mut self) {
        while self.line().is_some() {}
        assert!(self.child.wait().unwrap().success());
    }

    /// Its open descriptors, and the segments that it has mapped.
    pub(crate) fn holds(&self) -> (usize, usize) {
        holds(&format!("/proc/{}", self.pid()))
    }

    /// Processor time that it has used, in ticks of the kernel's.
    pub(crate) fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // After the name: state is the third field, user and system time are the fourteenth and fifteenth (proc(5)).
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Open descriptors of a process, and segments that it has mapped.
pub(crate) fn holds(process: &str) -> (usize, usize) {
    let descriptors = std::fs::read_dir(Path::new(process).join("fd")).unwrap().count();
    let maps = std::fs::read_to_string(Path::new(process).join("maps")).unwrap();
    (descriptors, maps.lines().filter(|line| line.contains("memfd:stoop")).count())
}

/// Whether a process holds no more than it did: something of its own may have been open for a moment then.
pub(crate) fn is_no_more(now: (usize, usize), then: (usize, usize)) -> bool {
    now.0 <= then.0 && now.1 <= then.1
}
