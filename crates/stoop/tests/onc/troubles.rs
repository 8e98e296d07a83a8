//! Troubles in the long life of a server: no descriptor left, a kill, a rpcbind that comes and goes, and hosts that take all they can.

use crate::peer::PEER;
use crate::programs::{One, Two};
use crate::sandbox::{self, Process, wait_until};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stoop::onc::rpcbind::Rpcbind;
use stoop::onc::stub::{IncomingCall, NoResult, Program};
use stoop::onc::{Client, ClientOptions, VersionId};
use stoop::{BindError, RunningServer, Server};
use stoop_onc::auth::Auth;
use stoop_onc::message::{self, Call, ProcedureId};
use stoop_onc::{Xid, record};

const SECOND: Duration = Duration::from_secs(1);

/// The role of a process of this program, in its environment.
const ROLE: &str = "STOOP_ONC_ROLE";

fn address(uri: &str) -> SocketAddr {
    uri.rsplit_once('/').expect("an address").1.parse().expect("an address")
}

fn null(xid: u32, program: u32) -> Vec<u8> {
    let procedure = ProcedureId { program, version: 1, procedure: 0 };
    let call = Call { xid: Xid(xid), procedure, credential: Auth::NONE, verifier: Auth::NONE };
    let mut bytes = Vec::new();
    message::append(&call, &(), &mut bytes).expect("it has a form");
    bytes
}

fn null_record(xid: u32, program: u32) -> Vec<u8> {
    let message = null(xid, program);
    [&record::mark(message.len()).expect("it is short")[..], &message].concat()
}

/// Sends a null call on a connection and reads the whole reply.
fn exchange(stream: &mut TcpStream, program: u32) -> std::io::Result<()> {
    stream.write_all(&null_record(1, program))?;
    stream.read_exact(&mut [0; 28])
}

fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(server).expect("the server listens");
    stream.set_read_timeout(Some(20 * SECOND)).expect("a time");
    stream
}

/// Takes all descriptors but so many.
fn take_descriptors(left: usize) -> Vec<fs::File> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).expect("it is less than before");
    let mut taken: Vec<_> = std::iter::from_fn(|| {
        rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).ok().map(fs::File::from)
    })
    .collect();
    taken.truncate(taken.len() - left);
    taken
}

#[test]
fn a_server_without_descriptors_serves_its_connections_and_recovers() {
    sandbox::run("troubles::a_server_without_descriptors_serves_its_connections_and_recovers", || {
        let (begun, has_begun) = sync_channel(1);
        let (let_go, gate) = sync_channel(1);
        let server = Server::new().program(Gate(begun, gate.into())).listen("onc+tcp://127.0.0.1").unwrap();
        let server = server.start().unwrap();
        let at = address(&server.uris()[0]);
        let mut busy = connect(at);
        exchange(&mut busy, 7).unwrap();
        let mut stuck = null_record(2, 7);
        let procedure = stuck.len() - 20;
        stuck[procedure + 3] = 1;
        busy.write_all(&stuck).unwrap();
        has_begun.recv().unwrap();
        // One descriptor for the client's end, and none for the server's.
        let taken = take_descriptors(1);
        let mut late = connect(at);
        late.write_all(&null_record(3, 7)).unwrap();
        // The connection with a call that runs is not closed to make room.
        let_go.send(()).unwrap();
        busy.read_exact(&mut [0; 32]).unwrap();
        // Now it is idle: it goes in place of the late one, or descriptors come back.
        late.read_exact(&mut [0; 28]).unwrap();
        drop(taken);
        exchange(&mut connect(at), 7).unwrap();
    });
}

/// The main function of a process that is killed.
#[test]
fn process() {
    if env::var_os(ROLE).is_some() {
        let server = Server::new().program(One::default()).program(Two).register();
        let server = server.listen("onc+udp://127.0.0.1").unwrap().listen("onc+tcp://127.0.0.1").unwrap();
        server.start().unwrap().wait();
    }
}

fn spawn_server() -> Process {
    let mut command = Command::new(env::current_exe().expect("the test has a path"));
    Process::spawn(command.args(["troubles::process", "--exact"]).env(ROLE, "serve"))
}

