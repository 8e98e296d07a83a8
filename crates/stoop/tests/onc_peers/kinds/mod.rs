//! An interface with every kind of type, in both directions: Stoop's client calls a C server, and a C client calls Stoop's server,
//! over UDP, TCP and Unix sockets. Neither needs rpcbind.

pub(crate) mod sample;
mod service;

use crate::sandbox::Process;
use sample::sample;
use service::Service;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use stoop::{RunningServer, Server};

/// The stubs of `kinds.x`.
pub(crate) mod stubs {
    stoop::x!("tests/onc_peers/kinds/kinds.x");
}

use stubs::{
    Answer, Blob, Colour, Kinds1Client, Kinds1Server, Kinds2Client, Kinds2Server, Label, Node, Numbers,
    Point, Reading,
};

const TRANSPORTS: [&str; 3] = ["udp", "tcp", "unix"];

/// The folder with the C programs `client` and `server`; `None`, and the test is skipped, if they cannot be made here.
pub(crate) fn c_programs(test: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    if Command::new("rpcgen").arg("--version").output().is_err()
        || !Path::new("/usr/include/tirpc/rpc/rpc.h").exists()
    {
        println!("SKIPPED: {test}: needs rpcgen and libtirpc-dev");
        return None;
    }
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onc_peers/kinds/make");
    let made = Command::new(make).arg(&folder).status().expect("a shell starts");
    assert!(made.success(), "the programs do not compile");
    Some(folder)
}

/// A path for a Unix socket, at which no file is.
fn socket_path(folder: &Path) -> PathBuf {
    let path = folder.join(format!("socket-{}", std::process::id()));
    let _ = fs::remove_file(&path);
    path
}

/// Starts the C server, and gives its address for Stoop.
fn start_c_server(folder: &Path, transport: &str) -> (Process, String) {
    let path = socket_path(folder);
    let mut command = Command::new(folder.join("server"));
    let (server, port) = Process::and_first_line(command.arg(transport).arg(&path));
    let uri = match transport {
        "unix" => format!("onc+unix:{}", path.display()),
        _ => format!("onc+{transport}://127.0.0.1:{port}"),
    };
    (server, uri)
}

fn check_list(one: &Kinds1Client) {
    let node =
        |number: i32| Node { name: format!("node {number}").as_str().into(), weight: number as f32 * 0.5 };
    assert_eq!(one.turn(&sample(9).list).unwrap(), (0..9).rev().map(node).collect());
    assert_eq!(one.turn(&[].into_iter().collect()).unwrap().len(), 0);
    assert_eq!(one.turn(&(0..100).map(node).collect()).unwrap(), (0..100).rev().map(node).collect());
}

fn check_first_version(one: &Kinds1Client) {
    for number in 0..13 {
        assert_eq!(one.next(number, &sample(number)).unwrap(), sample(number + 1));
    }
    let numbers = Numbers(vec![1, 2, 3]);
    assert_eq!(one.sum(-5, &Point { x: 7, y: 100 }, &numbers).unwrap(), 108);
    assert_eq!(one.join("left and ", &"right".into()).unwrap(), "left and right");
    check_list(one);
    assert_eq!(one.read(5).unwrap(), Reading::Case1("because 5".into()));
    assert_eq!(one.read(8).unwrap(), Reading::Case0(4.0));
    for len in (0..8000).step_by(999) {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        let turned = bytes.iter().rev().copied().collect();
        assert_eq!(one.reverse(&Blob(bytes)).unwrap(), Blob(turned));
    }
    assert_eq!(one.kept().unwrap(), Answer::False);
    one.keep(&"a name".into()).unwrap();
    assert_eq!(one.kept().unwrap(), Answer::True(Label("a name".into())));
}

fn check_second_version(two: &Kinds2Client) {
    assert_eq!(two.total(&Numbers(vec![2_000_000_000; 2])).unwrap(), 4_000_000_000);
    assert_eq!(two.mix(Colour::Red, Colour::Green).unwrap(), Colour::Blue);
    assert_eq!(two.mix(Colour::Red, Colour::Red).unwrap(), Colour::Red);
    let begin = two.begin();
    let totals: Vec<_> = (0..50).map(|number| begin.total(&Numbers(vec![number, 1]))).collect();
    for (number, total) in (0..).zip(stoop::wait_all(totals)) {
        assert_eq!(total.unwrap(), number + 1_i64);
    }
}

/// Calls all procedures of a C server.
pub(crate) fn call_c_server(folder: &Path, transport: &str) {
    let (_server, uri) = start_c_server(folder, transport);
    check_first_version(&Kinds1Client::bind(&uri).unwrap());
    check_second_version(&Kinds2Client::bind(&uri).unwrap());
}

/// Has a C client call all procedures of Stoop's server.
pub(crate) fn serve_c_client(folder: &Path, transport: &str) {
    let path = socket_path(folder);
    let server = match transport {
        "unix" => start(&format!("onc+unix:{}", path.display())),
        _ => start(&format!("onc+{transport}://127.0.0.1")),
    };
    let place = match transport {
        "unix" => path.to_str().expect("the path is text"),
        _ => server.uris()[0].rsplit_once(':').expect("it has a port").1,
    };
    let status = Command::new(folder.join("client")).args([transport, place]).status();
    assert!(status.expect("the client starts").success(), "over {transport}");
}

/// Serves both versions.
pub(crate) fn start(address: &str) -> RunningServer {
    let service = Arc::new(Service::default());
    let server = Server::new().export(Kinds1Server::new(Arc::clone(&service)));
    server.export(Kinds2Server::new(service)).listen(address).unwrap().start().unwrap()
}

#[test]
fn typed_clients_call_a_c_server() {
    if let Some(folder) = c_programs("typed_clients_call_a_c_server") {
        TRANSPORTS.iter().for_each(|transport| call_c_server(&folder, transport));
    }
}

#[test]
fn a_c_client_calls_a_typed_server() {
    if let Some(folder) = c_programs("a_c_client_calls_a_typed_server") {
        TRANSPORTS.iter().for_each(|transport| serve_c_client(&folder, transport));
    }
}

#[test]
fn a_typed_client_calls_a_typed_server() {
    let server = start("onc+tcp://127.0.0.1");
    check_first_version(&Kinds1Client::bind(&server.uris()[0]).unwrap());
    check_second_version(&Kinds2Client::bind(&server.uris()[0]).unwrap());
}
