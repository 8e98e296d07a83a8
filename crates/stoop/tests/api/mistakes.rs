//! Forty mistakes, and the errors that users get for them. Each names the cause; for a call, its procedure, its server and whether it ran;
//! and the next step. Those that a compiler finds are in `crates/macros/tests/ui`, those of the command in `crates/cli/tests`.

use crate::harness::processes::{NOBODY, Process, TargetClient, patient};
use crate::harness::transports::address;
use std::fmt::Display;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use stoop::{
    BindOptions, CallError, PacketOptions, ProcedureOptions, Ran, RunningServer, Server, ShmOptions,
    UnixOptions,
};

#[stoop::interface]
trait Shop {
    fn buy(&self, count: u32) -> u32;
    fn sell(&self, name: &str) -> String;
    fn recurse(&self);
    #[one_way]
    fn tell(&self, what: &str);
}

/// What an older build of the caller has.
mod older {
    #[stoop::interface]
    pub(super) trait Shop {
        fn buy(&self, count: u64) -> u32;
    }
    #[stoop::interface]
    pub(super) trait Bank {
        fn pay(&self);
    }
}

/// What a newer build of the caller has.
mod newer {
    #[stoop::interface]
    pub(super) trait Shop {
        fn lend(&self);
    }
}

/// A shop that knows its own address.
struct Honest(OnceLock<String>);

impl Shop for Honest {
    fn buy(&self, count: u32) -> u32 {
        match count {
            0 => panic!("nothing to buy"),
            count => count,
        }
    }
    fn sell(&self, name: &str) -> String {
        name.repeat(1 << 20)
    }
    fn recurse(&self) {
        let itself = ShopClient::bind(self.0.get().unwrap()).unwrap();
        // The server refuses it shortly before its deadline, the earlier the more time it has. On a busy machine that may be too late.
        let mut timeout = SHORT;
        let refused = loop {
            match itself.with_timeout(timeout).buy(1).expect_err("the only worker is busy") {
                refused @ CallError::Refused(..) => break refused,
                _ => timeout *= 2,
            }
        };
        panic!("{refused}");
    }
    fn tell(&self, _: &str) {}
}

const SHORT: Duration = Duration::from_millis(200);

/// A server with one worker and short messages.
fn shop(transport: &str) -> RunningServer {
    let shop = Arc::new(Honest(OnceLock::new()));
    let server = Server::new().workers(1).max_message(64 << 10).panic_texts(true);
    let server = server.export(ShopServer::new(Arc::clone(&shop))).listen(&address(transport)).unwrap();
    let running = server.start().unwrap();
    shop.0.set(running.uris()[0].clone()).unwrap();
    running
}

/// The sentence of an error.
fn said<T>(outcome: Result<T, impl Display>) -> String {
    outcome.err().expect("it is a mistake").to_string()
}

fn bind(uri: &str) -> String {
    said(ShopClient::bind(uri))
}

fn listen(uri: &str) -> String {
    said(Server::new().export(ShopServer::new(Honest(OnceLock::new()))).listen(uri))
}

fn start(change: impl FnOnce(Server) -> Server) -> String {
    let server = Server::new().export(ShopServer::new(Honest(OnceLock::new())));
    said(change(server).listen("udp://127.0.0.1:0").and_then(Server::start))
}

/// An error with what it has to say.
struct Mistake {
    made: &'static str,
    error: String,
    says: Vec<String>,
}

fn mistake<const N: usize>(made: &'static str, error: String, says: [&str; N]) -> Mistake {
    Mistake { made, error, says: says.map(String::from).to_vec() }
}

/// A call's error, which also names the procedure and the server, in sentence and fields, and says whether it ran.
fn failed<T, const N: usize>(
    made: &'static str,
    (procedure, server): (&str, &str),
    outcome: Result<T, CallError>,
    ran: Ran,
    says: [&str; N],
) -> Mistake {
    let error = outcome.err().expect("it is a mistake");
    assert_eq!(error.ran(), ran, "{made}: {error}");
    let callee = error.callee().unwrap_or_else(|| panic!("{made}: {error}"));
    assert_eq!((callee.interface(), callee.procedure()), (Some("Shop"), Some(procedure)), "{made}");
    assert_eq!(callee.server(), Some(server), "{made}");
    let ran = match ran {
        Ran::No => "the procedure did not run",
        Ran::Yes => "the procedure ran",
        Ran::Perhaps => "not known whether the procedure ran",
    };
    let mut mistake = mistake(made, error.to_string(), says);
    mistake.says.extend([format!("Shop.{procedure} at {server}: "), ran.into()]);
    mistake
}

