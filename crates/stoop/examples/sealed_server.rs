//! What sealed bindings cost a server: handshakes a second of its processor, memory of an idle binding, the calls that a bound caller
//! still makes while handshakes from many addresses flood the server, and the time in which callers bind again after a restart.
//!
//! ```sh
//! cargo run --release -p stoop --features seal --example sealed_server [binds] [memory] [flood] [restart]
//! ```
//!
//! Server and attacker are processes of their own. The server has one processor, and callers and the attacker have another. The attacker
//! sends from addresses of the loopback network, with the lowest priority, so that the server's time is measured and not the attacker's. The
//! floor of the flood: the attacker sends as many packets to a socket that no program reads, and the calls are counted meanwhile.

use rustix::process::{Pid, Signal, kill_process, setpriority_process};
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

    /// Handshakes that have begun and have not ended, so far.
    fn begun(&mut self) -> Outcome<u64> {
        let counters = self.counters()?;
        let of = |name: &str| counters.split(name).nth(1)?.split([',', ' ']).next()?.parse::<u64>().ok();
        Ok(of("too_many: ")
            .zip(of("abandoned: "))
            .map(|(many, gone)| many + gone)
            .ok_or("they are counted")?)
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

/// Has the calling thread, and those that it starts, run on one of the first two processors only. Less than two are there: they share it.
fn pin(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn serve(key: &str, port: &str) -> Outcome<()> {
    pin(1);
    let server = Server::new().security(security(key)?).export(LabServer::new(Idle));
    let server = server.listen(&format!("udp://127.0.0.1:{port}"))?.start()?;
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
        ["serve", key, port] => return serve(key, port),
        ["attack", uri, key, to, rate] => return attack(uri, key, to, rate),
        _ => {}
    }
    pin(0);
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
        let (server, uri) = Process::start(&["serve", key, "0"])?;
        handshakes(&server, &uri, key)?;
    }
    for (what, key) in [("plain", "none"), ("sealed", key)].into_iter().filter(|_| is_asked("memory")) {
        let (server, uri) = Process::start(&["serve", key, "0"])?;
        memory(&server, &uri, (what, key))?;
    }
    if is_asked("flood") {
        let (mut server, uri) = Process::start(&["serve", key, "0"])?;
        flood(&mut server, &uri, key)?;
    }
    if is_asked("restart") {
        let (server, uri) = Process::start(&["serve", key, "0"])?;
        restart(server, &uri, key)?;
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

/// Callers that bind again together.
const CALLERS: usize = 2000;

/// How long callers need to bind again to a server that was restarted, while one of them makes calls.
fn restart(server: Process, uri: &str, key: &str) -> Outcome<()> {
    let clients = (0..CALLERS).map(|_| bind(uri, key)).collect::<Outcome<Vec<_>>>()?;
    drop(server);
    let (server, _) = Process::start(&["serve", key, uri.rsplit(':').next().ok_or("it has a port")?])?;
    let (begun, done, calls) = (Instant::now(), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                calls.fetch_add(clients[0].null().is_ok().into(), Ordering::Relaxed);
            }
        });
        thread::scope(|scope| {
            for clients in clients[1..].chunks(CALLERS / 32) {
                scope.spawn(move || clients.iter().for_each(|client| while client.null().is_err() {}));
            }
        });
        done.store(true, Ordering::Relaxed);
    });
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "restart: {CALLERS} callers are bound again after {seconds:.2} s and {:.2} s of the server's processor; one of them makes {:.0} \
         calls a second meanwhile",
        server.seconds()?,
        calls.into_inner() as f64 / seconds
    );
    Ok(())
}

/// What happens in a second of calls.
#[derive(Clone, Copy)]
struct Second {
    calls: f64,
    /// The longest time that another caller took to bind.
    longest: Duration,
    /// Processor time of the server, in seconds.
    server: f64,
}

/// Calls of a bound caller for a second, while others bind.
fn served(server: &Process, uri: &str, key: &str, client: &LabClient) -> Outcome<Second> {
    let (done, calls, before) = (AtomicBool::new(false), AtomicU64::new(0), server.seconds()?);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                client.null().expect("a bound caller is served");
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (begun, mut longest) = (Instant::now(), Duration::ZERO);
        let mut bound = Ok(());
        while begun.elapsed() < Duration::from_secs(1) && bound.is_ok() {
            thread::sleep(Duration::from_millis(200));
            let begun = Instant::now();
            bound = bind(uri, key).map(drop);
            longest = longest.max(begun.elapsed());
        }
        let calls = calls.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
        done.store(true, Ordering::Relaxed);
        bound?;
        Ok(Second { calls, longest, server: (server.seconds()? - before) / begun.elapsed().as_secs_f64() })
    })
}

/// Seconds with and without an attacker, in turns.
const TURNS: usize = 8;

