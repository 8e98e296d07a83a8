//! The two ends of a peer's program: the server that runs until its standard input ends, and the client that makes slices of calls
//! as its standard input asks for them.
//!
//! `PROGRAM serve` prints the address of the server in a line of its own. `PROGRAM call ADDRESS` answers each line
//! `PROCEDURE BYTES CALLERS MILLISECONDS` by a line `CALLS CALLS/S P50 P90 P99 P999`: how many calls all callers made together, their
//! rate, and percentiles of the time of one call, in nanoseconds. The procedures are `null`, `put` (an argument of so many bytes) and
//! `get` (a result of so many bytes). For `stream` the calls are items of so many bytes that the server sends to one caller without an end.

use std::fmt::Debug;
use std::io::{BufRead, Read, Write};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// A procedure of the Test interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procedure {
    /// No argument, no result.
    Null,
    /// An argument of so many bytes.
    Put(usize),
    /// A result of so many bytes, each of them [`MARK`].
    Get(usize),
}

/// Each byte of an argument and of a result.
pub const MARK: u8 = 0x5a;

/// Bytes of the longest argument or result.
pub const LONGEST: usize = 1 << 20;

/// Calls of one procedure for a time.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The procedure that is called.
    pub procedure: Procedure,
    /// How many callers call at the same time, each with one call outstanding.
    pub callers: usize,
    /// The time during which they begin calls.
    pub time: Duration,
}

impl Slice {
    /// An argument of the procedure, or room for its result.
    pub fn bytes(&self) -> Vec<u8> {
        match self.procedure {
            Procedure::Null => Vec::new(),
            Procedure::Put(length) | Procedure::Get(length) => vec![MARK; length],
        }
    }
}

/// The nanoseconds of each call of one caller.
pub type Times = Vec<u64>;

/// The role of a process.
pub enum Role {
    /// A server, which prints its address by [`ready`].
    Serve,
    /// A client of the server at this address, which makes [`slices`].
    Call(String),
}

/// The role that the program's arguments name, and the arguments after it.
///
/// # Panics
///
/// If they name none.
pub fn role() -> (Role, Vec<String>) {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("serve") => (Role::Serve, words.collect()),
        Some("call") => (Role::Call(words.next().expect("call ADDRESS")), words.collect()),
        _ => panic!("the first argument is `serve` or `call ADDRESS`"),
    }
}

/// Prints the server's address, and returns when standard input has ended.
pub fn ready(address: &str) {
    println!("{address}");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Calls `run` for each slice that standard input asks for, and prints its figures.
///
/// # Panics
///
/// If a line is not one of those that the crate's documentation describes.
pub fn slices(run: impl FnMut(Slice) -> Vec<Times>) {
    slices_and_streams(run, |_| panic!("the program has no streams"));
}

/// As [`slices`]; `receive` receives the items of a stream, each as long as the result of a `get`, until the slice's time is over.
///
/// # Panics
///
/// As [`slices`].
pub fn slices_and_streams(mut run: impl FnMut(Slice) -> Vec<Times>, mut receive: impl FnMut(Slice) -> Times) {
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input is text");
        let times = match line.strip_prefix("stream ") {
            Some(rest) => vec![receive(parse(&format!("get {rest}")))],
            None => run(parse(&line)),
        };
        println!("{}", answer(times));
        std::io::stdout().flush().expect("somebody reads the answers");
    }
}

fn parse(line: &str) -> Slice {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [procedure, bytes, callers, milliseconds] = words[..] else {
        panic!("`{line}` is not PROCEDURE BYTES CALLERS MILLISECONDS");
    };
    let number = |word: &str| word.parse::<usize>().expect("a number");
    let procedure = match procedure {
        "null" => Procedure::Null,
        "put" => Procedure::Put(number(bytes)),
        "get" => Procedure::Get(number(bytes)),
        other => panic!("{other} is no procedure of the Test interface"),
    };
    Slice { procedure, callers: number(callers), time: Duration::from_millis(number(milliseconds) as u64) }
}

fn answer(callers: Vec<Times>) -> String {
    let rate = |times: &Times| times.len() as f64 * 1e9 / times.iter().sum::<u64>() as f64;
    let rate = callers.iter().map(rate).sum::<f64>();
    let mut times: Times = callers.into_iter().flatten().collect();
    times.sort_unstable();
    let share = |share: f64| times[((times.len() as f64 * share) as usize).min(times.len() - 1)];
    format!("{} {rate:.0} {} {} {} {}", times.len(), share(0.5), share(0.9), share(0.99), share(0.999))
}

/// Calls again and again until the slice's time is over: one caller that blocks.
pub fn repeat(slice: Slice, mut call: impl FnMut()) -> Times {
    let mut calls = Calls::begin(slice);
    while calls.go_on() {
        call();
    }
    calls.times
}

/// Runs each caller in a thread, which repeats the call that `caller` returns for it. All begin together.
///
/// # Panics
///
/// If a caller panics.
pub fn threads<Call: FnMut()>(slice: Slice, caller: impl Fn() -> Call + Sync) -> Vec<Times> {
    let begin = Barrier::new(slice.callers);
    let call_repeatedly = || {
        let call = caller();
        begin.wait();
        repeat(slice, call)
    };
    thread::scope(|scope| {
        let callers: Vec<_> = (0..slice.callers).map(|_| scope.spawn(call_repeatedly)).collect();
        callers.into_iter().map(|caller| caller.join().expect("no caller panics")).collect()
    })
}

/// Runs each caller in a task that `caller` spawns.
///
/// # Panics
///
/// If a task panics.
pub async fn tasks<Error: Debug, Task: Future<Output = Result<Times, Error>>>(
    slice: Slice,
    caller: impl Fn() -> Task,
) -> Vec<Times> {
    let callers: Vec<Task> = (0..slice.callers).map(|_| caller()).collect();
    let mut times = Vec::new();
    for caller in callers {
        times.push(caller.await.expect("no caller panics"));
    }
    times
}

/// The calls of one caller: a loop `while calls.go_on()` makes one in each turn.
pub struct Calls {
    end: Instant,
    last: Option<Instant>,
    /// The nanoseconds of each call that has ended.
    pub times: Times,
}

impl Calls {
    /// The slice's time begins.
    pub fn begin(slice: Slice) -> Self {
        Calls { end: Instant::now() + slice.time, last: None, times: Vec::with_capacity(1 << 16) }
    }

    /// Records the time of the call since the last turn, and returns whether there is time for another.
    pub fn go_on(&mut self) -> bool {
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            self.times.push((now - last).as_nanos() as u64);
        }
        now < self.end
    }
}
