//! What sealed bindings cost a server: handshakes a second of its processor, memory of an idle binding, and the calls that a bound caller
//! still makes while handshakes from many addresses flood the server.
//!
//! ```sh
//! cargo run --release -p stoop --features seal --example sealed_server [binds] [memory] [flood]
//! ```
//!
//! Server and attacker are processes of their own. The attacker sends from addresses of the loopback network, with the lowest priority, so
//! that the server's time is measured and not the attacker's.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use stoop::{BindOptions, Security, Server};
use stoop_wire::bind::BindRequest;
use stoop_wire::{BindingId, CallNumber, Challenge, Header, Kind, LaneId};

#[stoop::interface]
trait Lab {
    fn null(&self);
}

struct Idle;

impl Lab for Idle {
    fn null(&self) {}
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A process with a role, which ends when this is dropped.
struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(arguments: &[&str]) -> Outcome<(Self, String)> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("it has an output")?).lines();
        let mut process = Self { child, lines };
        let first = process.line()?;
        Ok((process, first))
    }

    fn line(&mut self) -> Outcome<String> {
        Ok(self.lines.next().ok_or("a process has ended")??)
    }

    /// The counters of handshakes at the server.
    fn counters(&mut self) -> Outcome<String> {
        self.child.stdin.as_mut().ok_or("it has an input")?.write_all(b"\n")?;
        self.line()
    }

    fn of_proc(&self, file: &str) -> Outcome<String> {
        Ok(std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id()))?)
    }

    /// Processor time so far, in seconds.
    fn seconds(&self) -> Outcome<f64> {
        let stat = self.of_proc("stat")?;
        // After the name: user and system time are the fourteenth and fifteenth field, in ticks of 10 ms (proc(5)).
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(ticks as f64 / 100.0)
    }

    /// Bytes of memory.
    fn resident(&self) -> Outcome<u64> {
        let pages = self.of_proc("statm")?.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
        Ok(pages.ok_or("the kernel tells it")? * 4096)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn security(key: &str) -> Outcome<Security> {
    Ok(if key == "none" { Security::none() } else { Security::key_file(key)? })
}

fn serve(key: &str) -> Outcome<()> {
    let server = Server::new().security(security(key)?).export(LabServer::new(Idle));
    let server = server.listen("udp://127.0.0.1:0")?.start()?;
    println!("{}", server.uris()[0]);
    for _ in std::io::stdin().lines() {
        println!("{:?}", server.counters().handshakes);
    }
    Ok(())
}

fn bind(uri: &str, key: &str) -> Outcome<LabClient> {
    let options = BindOptions::new().security(security(key)?).bind_timeout(Duration::from_secs(10));
    Ok(LabClient::bind_with(uri, &options)?)
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", key] => return serve(key),
        ["attack", uri, key] => return attack(uri, key),
        _ => {}
    }
    let folder = std::env::temp_dir().join(format!("stoop-sealed-server-{}", std::process::id()));
    let path = folder.join("key");
    Security::generate_key(&path)?;
    let measured = measure(&path);
    std::fs::remove_dir_all(folder)?;
    measured
}

fn measure(path: &Path) -> Outcome<()> {
    let key = path.to_str().ok_or("the path is a text")?;
    let named: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |part: &str| named.is_empty() || named.iter().any(|it| it == part);
    if is_asked("binds") {
        let (server, uri) = Process::start(&["serve", key])?;
        handshakes(&server, &uri, key)?;
    }
    for (what, key) in [("plain", "none"), ("sealed", key)].into_iter().filter(|_| is_asked("memory")) {
        let (server, uri) = Process::start(&["serve", key])?;
        memory(&server, &uri, (what, key))?;
    }
    if is_asked("flood") {
        let (mut server, uri) = Process::start(&["serve", key])?;
        flood(&mut server, &uri, key)?;
    }
    Ok(())
}

fn handshakes(server: &Process, uri: &str, key: &str) -> Outcome<()> {
    bind(uri, key)?;
    let (before, mut times) = (server.seconds()?, Vec::new());
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let begun = Instant::now();
        bind(uri, key)?;
        times.push(begun.elapsed());
    }
    times.sort();
    let each = (server.seconds()? - before) / times.len() as f64;
    println!(
        "bind: median {:.0} us, {:.0} us of the server's processor: {:.0} a second of one processor",
        times[times.len() / 2].as_secs_f64() * 1e6,
        each * 1e6,
        1.0 / each
    );
    Ok(())
}

fn memory(server: &Process, uri: &str, (what, key): (&str, &str)) -> Outcome<()> {
    let more = |clients: &mut Vec<LabClient>, count: usize| -> Outcome<()> {
        for _ in 0..count {
            let client = bind(uri, key)?;
            client.null()?;
            clients.push(client);
        }
        Ok(())
    };
    let mut clients = Vec::new();
    more(&mut clients, 100)?;
    let before = server.resident()?;
    more(&mut clients, 2000)?;
    // The server forgets handshakes that are over when it next looks, every 15 s, and results that it has retained.
    thread::sleep(Duration::from_secs(32));
    println!("memory: {} bytes for each {what} binding, idle", (server.resident()? - before) / 2000);
    Ok(())
}

