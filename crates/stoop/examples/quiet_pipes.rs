//! Measures subscriptions that are quiet: `cargo run --release -p stoop --example quiet_pipes -- [COUNT [SCHEME…]]`.
//!
//! So many calls with a pipe wait for their server, which is another process: the memory that each takes at both ends, and the share of a
//! processor that both need to keep them. A call without a pipe whose answer comes later is measured beside it: it has a lane, too.

use std::io::{BufRead, BufReader, Write, stdin};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use stoop::{Deferred, Limits, Reply, Sender, Server, deferred};

#[stoop::interface]
trait Ticks {
    fn watch(&self, ticks: Sender<u64>) -> Deferred<()>;
    fn wait(&self) -> Deferred<()>;
}

#[derive(Default)]
struct Kept {
    ticks: Mutex<Vec<Sender<u64>>>,
    replies: Mutex<Vec<Reply<()>>>,
}

impl Ticks for Kept {
    fn watch(&self, ticks: Sender<u64>) -> Deferred<()> {
        self.ticks.lock().unwrap().push(ticks);
        self.wait()
    }
    fn wait(&self) -> Deferred<()> {
        let (reply, later) = deferred();
        self.replies.lock().unwrap().push(reply);
        later
    }
}

type Failed = Box<dyn std::error::Error>;

/// The resident KiB of this process, and the hundredths of a second that it has run.
fn figures() -> Result<(u64, u64), Failed> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no figures")?;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let times = stat.split(' ').skip(13).take(2).map(str::parse::<u64>);
    Ok((resident.trim().trim_end_matches(" kB").parse()?, times.sum::<Result<u64, _>>()?))
}

fn serve(address: &str) -> Result<(), Failed> {
    let limits = Limits::new().open_calls(1 << 16);
    let server =
        Server::new().limits(limits).export(TicksServer::new(Kept::default())).listen(address)?.start()?;
    println!("{}", server.uris()[0]);
    for _ in stdin().lines() {
        let (resident, time) = figures()?;
        println!("{resident} {time} {}", server.counters().open);
    }
    Ok(())
}

fn measure(scheme: &str, count: usize, with_pipes: bool) -> Result<(), Failed> {
    let address = stoop::free_address(scheme, "127.0.0.1", &format!("quiet-{}", std::process::id()));
    let mut server = Command::new(std::env::current_exe()?)
        .args(["--serve", &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut says = BufReader::new(server.stdout.take().expect("piped")).lines();
    let mut asks = server.stdin.take().expect("piped");
    let ticks = TicksClient::bind(&says.next().ok_or("the server has ended")??)?;
    let mut ask = || -> Result<[u64; 3], Failed> {
        writeln!(asks, "look")?;
        let line = says.next().ok_or("the server has ended")??;
        let figures: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        Ok(figures.try_into().map_err(|_| "no figures")?)
    };
    let (mut calls, mut ends) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut begin =
        |number: usize, ask: &mut dyn FnMut() -> Result<[u64; 3], Failed>| -> Result<(), Failed> {
            while calls.len() < number {
                match with_pipes {
                    true => {
                        let (call, end) = ticks.watch();
                        calls.push(call);
                        ends.push(end);
                    }
                    false => calls.push(ticks.begin().wait()),
                }
                if calls.len() % 100 == 0 {
                    while ask()?[2] < calls.len() as u64 {}
                }
            }
            Ok(())
        };
    begin(100, &mut ask)?;
    let (theirs, ours) = (ask()?, figures()?);
    begin(count, &mut ask)?;
    // Each call is sent again once, until its server has said that it has it: a few in a millisecond.
    std::thread::sleep(Duration::from_secs(6));
    let (theirs_then, ours_then) = (ask()?, figures()?);
    let each = |before: u64, after: u64| (after - before) as f64 / (count - 100) as f64;
    std::thread::sleep(Duration::from_secs(10));
    let (theirs_after, ours_after) = (ask()?, figures()?);
    let share = |before: u64, after: u64| (after - before) as f64 / 10.0;
    println!(
        "{scheme:6} {count} calls, with pipes {with_pipes}: server {:.2} KiB each, {:.1} % of a processor; caller {:.2} KiB each, {:.1} %",
        each(theirs[0], theirs_then[0]),
        share(theirs_then[1], theirs_after[1]),
        each(ours.0, ours_then.0),
        share(ours_then.1, ours_after.1),
    );
    server.kill()?;
    server.wait()?;
    Ok(())
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (count, schemes) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--serve", address] => return serve(address),
        [] => (10_000, vec!["udp"]),
        [count] => (count.parse()?, vec!["udp"]),
        [count, ref schemes @ ..] => (count.parse()?, schemes.to_vec()),
    };
    schemes.iter().try_for_each(|scheme| {
        [false, true].into_iter().try_for_each(|with_pipes| measure(scheme, count, with_pipes))
    })
}
