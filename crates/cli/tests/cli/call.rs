//! `stoop describe`, `stoop call` and the completion of shells, with servers whose types the command has not seen.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, SystemTime};
use stoop::dynamic::{self, Interface, NoResult, Procedure};
use stoop::error::{Failure, Refusal};
use stoop::reflection::Reflection;
use stoop::{Data, FailureCode, RunningServer, Server};

/// An entry of the store.
#[derive(Data, Clone, Debug, PartialEq)]
struct Entry {
    name: String,
    content: Vec<u8>,
    kind: Kind,
    tags: BTreeMap<String, Option<u64>>,
    at: SystemTime,
    every: Duration,
    ratio: f32,
    next: Option<Box<Entry>>,
}

#[derive(Data, Clone, Debug, PartialEq)]
enum Kind {
    File,
    Link(String),
    Range { from: i128, to: u128 },
}

/// Entries by name.
#[stoop::interface]
trait Store {
    /// The entry of that name.
    #[idempotent]
    fn get(&self, name: &str) -> Option<Entry>;
    /// Gives an entry back.
    fn echo(&self, entry: &Entry) -> Entry;
    fn divide(&self, a: i32, by: i32) -> Result<i32, String>;
    fn read(&self, at: u64, #[out] piece: &mut [u8], count: &mut u32) -> bool;
    fn panic(&self);
    fn slow(&self);
    #[one_way]
    fn note(&self, text: &str);
}

struct Disk;

/// Whether slow procedures may return.
static GATE: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

fn entry() -> Entry {
    Entry {
        name: "a\u{1b}[2J".into(),
        content: vec![0xff, 0],
        kind: Kind::Range { from: -1, to: u128::MAX },
        tags: BTreeMap::from([("x".into(), None), ("y".into(), Some(u64::MAX))]),
        at: SystemTime::UNIX_EPOCH + Duration::from_millis(1500),
        every: Duration::from_millis(20),
        ratio: 0.1,
        next: None,
    }
}

impl Store for Disk {
    fn get(&self, name: &str) -> Option<Entry> {
        (name == "a").then(|| Entry { next: Some(Box::new(entry())), ..entry() })
    }
    fn echo(&self, entry: &Entry) -> Entry {
        entry.clone()
    }
    fn divide(&self, a: i32, by: i32) -> Result<i32, String> {
        a.checked_div(by).ok_or_else(|| "divided by 0".into())
    }
    fn read(&self, at: u64, piece: &mut [u8], count: &mut u32) -> bool {
        piece.fill(b'0' + at as u8);
        *count += 1;
        true
    }
    fn panic(&self) {
        panic!("on purpose");
    }
    fn slow(&self) {
        let (released, changed) = &GATE;
        drop(changed.wait_while(released.lock().unwrap(), |released| !*released));
    }
    fn note(&self, text: &str) {
        assert_eq!(text, "hello");
    }
}

fn serve(name: &str) -> (RunningServer, String) {
    let uri = format!("unix:@stoop-call-{name}-{}", std::process::id());
    let server = Server::new().export(StoreServer::new(Disk)).listen(&uri).unwrap().start().unwrap();
    (server, uri)
}

pub(crate) fn stoop_with(arguments: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoop"));
    let pipes = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("stoop can be started");
    // It may not read.
    let _ = child.stdin.take().expect("it is piped").write_all(input);
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("it prints text");
    (status.code(), text(stdout), text(stderr))
}

pub(crate) fn stoop(arguments: &[&str]) -> (Option<i32>, String, String) {
    stoop_with(arguments, b"")
}

/// The standard output of a command that succeeds.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let (status, out, err) = stoop(arguments);
    assert_eq!((status, err.as_str()), (Some(0), ""), "{out}");
    out
}