/// Calls of a bound caller in a second, and the longest time that another one takes to bind meanwhile.
fn served(uri: &str, key: &str, client: &LabClient) -> Outcome<(f64, Duration)> {
    let (done, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                client.null().expect("a bound caller is served");
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (begun, mut longest) = (Instant::now(), Duration::ZERO);
        let mut bound = Ok(());
        while begun.elapsed() < Duration::from_secs(5) && bound.is_ok() {
            thread::sleep(Duration::from_millis(200));
            let begun = Instant::now();
            bound = bind(uri, key).map(drop);
            longest = longest.max(begun.elapsed());
        }
        done.store(true, Ordering::Relaxed);
        bound?;
        Ok((calls.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64(), longest))
    })
}

fn flood(server: &mut Process, uri: &str, key: &str) -> Outcome<()> {
    let client = bind(uri, key)?;
    let (quiet, _) = served(uri, key, &client)?;
    let (attacker, _) = Process::start(&["attack", uri, key])?;
    let (flooded, longest) = served(uri, key, &client)?;
    drop(attacker);
    println!(
        "flood: a bound caller makes {flooded:.0} calls a second, {quiet:.0} without: {:.2}; another binds within {:.0} ms",
        flooded / quiet,
        longest.as_secs_f64() * 1e3
    );
    println!("{}", server.counters()?);
    Ok(())
}

/// Begins handshakes from ever more addresses, and ends none.
fn attack(uri: &str, key: &str) -> Outcome<()> {
    rustix::process::setpriority_process(None, 19)?;
    let server: SocketAddr = uri.split_once('@').ok_or("it is sealed")?.1.parse()?;
    let (request, hello) = overheard(uri, server, key)?;
    println!("attacking");
    for number in 1_u64.. {
        let [.., high, middle, low] = number.to_be_bytes();
        let socket = UdpSocket::bind(SocketAddr::from(([127, 1 + high, middle, low.max(1)], 0)))?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        socket.connect(server)?;
        // One that is dropped is not waited for.
        let _ = begin(&socket, &request, number, &hello);
    }
    Ok(())
}

fn begin(socket: &UdpSocket, request: &BindRequest, nonce: u64, hello: &[Vec<u8>]) -> Option<()> {
    let mut answer = [0; 2048];
    let mut ask = |cookie| {
        let payload = BindRequest { nonce, cookie, ..request.clone() }.encode();
        let mut header = Header::bare(Kind::Bind, BindingId::NONE, LaneId(0), CallNumber(nonce as u32));
        header.message_len = payload.len() as u32;
        socket.send(&[&header.to_bytes()[..], &payload].concat()).ok()?;
        let len = socket.recv(&mut answer).ok()?;
        Header::parse(&answer[..len]).ok().map(|(header, _)| header)
    };
    let cookie = ask(Challenge(0))?.challenge()?;
    let binding = ask(cookie)?.binding;
    for part in hello {
        let mut part = part.clone();
        part[8..16].copy_from_slice(&binding.0.to_le_bytes());
        socket.send(&part).ok()?;
    }
    Some(())
}

/// The bind request and the packets of the first call of an honest handshake.
fn overheard(uri: &str, server: SocketAddr, key: &str) -> Outcome<(BindRequest, Vec<Vec<u8>>)> {
    let (front, back) =
        (Arc::new(UdpSocket::bind("127.0.0.1:0")?), Arc::new(UdpSocket::bind("127.0.0.1:0")?));
    back.connect(server)?;
    let (sent, caller) = (Arc::new(Mutex::new(Vec::<Vec<u8>>::new())), Arc::new(Mutex::new(None)));
    {
        let (front, back, sent, caller) = (front.clone(), back.clone(), sent.clone(), caller.clone());
        thread::spawn(move || {
            let mut packet = [0; 2048];
            while let Ok((len, from)) = front.recv_from(&mut packet) {
                *caller.lock().unwrap() = Some(from);
                sent.lock().unwrap().push(packet[..len].to_vec());
                let _ = back.send(&packet[..len]);
            }
        });
    }
    let there = front.clone();
    thread::spawn(move || {
        let mut packet = [0; 2048];
        while let Ok(len) = back.recv(&mut packet) {
            if let Some(caller) = *caller.lock().unwrap() {
                let _ = there.send_to(&packet[..len], caller);
            }
        }
    });
    let (named, _) = uri.rsplit_once('@').ok_or("it is sealed")?;
    drop(bind(&format!("{named}@{}", front.local_addr()?), key)?);
    let sent = sent.lock().unwrap();
    let parsed = || sent.iter().filter_map(|packet| Header::parse(packet).ok().map(|of| (of, packet)));
    let request = parsed().find(|((header, _), _)| header.kind == Kind::Bind);
    let request = request.and_then(|((_, payload), _)| BindRequest::decode(payload)).ok_or("it binds")?;
    // The caller's further calls are of the other procedure.
    let is_hello =
        |header: &Header| header.kind == Kind::Call && header.procedure == 0 && !header.binding.is_sealed();
    let hello = parsed().filter(|((header, _), _)| is_hello(header));
    let hello: BTreeMap<u32, Vec<u8>> =
        hello.map(|((header, _), packet)| (header.offset, packet.clone())).collect();
    Ok((request, hello.into_values().collect()))
}
