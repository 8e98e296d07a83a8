//! How long Null() takes when many threads call on one binding: `many_threads udp 1000 5` for 1,000 threads and five seconds.
//! More than 1,024 threads wait for each other's lanes.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, process, thread};
use stoop::{BindOptions, Server};

#[stoop::interface]
trait Nothing {
    fn null(&self);
}

struct Plain;

impl Nothing for Plain {
    fn null(&self) {}
}

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [scheme, threads, seconds] = &arguments[..] else {
        eprintln!("many_threads SCHEME THREADS SECONDS");
        process::exit(2);
    };
    let threads: usize = threads.parse().expect("THREADS is a number");
    let seconds: u64 = seconds.parse().expect("SECONDS is a number");
    let uri = stoop::free_address(scheme, "127.0.0.1", &format!("many-threads-{}", process::id()));
    let server = Server::new().export(NothingServer::new(Plain)).listen(&uri).unwrap().start().unwrap();
    let options = BindOptions::new().timeout(Duration::from_secs(60));
    let client = NothingClient::bind_with(&server.uris()[0], &options).unwrap();
    let (all, measured, ended) = (Barrier::new(threads + 1), AtomicBool::new(false), AtomicBool::new(false));
    let mut times = Vec::new();
    thread::scope(|scope| {
        let caller = || {
            client.null().unwrap();
            all.wait();
            let mut times = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                let begun = Instant::now();
                client.null().unwrap();
                if measured.load(Ordering::Relaxed) {
                    times.push(begun.elapsed());
                }
            }
            times
        };
        let start = || thread::Builder::new().stack_size(128 * 1024).spawn_scoped(scope, caller).unwrap();
        let callers: Vec<_> = (0..threads).map(|_| start()).collect();
        all.wait();
        thread::sleep(Duration::from_secs(1));
        measured.store(true, Ordering::Relaxed);
        thread::sleep(Duration::from_secs(seconds));
        ended.store(true, Ordering::Relaxed);
        for caller in callers {
            times.extend(caller.join().unwrap());
        }
    });
    times.sort_unstable();
    let rate = times.len() as f64 / seconds as f64;
    let ms = |at: f64| times[((times.len() - 1) as f64 * at) as usize].as_secs_f64() * 1e3;
    println!(
        "{scheme}, {threads} threads: {rate:.0} calls/s; median {:.1} ms, p99.9 {:.1} ms ({:.2} of threads / rate), longest {:.1} ms",
        ms(0.5),
        ms(0.999),
        ms(0.999) / 1e3 * rate / threads as f64,
        ms(1.0),
    );
}