fn flood(server: &mut Process, uri: &str, key: &str) -> Outcome<()> {
    let client = bind(uri, key)?;
    // What it costs that the packets arrive.
    let nobody = UdpSocket::bind("127.0.0.1:0")?;
    let rate = flood_at("flood", (server, uri, key), &client, &["server", "0"])?.to_string();
    flood_at("floor", (server, uri, key), &client, &[&nobody.local_addr()?.to_string(), &rate])?;
    println!("{}", server.counters()?);
    Ok(())
}

/// Has an attacker send to that address, at this rate. Returns the rate at which handshakes began.
fn flood_at(
    what: &str,
    (server, uri, key): (&mut Process, &str, &str),
    client: &LabClient,
    to: &[&str],
) -> Outcome<u64> {
    let (attacker, _) = Process::start(&[&["attack", uri, key], to].concat())?;
    let attacker_id = Pid::from_child(&attacker.child);
    let (mut pairs, before) = (Vec::new(), server.begun()?);
    for _ in 0..TURNS {
        kill_process(attacker_id, Signal::STOP)?;
        let quiet = served(server, uri, key, client)?;
        kill_process(attacker_id, Signal::CONT)?;
        pairs.push((served(server, uri, key, client)?, quiet));
    }
    drop(attacker);
    let rate = (server.begun()? - before) / TURNS as u64;
    let sorted = |of: fn(&(Second, Second)) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let ratios = sorted(|(flooded, quiet)| flooded.calls / quiet.calls);
    println!(
        "{what}: a bound caller makes {:.0} calls a second, of those without {:.2} ({:.2} to {:.2}); another binds within {:.0} ms; \
         {rate} handshakes begin a second; {:.2} of a processor of the server",
        sorted(|it| it.0.calls)[TURNS / 2],
        ratios[TURNS / 2],
        ratios[TURNS / 4],
        ratios[TURNS * 3 / 4],
        sorted(|it| it.0.longest.as_secs_f64() * 1e3)[TURNS - 1],
        sorted(|it| it.0.server)[TURNS / 2],
    );
    Ok(rate)
}

/// Addresses from which an attacker sends at a time.
const GROUP: u64 = 32;

/// The attacker: begins handshakes, each from another address, and finishes none; or sends so many packets a second to a socket that no
/// program reads.
fn attack(uri: &str, key: &str, to: &str, rate: &str) -> Outcome<()> {
    setpriority_process(None, 19)?;
    let server: SocketAddr = uri.split_once('@').ok_or("it is sealed")?.1.parse()?;
    let (request, hello) = overheard(uri, server, key)?;
    let nobody: Option<SocketAddr> = to.parse().ok();
    let rate: u32 = rate.parse()?;
    println!("attacking");
    let mut next = Instant::now();
    for group in 0.. {
        let open = |number: u64| -> Outcome<UdpSocket> {
            let [.., high, middle, low] = number.to_be_bytes();
            let socket = UdpSocket::bind(SocketAddr::from(([127, 1 + high, middle, low.max(1)], 0)))?;
            socket.set_nonblocking(true)?;
            socket.connect(nobody.unwrap_or(server))?;
            Ok(socket)
        };
        let sockets = (1..=GROUP).map(|it| open(group * GROUP + it)).collect::<Outcome<Vec<_>>>()?;
        begin(&sockets, &request, &hello, nobody.is_none());
        if nobody.is_some() {
            next = (next + Duration::from_secs(GROUP) / rate.max(1))
                .max(Instant::now() - Duration::from_millis(100));
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
    Ok(())
}

/// Time for the server's answers to a group.
const ANSWERS: Duration = Duration::from_micros(500);

/// Begins a handshake with each of these sockets, as far as the server answers.
fn begin(sockets: &[UdpSocket], request: &BindRequest, hello: &[Vec<u8>], is_answered: bool) {
    let ask = |socket: &UdpSocket, cookie| {
        let payload = BindRequest { nonce: 1, cookie, ..request.clone() }.encode();
        let mut header = Header::bare(Kind::Bind, BindingId::NONE, LaneId(0), CallNumber(1));
        header.message_len = payload.len() as u32;
        let _ = socket.send(&[&header.to_bytes()[..], &payload].concat());
    };
    let wait = || {
        if is_answered {
            thread::sleep(ANSWERS)
        }
    };
    let answer = |socket: &UdpSocket| {
        let mut answer = [0; 2048];
        let len = socket.recv(&mut answer).ok()?;
        Header::parse(&answer[..len]).ok().map(|(header, _)| header)
    };
    sockets.iter().for_each(|socket| ask(socket, Challenge(0)));
    wait();
    for socket in sockets {
        match answer(socket).and_then(|header| header.challenge()) {
            Some(cookie) => ask(socket, cookie),
            None if !is_answered => ask(socket, Challenge(0)),
            None => {}
        }
    }
    wait();
    for socket in sockets {
        let binding = match answer(socket) {
            Some(header) => header.binding,
            None if !is_answered => BindingId::NONE,
            None => continue,
        };
        for part in hello {
            let mut part = part.clone();
            part[8..16].copy_from_slice(&binding.0.to_le_bytes());
            let _ = socket.send(&part);
        }
    }
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