#[track_caller]
fn check(mistakes: Vec<Mistake>) {
    let mut missing = String::new();
    for Mistake { made, error, says } in mistakes {
        println!("{made}\n    {error}");
        for part in says.iter().filter(|part| !error.contains(*part)) {
            missing += &format!("\n{made}: the error lacks {part:?}: {error}");
        }
    }
    assert!(missing.is_empty(), "{missing}");
}

#[test]
fn errors_for_wrong_addresses_and_options_name_the_cause_and_the_next_step() {
    check(vec![
        mistake("no address", bind(""), ["is no address", "udp://HOST:PORT"]),
        mistake("a scheme of another system", bind("http://127.0.0.1:80"), ["`http`", "write local:NAME"]),
        mistake("capitals", bind("UDP://127.0.0.1:1"), ["`UDP`", "udp://HOST:PORT"]),
        mistake(
            "no transport before a port",
            bind("127.0.0.1:7400"),
            ["transport is missing", "udp://HOST:PORT"],
        ),
        mistake("no transport before a path", bind("/run/shop"), ["transport is missing", "unix:/PATH"]),
        mistake("no slashes", bind("udp:127.0.0.1:7400"), ["two slashes"]),
        mistake("slashes before a name", bind("shm://x"), ["shm:NAME"]),
        mistake("slashes before a path", bind("unix://x"), ["unix:"]),
        mistake("slashes before a local name", bind("local://x"), ["local:NAME"]),
        mistake("no port", bind("udp://127.0.0.1"), ["port is missing"]),
        mistake("no such port", bind("tcp://127.0.0.1:70000"), ["0 to 65535"]),
        mistake("no brackets", bind("tcp://::1:7400"), ["[::1]:PORT"]),
        mistake("no host", bind("udp://:7400"), ["0.0.0.0:PORT"]),
        mistake("no name", bind("shm:"), ["name is missing"]),
        mistake("no program", bind("onc+udp://127.0.0.1"), ["program = N"]),
        mistake("slashes at a server", listen("shm://x"), ["shm:NAME"]),
        mistake(
            "a folder that is not there",
            listen("unix:/not-there/x"),
            ["/not-there/x", "make the directory first"],
        ),
        mistake(
            "another machine's address",
            listen("tcp://192.0.2.1:0"),
            ["192.0.2.1", "this machine does not have"],
        ),
        mistake(
            "an option of Unix sockets at a server of UDP",
            start(|server| server.with(UnixOptions::new().allow_user(1))),
            ["UnixOptions", "udp://127.0.0.1:0", "unix: addresses", "leave"],
        ),
        mistake(
            "an option of Unix sockets at a client of TCP",
            said(ShopClient::bind_with(
                "tcp://127.0.0.1:1",
                &BindOptions::new().with(UnixOptions::new().allow_user(1)),
            )),
            ["UnixOptions", "tcp://127.0.0.1:1", "unix: addresses", "leave it out"],
        ),
        mistake(
            "a checksum for shared memory",
            said(ShopClient::bind_with("shm:x", &BindOptions::new().with(PacketOptions::new().checksum()))),
            ["PacketOptions", "udp: and ether:", "leave it out"],
        ),
        mistake(
            "a server's option at a client",
            said(ShopClient::bind_with(
                "shm:x",
                &BindOptions::new().with(ShmOptions::new().in_place(1 << 20)),
            )),
            ["ShmOptions::in_place", "give it to the server"],
        ),
        mistake(
            "options for a procedure that is misspelt",
            start(|server| server.procedure("Shop", "by", ProcedureOptions::new())),
            ["Shop.by", "write the names as in the trait"],
        ),
        mistake(
            "nothing exported",
            said(Server::new().listen("udp://127.0.0.1:0").and_then(Server::start)),
            ["export"],
        ),
    ]);
}

