//! Measures what answers cost that come later: `cargo run --release -p stoop --example answers [one|backend|waiting|all [TRANSPORT…]]`.
//!
//! Caller and server are two processes with a processor each. Four ways of the same call alternate in slices: a procedure that returns
//! at once, an `async fn` that is ready at once, one that returns a `Deferred` which is answered already, and one whose answer another
//! thread gives. The bare hand-over to that thread is measured beside them. Then: calls that each wait 10 ms, and calls that only wait.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};
use std::{env, fs, thread};
use stoop::{Deferred, Reply, Server, deferred};

#[stoop::interface]
trait Answers {
    fn now(&self);
    async fn ready(&self);
    fn at_once(&self) -> Deferred<()>;
    fn elsewhere(&self) -> Deferred<()>;
    /// Nanoseconds of a hand-over from one thread to another and back, halved.
    fn hand_over(&self) -> u64;
    /// Returns after so many milliseconds, and holds no worker meanwhile.
    async fn awaits(&self, millis: u64);
    /// The same, and holds a worker.
    fn sleeps(&self, millis: u64);
    /// Answers when it is told to.
    fn kept(&self) -> Deferred<()>;
    /// Answers all that are kept.
    fn release(&self);
}

struct Giver {
    replies: Mutex<Sender<Reply<()>>>,
    kept: Mutex<Vec<Reply<()>>>,
}