#[test]
fn an_unknown_server_is_described() {
    let (_server, uri) = serve("described");
    let overview = printed(&["describe", &uri]);
    assert!(overview.starts_with("Store.get(name: String) -> Option<Entry>\n"), "{overview}");
    assert!(
        overview.contains("Store.read(at: u64, piece: out [u8], count: inout u32) -> bool\n"),
        "{overview}"
    );
    let rust = printed(&["describe", &uri, "Store"]);
    assert!(rust.starts_with("/// Entries by name.\n#[stoop::interface]\npub trait Store {\n"), "{rust}");
    assert!(rust.contains("/// An entry of the store.\n#[derive(stoop::Data"), "{rust}");
    assert!(rust.lines().all(|line| line.len() <= 80), "{rust}");
    let json = printed(&["describe", &uri, "Store", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["procedures"][2]["arguments"][1]["name"], "by");
    let own = Server::new().export(StoreServer::new(Disk)).names();
    let mut told: Vec<_> = printed(&["describe", &uri, "--names"]).lines().map(str::to_owned).collect();
    told.sort_by_key(|line| own.lines().position(|own| own == *line));
    assert_eq!(told.join("\n") + "\n", own, "as the server itself names its procedures");
    let (status, _, err) = stoop(&["describe", &uri, "Stor"]);
    assert_eq!((status, err.as_str()), (Some(1), "the server has no such interface; it has Store\n"));
}

#[test]
fn what_a_call_prints_another_call_accepts() {
    let (_server, uri) = serve("echo");
    let entry = printed(&["call", &uri, "Store.get", "a"]);
    assert!(!entry.contains('\u{1b}') && entry.contains(r#""name": "a\u001b[2J""#), "{entry}");
    let argument = format!("entry:={entry}");
    assert_eq!(printed(&["call", &uri, "Store.echo", &argument]), entry);
    let all = format!(r#"{{"entry": {entry}}}"#);
    assert_eq!(printed(&["call", &uri, "Store.echo", &all]), entry);
    let (status, out, _) = stoop_with(&["call", &uri, "Store.echo", "entry:=@-"], entry.as_bytes());
    assert_eq!((status, out.as_str()), (Some(0), entry.as_str()));
    let (status, out, _) = stoop_with(&["call", &uri, "Store.echo", "-"], all.as_bytes());
    assert_eq!((status, out.as_str()), (Some(0), entry.as_str()));
    let (status, out, _) = stoop(&["call", &uri, "Store.get", "a", "--raw", "next.name"]);
    assert_eq!((status, out.as_str()), (Some(0), "a\u{1b}[2J"));
    assert_eq!(printed(&["call", &uri, "Store.get", "name=b"]), "null\n");
    assert_eq!(
        printed(&["call", &uri, "Store.read", "at=1", "piece=3", "count=4"]),
        "{\"returned\": true, \"piece\": \"111\", \"count\": 5}\n"
    );
    assert_eq!(printed(&["call", &uri, "Store.divide", "7", "by=-2", "--repeat", "2"]), "-3\n-3\n");
    assert_eq!(printed(&["call", &uri, "Store.note", "text=hello"]), "null\n");
}

#[test]
fn the_exit_status_says_whether_the_call_ran() {
    let (_server, uri) = serve("status");
    let call = |arguments: &[&str]| stoop(&[&["call", uri.as_str()], arguments].concat());
    let (status, out, _) = call(&["Store.divide", "1", "0"]);
    assert_eq!((status, out.as_str()), (Some(1), "{\"err\": \"divided by 0\"}\n"));
    let (status, _, err) = call(&["Store.divide", "1", "x"]);
    assert_eq!(status, Some(2), "{err}");
    assert_eq!(err, "by: expected a i32, from -2147483648 to 2147483647, not \"x\"\n");
    let (status, _, err) = call(&["Store.divid", "1", "2"]);
    assert_eq!((status, err.as_str()), (Some(2), "Store has no procedure divid; it has divide\n"));
    let (status, _, err) = call(&["divide"]);
    assert!(status == Some(2) && err.contains(&format!("`stoop describe {uri}` lists them")), "{err}");
    assert_eq!(stoop(&["call", "unix:@stoop-test-nobody-listens-here", "A.b"]).0, Some(3));
    let (status, _, err) = call(&["Store.panic"]);
    assert!(status == Some(4) && err.contains("on purpose"), "{err}");
    assert_eq!(call(&["Store.slow", "--timeout", "0.2"]).0, Some(5));
    *GATE.0.lock().unwrap() = true;
    GATE.1.notify_all();
    let (status, out, _) = call(&["Store.panic", "--json"]);
    let envelope: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &envelope["outcome"], &envelope["ran"]), (Some(4), &"failed".into(), &"yes".into()));
    let (status, out, _) = call(&["Store.divide", "9", "3", "--json"]);
    let envelope: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &envelope["outcome"], &envelope["result"]), (Some(0), &"result".into(), &3.into()));
}