fn add(client: &Client) -> bool {
    client.null().is_ok()
}

#[test]
fn a_server_that_is_killed_is_replaced_and_its_clients_find_the_next() {
    sandbox::run("troubles::a_server_that_is_killed_is_replaced_and_its_clients_find_the_next", || {
        let uris = ["udp", "tcp"].map(|transport| format!("onc+{transport}://127.0.0.1/{PEER}:1"));
        let waiting = ClientOptions::new().wait_for_server(30 * SECOND).timeout(2 * SECOND);
        let first = spawn_server();
        let clients = uris.map(|uri| Client::bind_with(&uri, &waiting).expect("it registers"));
        clients.iter().for_each(|client| client.null().unwrap());
        let before = clients.each_ref().map(Client::server);
        // SIGKILL: it unregisters nothing.
        drop(first);
        let _second = spawn_server();
        for client in &clients {
            wait_until("the next server is found", || add(client));
        }
        assert!(clients.iter().zip(before).all(|(client, before)| client.server() != before));
        let entries = Rpcbind::local().unwrap().dump().unwrap();
        assert_eq!(entries.iter().filter(|entry| entry.version.program == PEER).count(), 4, "{entries:?}");
    });
}

/// The rpcbind of the sandbox, which is the only one in its namespace of processes.
fn rpcbind() -> Option<Pid> {
    let processes = fs::read_dir("/proc").expect("it is mounted").filter_map(Result::ok);
    let is_rpcbind = |path: &std::path::Path| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "rpcbind")
    };
    let found = processes.map(|entry| entry.path()).find(|path| is_rpcbind(path))?;
    Pid::from_raw(found.file_name()?.to_str()?.parse().ok()?)
}

#[test]
fn a_rpcbind_that_is_gone_or_silent_holds_nobody_up() {
    sandbox::run("troubles::a_rpcbind_that_is_gone_or_silent_holds_nobody_up", || {
        let start = || -> Result<RunningServer, stoop::ListenError> {
            let server = Server::new().program(One::default()).program(Two).register();
            server.listen("onc+udp://127.0.0.1")?.listen("onc+tcp://127.0.0.1")?.start()
        };
        let server = start().unwrap();
        let uri = format!("onc+udp://127.0.0.1/{PEER}:1");
        let client = Client::bind(&uri).unwrap();
        kill_process(rpcbind().expect("it runs"), Signal::KILL).unwrap();
        let bind = || Client::bind_with(&uri, &ClientOptions::new().bind_timeout(SECOND / 5)).map(drop);
        wait_until("rpcbind is gone", || matches!(bind(), Err(BindError::Rpcbind { .. })));
        client.null().unwrap();
        server.shut_down();
        let why = start().map(drop).unwrap_err().to_string();
        assert!(why.contains("start rpcbind"), "{why}");
        // Something listens there, and never answers.
        let _silent =
            (UdpSocket::bind("127.0.0.1:111").unwrap(), TcpListener::bind("127.0.0.1:111").unwrap());
        for scheme in ["onc+udp", "onc+tcp"] {
            let uri = format!("{scheme}://127.0.0.1/{PEER}:1");
            let options = ClientOptions::new().bind_timeout(SECOND / 5);
            let error = Client::bind_with(&uri, &options).unwrap_err();
            assert!(matches!(error, BindError::Rpcbind { .. }), "{error}");
            // A lazy client's call ends by its own deadline, and was not sent.
            let lazy = Client::bind_with(&uri, &ClientOptions::new().lazy().timeout(SECOND / 5)).unwrap();
            assert_eq!(lazy.null().unwrap_err().ran(), stoop::Ran::No);
        }
    });
}

#[test]
fn a_client_that_dies_in_the_middle_of_a_record_leaves_the_server_whole() {
    let server =
        Server::new().program(One::default()).listen("onc+tcp://127.0.0.1").unwrap().start().unwrap();
    let at = address(&server.uris()[0]);
    for len in [1, 4, 20, 43] {
        let mut dies = connect(at);
        // The kernel closes what a killed process had open. Replies that were not read make that a reset.
        for _ in 0..3 {
            dies.write_all(&null_record(1, PEER)).unwrap();
        }
        dies.write_all(&null_record(2, PEER)[..len]).unwrap();
        drop(dies);
        exchange(&mut connect(at), PEER).unwrap();
    }
    wait_until("the connections are closed", || server.counters().bindings == 0);
}