impl Answers for Giver {
    fn now(&self) {}
    async fn ready(&self) {}
    fn at_once(&self) -> Deferred<()> {
        let (reply, deferred) = deferred();
        let _ = reply.send(());
        deferred
    }
    fn elsewhere(&self) -> Deferred<()> {
        let (reply, deferred) = deferred();
        self.replies.lock().unwrap().send(reply).unwrap();
        deferred
    }
    fn hand_over(&self) -> u64 {
        const TIMES: u32 = 2000;
        let ((there, gone), (back, come)) = (mpsc::channel(), mpsc::channel());
        thread::scope(|scope| {
            scope.spawn(move || gone.iter().for_each(|()| back.send(()).unwrap()));
            let begun = Instant::now();
            for _ in 0..TIMES {
                there.send(()).unwrap();
                come.recv().unwrap();
            }
            drop(there);
            (begun.elapsed() / TIMES / 2).as_nanos() as u64
        })
    }
    async fn awaits(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
    fn sleeps(&self, millis: u64) {
        thread::sleep(Duration::from_millis(millis));
    }
    fn kept(&self) -> Deferred<()> {
        let (reply, deferred) = deferred();
        self.kept.lock().unwrap().push(reply);
        deferred
    }
    fn release(&self) {
        for reply in std::mem::take(&mut *self.kept.lock().unwrap()) {
            let _ = reply.send(());
        }
    }
}

fn pin(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Serves until its input ends; with `runtime`, tasks run there.
fn serve(uri: &str, workers: usize, has_runtime: bool) {
    pin(1);
    let (replies, given) = mpsc::channel::<Reply<()>>();
    thread::spawn(move || {
        for reply in given {
            let _ = reply.send(());
        }
    });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let giver = Giver { replies: Mutex::new(replies), kept: Mutex::default() };
    let mut server = Server::new().export(AnswersServer::new(giver)).workers(workers);
    if has_runtime {
        let handle = runtime.handle().clone();
        server = server.executor(move |task| {
            let _context = handle.enter();
            if let Some(task) = task.start() {
                handle.spawn(task);
            }
        });
    }
    let server = server.listen(uri).unwrap().start().unwrap();
    println!("{}", server.uris()[0]);
    for line in std::io::stdin().lines() {
        let _ = line;
        println!("{} {}", own_cpu().as_nanos(), own_memory());
    }
}

/// Processor time of this process.
fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Bytes of memory of this process.
fn own_memory() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

struct Other {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    uri: String,
}

impl Other {
    fn start(transport: &str, workers: usize, has_runtime: bool) -> Self {
        let uri = match transport {
            "udp" | "tcp" => format!("{transport}://127.0.0.1:0"),
            "unix" => format!("unix:@answers-{}", std::process::id()),
            other => format!("{other}:answers-{}", std::process::id()),
        };
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["serve", &uri, &workers.to_string(), &has_runtime.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap());
        let mut uri = String::new();
        answers.read_line(&mut uri).unwrap();
        Self { process, orders, answers, uri: uri.trim().into() }
    }

    /// Its processor time and its memory.
    fn used(&mut self) -> (Duration, u64) {
        writeln!(self.orders).unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let mut numbers = answer.split_whitespace().map(|number| number.parse::<u64>().unwrap());
        (Duration::from_nanos(numbers.next().unwrap()), numbers.next().unwrap())
    }

    fn bind(&self) -> AnswersClient {
        AnswersClient::bind_with(&self.uri, &stoop::BindOptions::new().timeout(Duration::from_secs(120)))
            .unwrap()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Nanoseconds of a call, over a slice.
fn slice(call: &dyn Fn()) -> f64 {
    let (begun, mut calls) = (Instant::now(), 0_u32);
    while begun.elapsed() < Duration::from_millis(40) {
        (0..16).for_each(|_| call());
        calls += 16;
    }
    begun.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |part: usize| values[(values.len() - 1) * part / 4];
    (at(2), at(1), at(3))
}

fn one_by_one(transport: &str) {
    let other = Other::start(transport, 2, false);
    let client = other.bind();
    type Way<'a> = (&'a str, Box<dyn Fn() + 'a>);
    let ways: [Way<'_>; 4] = [
        ("returns at once", Box::new(|| client.now().unwrap())),
        ("async, ready at once", Box::new(|| client.ready().unwrap())),
        ("deferred, answered at once", Box::new(|| client.at_once().unwrap())),
        ("deferred, by another thread", Box::new(|| client.elsewhere().unwrap())),
    ];
    // The first slice warms up.
    for (_, call) in &ways {
        slice(call);
    }
    let rounds: Vec<Vec<f64>> = (0..15).map(|_| ways.iter().map(|(_, call)| slice(call)).collect()).collect();
    let (hand_over, ..) = median((0..5).map(|_| client.hand_over().unwrap() as f64).collect());
    for (at, (name, _)) in ways.iter().enumerate() {
        let (ns, low, high) = median(rounds.iter().map(|round| round[at]).collect());
        let (ratio, ..) = median(rounds.iter().map(|round| round[at] / round[0]).collect());
        let (more, more_low, more_high) = median(rounds.iter().map(|round| round[at] - round[0]).collect());
        println!(
            "{transport:5} {name:28} {ns:7.0} ns ({low:.0}-{high:.0})  {ratio:.3} times  {more:+.0} ns ({more_low:.0} to {more_high:.0})"
        );
    }
    println!("{transport:5} a bare hand-over              {hand_over:7.0} ns");
}

/// Calls of a second, from 8 threads with 125 in flight each.
fn rate(
    other: &Other,
    begin: impl Fn(&AnswersClient) -> stoop::Pending<Result<(), stoop::CallError>> + Sync,
) -> f64 {
    let (begun, limit) = (Instant::now(), Duration::from_secs(3));
    let calls: u64 = thread::scope(|scope| {
        let callers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let client = other.bind();
                    let mut calls = 0;
                    let mut waiting: std::collections::VecDeque<_> =
                        (0..125).map(|_| begin(&client)).collect();
                    while let Some(call) = waiting.pop_front() {
                        if call.wait().is_ok() {
                            calls += 1;
                        }
                        if begun.elapsed() < limit {
                            waiting.push_back(begin(&client));
                        }
                    }
                    calls
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum()
    });
    calls as f64 / begun.elapsed().as_secs_f64()
}

/// Sleeps of 10 ms a second that 1,000 tasks of the runtime get without any call. Its timer rounds up to the next millisecond.
fn sleeps_of_the_runtime() -> f64 {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let (begun, limit) = (Instant::now(), Duration::from_secs(3));
    let task = || async move {
        let mut sleeps = 0;
        while begun.elapsed() < limit {
            tokio::time::sleep(Duration::from_millis(10)).await;
            sleeps += 1;
        }
        sleeps
    };
    let tasks: Vec<_> = (0..1000).map(|_| runtime.spawn(task())).collect();
    let sleeps: u64 = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).sum();
    sleeps as f64 / begun.elapsed().as_secs_f64()
}

fn backend(transport: &str) {
    let other = Other::start(transport, 2, true);
    let awaits = rate(&other, |client| client.begin().awaits(10));
    let ready = rate(&other, |client| client.begin().ready());
    let sleeps = rate(&other, |client| client.begin().sleeps(10));
    let runtime = sleeps_of_the_runtime();
    println!(
        "{transport:5} 1,000 in flight, each awaits 10 ms: {awaits:.0} calls/s (ready at once: {ready:.0}; blocking: {sleeps:.0}; the runtime without calls: {runtime:.0}); {:.2} of the least",
        awaits / ready.min(100_000.0)
    );
}

fn waiting(transport: &str) {
    const CALLS: usize = 10_000;
    let mut other = Other::start(transport, 4, false);
    let clients: Vec<_> = (0..16).map(|_| other.bind()).collect();
    clients.iter().for_each(|client| client.now().unwrap());
    let ((_, empty), own_empty) = (other.used(), own_memory());
    let calls: Vec<_> = (0..CALLS).map(|at| clients[at % clients.len()].begin().kept()).collect();
    // The calls have arrived when one behind them has returned.
    clients.iter().for_each(|client| client.now().unwrap());
    thread::sleep(Duration::from_secs(2));
    let (before, own_before, begun) = (other.used(), own_cpu(), Instant::now());
    thread::sleep(Duration::from_secs(8));
    let (after, own_after, time) = (other.used(), own_cpu(), begun.elapsed());
    let own_full = own_memory();
    let share =
        |before: Duration, after: Duration| 100.0 * (after - before).as_secs_f64() / time.as_secs_f64();
    let released = Instant::now();
    clients[0].release().unwrap();
    let failures: Vec<_> = calls.into_iter().filter_map(|call| call.wait().err()).collect();
    let failed = failures.len();
    if let Some(first) = failures.first() {
        println!("{transport:5} {first}");
    }
    println!(
        "{transport:5} {CALLS} wait: server {:.2} % of a processor, {} B a call; caller {:.2} %, {} B a call; answered in {:.0} ms, {failed} failed",
        share(before.0, after.0),
        (after.1.saturating_sub(empty)) / CALLS as u64,
        share(own_before, own_after),
        (own_full.saturating_sub(own_empty)) / CALLS as u64,
        released.elapsed().as_secs_f64() * 1e3,
    );
}

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    if let [order, uri, workers, has_runtime] = &args[..]
        && order == "serve"
    {
        return serve(uri, workers.parse().unwrap(), has_runtime == "true");
    }
    let all = ["shm", "udp", "tcp", "unix"].map(String::from);
    let transports = if args.len() < 2 { &all[..] } else { &args[1..] };
    let part = args.first().map_or("all", String::as_str);
    pin(0);
    for (name, measure) in [("one", one_by_one as fn(&str)), ("backend", backend), ("waiting", waiting)] {
        if part == "all" || part == name {
            transports.iter().for_each(|transport| measure(transport));
        }
    }
}