#[test]
fn errors_in_binding_name_the_server_the_cause_and_the_next_step() {
    let running = shop("tcp");
    let uri = running.uris()[0].clone();
    let (dead_udp, dead_tcp) = (address("udp"), format!("tcp://{}", closed_port()));
    let dead_udp = dead_udp.replace(":0", &format!(":{}", closed_port().port()));
    let quick = BindOptions::new().bind_timeout(SHORT);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = format!("udp://{}", silent.local_addr().unwrap());
    let (web, ssh) = (peer("HTTP/1.1 400 Bad Request\r\n\r\n", true), peer("SSH-2.0-OpenSSH_9.2\r\n", false));
    let listening = "is the server running, and at that address?";
    check(vec![
        mistake("a name that no server has", bind("no-such-shop"), ["no-such-shop", listening]),
        mistake("no server over TCP", bind(&dead_tcp), [&dead_tcp, listening]),
        mistake("no server over UDP", bind(&dead_udp), [&dead_udp, listening]),
        mistake("no socket", bind("unix:/tmp/no-such-shop"), ["unix:/tmp/no-such-shop", listening]),
        mistake("no abstract name", bind("unix:@no-such-shop"), ["unix:@no-such-shop", listening]),
        mistake("no shared memory", bind("shm:no-such-shop"), ["shm:no-such-shop", listening]),
        mistake("no server of this process", bind("local:no-such-shop"), ["local:no-such-shop", listening]),
        mistake("a server of HTTP", bind(&web), [&web, "no Stoop server", "check the address"]),
        mistake("a server of SSH", bind(&ssh), [&ssh, "no Stoop server", "check the address"]),
        mistake(
            "a program that does not answer",
            said(ShopClient::bind_with(&silent, &quick)),
            [&silent, "no answer", "is "],
        ),
        mistake(
            "an interface that is not exported",
            said(older::BankClient::bind(&uri)),
            ["Bank", "Shop", &uri, "bind a client"],
        ),
        mistake(
            "another type",
            said(older::ShopClient::bind(&uri)),
            ["Shop::buy", "u64", "u32", "build both from the same interface"],
        ),
        mistake(
            "a procedure that the server lacks",
            said(newer::ShopClient::bind(&uri)),
            ["lend", "build the server from the same interface"],
        ),
        mistake(
            "a port that is taken",
            listen(&uri),
            [&uri, "another server runs there", "choose another address"],
        ),
    ]);
    running.shut_down();
}

#[test]
fn errors_of_calls_name_procedure_server_and_whether_it_ran() {
    for transport in ["local", "shm", "udp", "tcp", "unix"] {
        let running = shop(transport);
        let uri = running.uris()[0].clone();
        let options = patient(&uri).max_message(64 << 10);
        let shop = ShopClient::bind_with(&uri, &options).unwrap();
        let lazy = ShopClient::bind_with(&uri, &BindOptions::new().lazy()).unwrap();
        let mut mistakes = vec![
            failed("a panic", ("buy", &uri), shop.buy(0), Ran::Yes, ["nothing to buy"]),
            failed("a panic, begun", ("buy", &uri), shop.begin().buy(0).wait(), Ran::Yes, ["nothing to buy"]),
            failed("no time", ("buy", &uri), shop.with_timeout(Duration::ZERO).buy(1), Ran::No, ["time"]),
            failed(
                "no time, begun",
                ("buy", &uri),
                shop.with_timeout(Duration::ZERO).begin().buy(1).wait(),
                Ran::No,
                ["time"],
            ),
            failed(
                "no time, lazy",
                ("buy", &uri),
                lazy.with_timeout(Duration::ZERO).buy(1),
                Ran::No,
                ["time"],
            ),
        ];
        // Through the trait nothing is marshaled.
        let long = "x".repeat(1 << 20);
        if transport != "local" {
            mistakes.extend([
                failed(
                    "long arguments",
                    ("sell", &uri),
                    shop.sell(&long),
                    Ran::No,
                    ["max_message", "send less"],
                ),
                failed(
                    "long arguments, one way",
                    ("tell", &uri),
                    shop.tell(&long),
                    Ran::No,
                    ["max_message", "send less"],
                ),
                failed("a long result", ("sell", &uri), shop.sell("x"), Ran::Yes, ["pieces"]),
            ]);
            let recursed = said(shop.recurse());
            println!("{recursed}");
            let says = ["Shop.recurse at", "Shop.buy at", "more workers"];
            mistakes.push(mistake("a call to itself with one worker", recursed, says));
        }
        running.shut_down();
        let (brief, says) =
            (shop.with_timeout(SHORT), if transport == "local" { ["start one"] } else { [""] });
        mistakes.extend([
            failed("a server that has ended", ("buy", &uri), brief.buy(1), Ran::No, says),
            failed(
                "a server that has ended, begun",
                ("buy", &uri),
                brief.begin().buy(1).wait(),
                Ran::No,
                says,
            ),
        ]);
        check(mistakes);
    }
}