#[test]
fn a_server_that_tells_nothing_is_said_to() {
    let uri = format!("unix:@stoop-call-silent-{}", std::process::id());
    let server = Server::new().export(StoreServer::new(Disk)).reflection(Reflection::Off);
    let _server = server.listen(&uri).unwrap().start().unwrap();
    let (status, _, err) = stoop(&["call", &uri, "Store.get", "a"]);
    assert!(status == Some(3) && err.contains("does not tell its interfaces"), "{err}");
    assert_eq!(stoop(&["describe", &uri]).0, Some(1));
}

#[test]
fn a_hostile_server_neither_moves_the_cursor_nor_ends_the_command_by_a_panic() {
    let evil = "\u{1b}]0;owned\u{7}\u{202e}\u{9b}2J";
    let deep = format!("deep(a: {}u8{})", "[".repeat(5000), "]".repeat(5000));
    let fine = ["f() -> String", "refuse()", "fail()"].map(String::from);
    let interfaces = [
        ("Fine", fine.to_vec()),
        (evil, vec!["f()".into()]),
        ("Text", vec![format!("f(a: {evil})")]),
        ("Deep", vec![deep]),
        ("Self", vec!["f(a: A{a: A})".into()]),
        ("Long", vec![format!("f(a: {})", "A".repeat(100_000))]),
        ("Huge", vec!["f(a: [u64; 18446744073709551615])".into()]),
    ];
    let mut server = Server::new();
    for (name, procedures) in interfaces.clone() {
        let interface = Interface::new(name, procedures.into_iter().map(Procedure::new)).unwrap();
        server =
            server.export(dynamic::Exported::new(interface, move |procedure, _, result| match procedure {
                0 => {
                    result.text(evil);
                    Ok(())
                }
                1 => Err(NoResult::Refused(Refusal::denied(evil))),
                _ => Err(NoResult::Failed(Failure { code: FailureCode::Panicked, detail: evil.into() })),
            }));
    }
    let uri = format!("unix:@stoop-call-hostile-{}", std::process::id());
    let _server = server.listen(&uri).unwrap().start().unwrap();
    let mut outputs = vec![
        stoop(&["describe", &uri]),
        stoop(&["describe", &uri, "Fine"]),
        stoop(&["describe", &uri, "None"]),
        stoop(&["describe", &uri, "--names"]),
        stoop(&["describe", &uri, evil, "--names"]),
        stoop(&["complete", "--", "call", &uri, ""]),
        stoop(&["complete", "--", "describe", &uri, ""]),
        stoop(&["call", &uri, "Fine.f"]),
        stoop(&["call", &uri, "Fine.refuse"]),
        stoop(&["call", &uri, "Fine.fail"]),
        stoop(&["call", &uri, "Fine.fail", "--json"]),
    ];
    assert_eq!(
        outputs[7..].iter().map(|(status, ..)| *status).collect::<Vec<_>>(),
        [Some(0), Some(3), Some(4), Some(4)]
    );
    for (name, _) in &interfaces[1..] {
        let told = stoop(&["describe", &uri, name]);
        outputs.push(told);
        let called = stoop(&["call", &uri, &format!("{name}.f"), "a=1"]);
        assert_ne!(called.0, Some(0), "{}", called.1);
        outputs.push(called);
    }
    for (status, out, err) in outputs {
        let text = format!("{out}{err}");
        assert!(matches!(status, Some(0..=4)) && !text.contains("panicked at"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{9b}']), "{text:?}");
    }
}

#[test]
fn a_shell_completes_interfaces_procedures_and_arguments_from_the_server() {
    let (_server, uri) = serve("completed");
    let completed = |words: &[&str]| printed(&[&["complete", "--"], words].concat());
    assert_eq!(completed(&["des"]), "describe\n");
    assert_eq!(completed(&["describe", &uri, ""]), "Store\n");
    assert_eq!(completed(&["call", &uri, "Store.no"]), "Store.note\n");
    assert_eq!(completed(&["call", &uri, "Store.divide", "a=1", ""]), "by=\n");
    assert_eq!(completed(&["call", "unix:@stoop-test-nobody-listens-here", ""]), "");
    // In bash itself, which divides an address at its colons.
    let script = format!(
        r#"source <(stoop completions bash)
        COMP_LINE="stoop call {uri} Store.div" COMP_POINT=${{#COMP_LINE}}
        _stoop 2>/dev/null
        echo "${{COMPREPLY[@]}}""#
    );
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_stoop")).parent().expect("it is in a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    match Command::new("bash").args(["-c", &script]).env("PATH", path).output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "Store.divide\n"),
        Err(why) => println!("SKIPPED: completion in bash: {why}"),
    }
}
