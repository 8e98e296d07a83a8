//! Measures callbacks beside calls: `cargo run --release --example callbacks -- [SCHEME…]`.
//!
//! In one process, in alternating slices: the median of a call of `null()` and of a callback of `null()`, made by a thread of the server's
//! program that kept the handle, and the median of their ratios; then one-way callbacks a second, until the client has run the last one.
//! With `--clients N` the server is another process: the memory that N clients take there with an object and without one, and the share of
//! a processor that it needs to call each of them once a second, one after the other, and all at once. With `--kept N` it keeps the
//! handles of N clients that have gone: the memory of each, and a callback of another client before and after.

use std::io::{BufRead, BufReader, Lines, Write, stdin};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use stoop::{BindOptions, Server, wait_all};

#[stoop::interface]
trait Guest {
    fn null(&self);
    #[one_way]
    fn told(&self, number: u64);
}

#[stoop::interface(callback = Guest)]
trait Room {
    fn null(&self);
    fn join(&self, #[callback] guest: GuestClient);
}

#[derive(Clone, Default)]
struct Hall(Arc<Mutex<Vec<GuestClient>>>);

impl Room for Hall {
    fn null(&self) {}
    fn join(&self, guest: GuestClient) {
        self.0.lock().unwrap().push(guest);
    }
}

#[derive(Clone, Default)]
struct Counter(Arc<AtomicU64>);

impl Guest for Counter {
    fn null(&self) {}
    fn told(&self, number: u64) {
        self.0.store(number, Ordering::Release);
    }
}

type Failed = Box<dyn std::error::Error>;

const SLICES: usize = 60;
/// Many, so that threads which are woken at the beginning of a slice count for little.
const CALLS: usize = 500;
const TOLD: u64 = 300_000;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The mean of some calls, in microseconds.
fn slice(mut call: impl FnMut()) -> f64 {
    let begun = Instant::now();
    (0..CALLS).for_each(|_| call());
    begun.elapsed().as_secs_f64() * 1e6 / CALLS as f64
}

fn measure(scheme: &str) -> Result<(), Failed> {
    let (hall, counter) = (Hall::default(), Counter::default());
    let address = stoop::free_address(scheme, "127.0.0.1", &format!("callbacks-{}", std::process::id()));
    let server = Server::new().export(RoomServer::new(hall.clone())).listen(&address)?.start()?;
    let options = BindOptions::new().callback(GuestServer::new(counter.clone()));
    let room = RoomClient::bind_with(&server.uris()[0], &options)?;
    room.join()?;
    let guest = hall.0.lock().unwrap()[0].clone();
    let (mut calls, mut callbacks, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SLICES {
        let call = slice(|| room.null().unwrap());
        let callback = slice(|| guest.null().unwrap());
        calls.push(call);
        callbacks.push(callback);
        ratios.push(callback / call);
    }
    let begun = Instant::now();
    (1..=TOLD).try_for_each(|number| guest.told(number))?;
    while counter.0.load(Ordering::Acquire) < TOLD {
        std::thread::yield_now();
    }
    let rate = TOLD as f64 / begun.elapsed().as_secs_f64();
    println!(
        "{scheme:6} call {:7.2} µs, callback {:7.2} µs, ratio {:.2}; one-way {:.2} M/s",
        median(calls),
        median(callbacks),
        median(ratios),
        rate / 1e6
    );
    Ok(())
}

/// The server of `clients`: it prints its memory and its processor time when it is asked.
fn serve(address: &str) -> Result<(), Failed> {
    let hall = Hall::default();
    let server = Server::new().export(RoomServer::new(hall.clone())).listen(address)?.start()?;
    println!("{}", server.uris()[0]);
    for line in stdin().lines() {
        let (line, begun, guests) = (line?, Instant::now(), hall.0.lock().unwrap().clone());
        match &*line {
            "first" => {
                // Of one client, by itself.
                let micros = median((0..SLICES).map(|_| slice(|| guests[0].null().unwrap())).collect());
                println!("{} {}", micros as u64, guests.len());
                continue;
            }
            "call" => guests.iter().for_each(|guest| guest.null().unwrap()),
            "begin" => {
                let calls: Vec<_> = guests.iter().map(|guest| guest.begin().null()).collect();
                wait_all(calls).into_iter().for_each(|ended| ended.unwrap());
            }
            _ => {}
        }
        if line != "look" {
            std::thread::sleep(Duration::from_secs(1).saturating_sub(begun.elapsed()));
        }
        let status = std::fs::read_to_string("/proc/self/status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let times: Vec<u64> =
            stat.split(' ').skip(13).take(2).map(|time| time.parse().unwrap_or(0)).collect();
        println!("{} {}", resident.trim().trim_end_matches(" kB"), times.iter().sum::<u64>());
    }
    Ok(())
}

/// The server, as another process.
struct Serving {
    process: Child,
    says: Lines<BufReader<ChildStdout>>,
    asks: ChildStdin,
    uri: String,
}

impl Serving {
    fn start(scheme: &str) -> Result<Self, Failed> {
        let address = stoop::free_address(scheme, "127.0.0.1", &format!("callbacks-{}", std::process::id()));
        let mut process = Command::new(std::env::current_exe()?)
            .args(["--serve", &address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut says = BufReader::new(process.stdout.take().expect("piped")).lines();
        let asks = process.stdin.take().expect("piped");
        let uri = says.next().ok_or("the server has ended")??;
        Ok(Self { process, says, asks, uri })
    }

    fn ask(&mut self, what: &str) -> Result<(u64, u64), Failed> {
        writeln!(self.asks, "{what}")?;
        let line = self.says.next().ok_or("the server has ended")??;
        let (first, second) = line.split_once(' ').ok_or("no figures")?;
        Ok((first.parse()?, second.parse()?))
    }

    fn bind(&self, offers: bool) -> Result<RoomClient, Failed> {
        let options = BindOptions::new();
        let options = if offers { options.callback(GuestServer::new(Counter::default())) } else { options };
        let room = RoomClient::bind_with(&self.uri, &options)?;
        if offers {
            room.join()?
        } else {
            room.null()?
        }
        Ok(room)
    }

    fn bind_many(&self, count: usize, offers: bool) -> Result<Vec<RoomClient>, Failed> {
        (0..count).map(|_| self.bind(offers)).collect()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn clients(scheme: &str, count: usize) -> Result<(), Failed> {
    for offers in [false, true] {
        let mut server = Serving::start(scheme)?;
        let warm = server.bind_many(20, offers)?;
        let before = server.ask("look")?;
        let all = server.bind_many(count, offers)?;
        let after = server.ask("look")?;
        let kib = (after.0 - before.0) as f64 / count as f64;
        println!("{scheme:6} {count} clients, offers {offers}: {kib:.2} KiB each at the server");
        for how in if offers { &["call", "begin"][..] } else { &[] } {
            let (seconds, begun) = (10, server.ask(how)?);
            let ended = (0..seconds).try_fold(begun, |_, _| server.ask(how))?;
            let share = (ended.1 - begun.1) as f64 / seconds as f64; // ticks of a hundredth
            println!(
                "{scheme:6} {count} clients, each called once a second, {how}: {share:.1} % of a processor"
            );
        }
        drop((warm, all));
    }
    Ok(())
}

fn kept(scheme: &str, count: usize) -> Result<(), Failed> {
    let mut server = Serving::start(scheme)?;
    let _first = server.bind(true)?;
    drop(server.bind_many(20, true)?);
    let (before, (quick, _)) = (server.ask("look")?, server.ask("first")?);
    (0..count).try_for_each(|_| server.bind(true).map(drop))?;
    let (after, (late, handles)) = (server.ask("look")?, server.ask("first")?);
    let kib = (after.0 - before.0) as f64 / count as f64;
    println!(
        "{scheme:6} {handles} handles kept: {kib:.2} KiB each; a callback takes {quick} µs before, {late} µs after"
    );
    Ok(())
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--serve", address] => serve(address),
        [how @ ("--clients" | "--kept"), count, ref schemes @ ..] => {
            let measure = if how == "--kept" { kept } else { clients };
            schemes.iter().try_for_each(|scheme| measure(scheme, count.parse()?))
        }
        [] => ["local", "shm", "udp", "tcp", "unix"].into_iter().try_for_each(measure),
        ref schemes => schemes.iter().try_for_each(|scheme| measure(scheme)),
    }
}