#[test]
fn a_flood_of_fragments_ends_its_connection() {
    let server =
        Server::new().program(One::default()).listen("onc+tcp://127.0.0.1").unwrap().start().unwrap();
    let at = address(&server.uris()[0]);
    let mut floods = connect(at);
    // One byte each, and none is the last. The server closes the connection at the limit, so that writing fails at last.
    let fragments: Vec<u8> = (0..1000).flat_map(|_| [0, 0, 0, 1, 7]).collect();
    while floods.write_all(&fragments).is_ok() {}
    wait_until("it is counted", || server.counters().malformed == 1);
    // A record beyond the limit ends at its mark, before its bytes.
    let mut long = connect(at);
    long.write_all(&0x8100_0001_u32.to_be_bytes()).unwrap();
    assert_eq!(long.read(&mut [0; 1]).unwrap_or(0), 0);
    exchange(&mut connect(at), PEER).unwrap();
}

/// Its procedure 1 takes until the test lets it go.
struct Gate(SyncSender<()>, Mutex<Receiver<()>>);

impl Program for Gate {
    fn version(&self) -> VersionId {
        VersionId { program: 7, version: 1 }
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        if call.procedure() == 1 {
            self.0.send(()).expect("the test waits");
            let _ = self.1.lock().unwrap().recv();
            return call.reply(&1_u32);
        }
        call.reply(&())
    }
}

/// Its procedure 1 never returns before the gate is dropped.
struct Stuck(Arc<(Mutex<bool>, std::sync::Condvar)>, SyncSender<()>);

impl Program for Stuck {
    fn version(&self) -> VersionId {
        VersionId { program: 7, version: 1 }
    }

    fn dispatch(&self, call: &mut IncomingCall<'_>) -> Result<(), NoResult> {
        if call.procedure() == 1 {
            let _ = self.1.try_send(());
            let is_closed = self.0.0.lock().unwrap();
            drop(self.0.1.wait_while(is_closed, |is_closed| *is_closed).unwrap());
        }
        call.reply(&())
    }
}

/// A connection from another host of the loopback network.
fn connect_from(own: &str, server: SocketAddr) -> TcpStream {
    let own: SocketAddr = format!("{own}:0").parse().unwrap();
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &own).unwrap();
    rustix::net::connect(&socket, &server).unwrap();
    TcpStream::from(socket)
}

#[test]
fn stuck_calls_of_one_host_leave_workers_for_another() {
    let gate = Arc::new((Mutex::new(true), std::sync::Condvar::new()));
    let (begun, has_begun) = sync_channel(64);
    let server = Server::new().program(Stuck(Arc::clone(&gate), begun)).workers(4);
    let server = server.listen("onc+udp://127.0.0.1").unwrap().listen("onc+tcp://127.0.0.1").unwrap();
    let server = server.start().unwrap();
    for uri in server.uris() {
        let client = Client::bind(&format!("{uri}/7:1")).unwrap();
        let stuck: Vec<_> = (0..20).map(|_| client.begin::<_, ()>(1, &())).collect();
        // Three of four workers: more its host does not get.
        (0..3).for_each(|_| has_begun.recv().unwrap());
        let at = address(uri);
        if uri.starts_with("onc+udp") {
            let other = UdpSocket::bind("127.0.0.2:0").unwrap();
            other.connect(at).unwrap();
            for xid in 0..10 {
                other.send(&null(xid, 7)).unwrap();
                assert_eq!(other.recv(&mut [0; 100]).unwrap(), 24);
            }
        } else {
            let mut other = connect_from("127.0.0.2", at);
            (0..10).for_each(|_| exchange(&mut other, 7).unwrap());
        }
        assert!(stuck.iter().all(|call| !call.is_ready()), "{uri}");
        assert!(has_begun.try_recv().is_err(), "{uri}: a fourth call runs");
        stuck.into_iter().for_each(drop);
    }
    *gate.0.lock().unwrap() = false;
    gate.1.notify_all();
}