#[test]
fn asynchronous_calls_of_a_lazy_client_name_procedure_and_server() {
    let lazy = BindOptions::new().lazy().timeout(SHORT);
    let shop = ShopClient::bind_with("unix:@no-such-shop", &lazy).unwrap();
    let outcome = crate::harness::runtime::block_on(shop.to_async().buy(1));
    check(vec![
        failed("no server", ("buy", "unix:@no-such-shop"), outcome, Ran::No, ["is the server running"]),
        failed(
            "no server, one way",
            ("tell", "unix:@no-such-shop"),
            shop.tell("x"),
            Ran::No,
            ["is the server running"],
        ),
    ]);
}

#[test]
fn errors_over_sun_rpc_name_program_and_server() {
    let dead = format!("onc+tcp://{}/536870912:1", closed_port());
    let options = stoop::onc::ClientOptions::new().lazy();
    let client = stoop::onc::Client::bind_with(&dead, &options).unwrap();
    let begun = client.begin::<(), ()>(1, &()).wait();
    for error in [client.null().unwrap_err(), begun.unwrap_err(), client.send(0, &()).unwrap_err()] {
        let callee = error.callee().unwrap();
        assert_eq!(callee.interface(), Some("program 536870912 version 1"));
        assert_eq!(callee.server(), Some(&*dead));
        let text = error.to_string();
        assert!(text.starts_with("program 536870912 version 1 procedure "), "{text}");
        assert!(text.contains("did not run") && text.contains("is the server running"), "{text}");
    }
}

#[test]
fn errors_at_sockets_that_are_denied_say_how_to_allow_them() {
    if !rustix::process::geteuid().is_root() || Process::command("nothing", "").uid(NOBODY).output().is_err()
    {
        println!(
            "SKIPPED: errors_at_sockets_that_are_denied_say_how_to_allow_them: only root can start processes of other users"
        );
        return;
    }
    let path = std::env::temp_dir().join(format!("stoop-denied-{}", std::process::id()));
    let uri = format!("unix:{}", path.display());
    let running =
        Server::new().export(ShopServer::new(Honest(OnceLock::new()))).listen(&uri).unwrap().start().unwrap();
    let of_nobody = || {
        let mut command = Process::command("bind-denied", &uri);
        let output = Process::as_user(&mut command, NOBODY, NOBODY).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let by_chmod = of_nobody();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    check(vec![
        mistake("a socket denied by chmod", by_chmod, [&uri, "Permission denied", "chmod"]),
        mistake("a socket denied by the server", of_nobody(), [&uri, "of its own user only", "allow_user"]),
    ]);
    running.shut_down();
}

/// Plays the client of another user; `false`: the role is another.
pub(crate) fn play(role: &str, uri: &str) -> bool {
    let is_mine = role == "bind-denied";
    if is_mine {
        println!("{}", said(TargetClient::bind_with(uri, &patient(uri))));
    }
    is_mine
}

/// An address at which no program listens.
fn closed_port() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A server of another protocol, for one connection: it says this, after it has been spoken to or before.
fn peer(says: &'static str, after: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        if after {
            stream.read_exact(&mut [0; 1]).unwrap();
        }
        stream.write_all(says.as_bytes()).unwrap();
        // Until the client gives up.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    });
    uri
}
