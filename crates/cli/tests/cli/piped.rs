//! `stoop describe` and `stoop call` of procedures with pipes.

use crate::call::{printed, stoop, stoop_with};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use stoop::{Data, PipeError, Receiver, RunningServer, Sender, Server};

#[derive(Data)]
struct Line {
    number: u64,
    text: String,
}

#[stoop::interface]
trait Works {
    fn lines(&self, from: u64, to: u64, lines: Sender<Line>) -> u64;
    fn bytes(&self, text: &str, parts: Sender<[u8]>);
    fn sums(&self, numbers: Receiver<[u16]>, sums: Sender<u64>) -> Result<u64, String>;
    fn for_ever(&self, numbers: Sender<u64>);
}

/// Tells why its pipes ended.
struct Bench(mpsc::Sender<String>);

impl Bench {
    fn note(&self, why: &PipeError) -> String {
        let why = format!("{why:?}");
        self.0.send(why.clone()).unwrap();
        why
    }
}

impl Works for Bench {
    fn lines(&self, from: u64, to: u64, lines: Sender<Line>) -> u64 {
        lines.send_all((from..to).map(|number| Line { number, text: "a\tb".into() })).unwrap();
        to - from
    }
    fn bytes(&self, text: &str, parts: Sender<[u8]>) {
        text.bytes().for_each(|byte| parts.send(&[byte]).unwrap());
    }
    fn sums(&self, numbers: Receiver<[u16]>, sums: Sender<u64>) -> Result<u64, String> {
        let mut count = 0;
        for some in numbers {
            let some = some.map_err(|why| self.note(&why))?;
            sums.send(&some.iter().map(|each| u64::from(*each)).sum()).map_err(|why| why.to_string())?;
            count += 1;
        }
        if count > 0 { Ok(count) } else { Err("none".into()) }
    }
    fn for_ever(&self, numbers: Sender<u64>) {
        let why = (0..).find_map(|number| numbers.send(&number).err());
        self.note(&why.unwrap());
    }
}

fn serve(uri: &str) -> (RunningServer, String, mpsc::Receiver<String>) {
    let (notes, noted) = mpsc::channel();
    let server = Server::new().export(WorksServer::new(Bench(notes))).listen(uri).unwrap().start().unwrap();
    let uri = server.uris()[0].clone();
    (server, uri, noted)
}

#[test]
fn items_are_lines_each_way_and_the_result_comes_after_them() {
    let (_server, uri, noted) = serve(&format!("unix:@stoop-piped-{}", std::process::id()));
    assert!(printed(&["describe", &uri]).contains("Works.bytes(text: String, parts: pipe out slice<u8>)\n"));
    let rust = printed(&["describe", &uri, "Works"]);
    assert!(rust.contains("numbers: stoop::Receiver<[u16]>"), "{rust}");

    let line = |number| format!("{{\"number\": {number}, \"text\": \"a\\tb\"}}\n");
    let lines = printed(&["call", &uri, "Works.lines", "from=5", "to=7"]);
    assert_eq!(lines, line(5) + &line(6) + "2\n");
    assert_eq!(printed(&["call", &uri, "Works.bytes", "ab"]), "\"a\"\n\"b\"\n");
    assert_eq!(printed(&["call", &uri, "Works.bytes", "ab", "--raw", ""]), "ab");

    let sums = |input: &[u8]| stoop_with(&["call", &uri, "Works.sums"], input);
    assert_eq!(sums(b"[1, 2]\n[]\n[65535]"), (Some(0), "3\n0\n65535\n3\n".into(), String::new()));
    assert_eq!(sums(b""), (Some(1), "{\"err\": \"none\"}\n".into(), String::new()));
    let (status, _, err) = sums(b"[1]\n[65536]\n[2]\n");
    assert!(
        status == Some(2) && err.starts_with("line 2 of standard input is no item of numbers: "),
        "{err}"
    );
    assert!(["Aborted", "Cancelled"].contains(&&*noted.recv().unwrap()));
    let (status, _, err) = stoop(&["call", &uri, "Works.sums", "--repeat", "2"]);
    assert!(status == Some(2) && err.contains("leave --repeat out"), "{err}");
}

#[test]
fn the_procedure_learns_that_its_caller_has_pressed_ctrl_c() {
    let (_server, uri, noted) = serve("udp://127.0.0.1:0");
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoop"));
    let command = command.args(["call", &uri, "Works.for_ever"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("stoop can be started");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "0");
    let sent =
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("there is a kill");
    assert!(sent.success() && lines.all(|line| line.is_ok()));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(["Cancelled", "Stopped"].contains(&&*noted.recv().unwrap()));
}
