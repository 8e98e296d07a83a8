//! What a seal costs: calls on a sealed and on a plain binding to one machine, in turns of short slices. Prints the median of each, and of
//! their differences and ratios with the quartiles. The callers' threads have one processor, and those of the servers another.
//!
//! ```sh
//! cargo run --release -p stoop --features seal --example sealed_calls [udp://127.0.0.1:0] [tcp://127.0.0.1:0] ['Null()']
//! ```
//!
//! An argument that is no address is the name of a cell: then no other is measured.
//!
//! Over an Ethernet with two interfaces, of the servers and of the callers, here in a network of its own:
//!
//! ```sh
//! unshare -rn sh -c 'ip link add name s0 type veth peer name c0 && ip link set s0 up && ip link set c0 up &&
//!     cargo run --release -p stoop --features seal,ether --example sealed_calls ether:s0,c0'
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};
use stoop::{BindOptions, Security, Server};

#[stoop::interface]
trait Lab {
    fn null(&self);
    fn max_arg(&self, bytes: &[u8]);
    fn max_result(&self, len: u32) -> Vec<u8>;
}

struct Idle;

impl Lab for Idle {
    fn null(&self) {}

    fn max_arg(&self, bytes: &[u8]) {
        black_box(bytes);
    }

    fn max_result(&self, len: u32) -> Vec<u8> {
        vec![1; len as usize]
    }
}

/// Has the calling thread, and those that it starts, run on one of the first two processors only. Less than two are there: they share it.
fn pin(processor: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// A client, its server, and the server's address for callers.
fn client(
    uri: &str,
    security: Security,
) -> Result<(LabClient, stoop::RunningServer, String), Box<dyn std::error::Error>> {
    let name = if security.public_key().is_some() { "sealed" } else { "plain" };
    let ends = uri.strip_prefix("ether:").and_then(|ends| ends.split_once(','));
    let there = ends.map_or(uri.into(), |(servers, _)| format!("ether://{servers}/{name}"));
    let server = Server::new().security(security.clone()).export(LabServer::new(Idle));
    pin(1);
    let server = server.listen(&there)?.start();
    pin(0);
    let server = server?;
    let uri = server.uris()[0].clone();
    let uri = ends.map_or(uri.clone(), |(servers, callers)| {
        uri.replace(&format!("{servers}/"), &format!("{callers}/"))
    });
    Ok((LabClient::bind_with(&uri, &BindOptions::new().security(security))?, server, uri))
}

/// Median time of a call in a slice, in nanoseconds. The first calls, for which a server may have to wake up, are not counted.
fn slice(mut call: impl FnMut()) -> f64 {
    let (warm, end) = (Instant::now() + Duration::from_millis(1), Instant::now() + Duration::from_millis(11));
    let (mut times, mut begun) = (Vec::with_capacity(10_000), Instant::now());
    while begun < end || times.is_empty() {
        call();
        let now = Instant::now();
        if begun >= warm {
            times.push((now - begun).as_nanos() as f64);
        }
        begun = now;
    }
    quartiles(times)[0]
}

/// The median and the quartiles.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [2, 1, 3].map(|quarter| values[values.len() * quarter / 4])
}

fn compare(name: &str, mut plain: impl FnMut(), mut sealed: impl FnMut()) {
    let mut cells = arguments().filter(|argument| !argument.contains(':')).peekable();
    if cells.peek().is_some() && cells.all(|cell| cell != name) {
        return;
    }
    let pairs: Vec<_> = (0..100).map(|_| (slice(&mut plain), slice(&mut sealed))).collect();
    let of = |pick: fn(&(f64, f64)) -> f64| quartiles(pairs.iter().map(pick).collect());
    let ([plain, ..], [sealed, ..]) = (of(|it| it.0), of(|it| it.1));
    let ([more, less_1, more_3], [ratio, ratio_1, ratio_3]) = (of(|it| it.1 - it.0), of(|it| it.0 / it.1));
    println!(
        "{name:12} plain {plain:9.0} ns  sealed {sealed:9.0} ns  more {more:7.0} ns ({less_1:.0} to {more_3:.0})  of plain {ratio:.2} \
         ({ratio_1:.2} to {ratio_3:.2})"
    );
}

/// Calls that eight threads make, each some.
fn by_eight(client: &LabClient) {
    std::thread::scope(|scope| {
        (0..8).for_each(|_| drop(scope.spawn(|| (0..200).for_each(|_| client.null().unwrap()))));
    });
}

/// Calls of which thirty-two are under way.
fn in_flight(client: &LabClient) {
    let calls = client.begin();
    let pending: Vec<_> = (0..32).map(|_| calls.null()).collect();
    drop(calls);
    stoop::wait_all(pending).into_iter().for_each(|outcome| outcome.unwrap());
}

fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("stoop-sealed-calls-{}", std::process::id()));
    let path = folder.join("key");
    Security::generate_key(&path)?;
    let security = Security::key_file(&path)?;
    std::fs::remove_dir_all(folder)?;
    let named: Vec<String> = arguments().filter(|argument| argument.contains(':')).collect();
    let both = ["udp://127.0.0.1:0", "tcp://127.0.0.1:0"].map(String::from);
    let uris = if named.is_empty() { &both[..] } else { &named[..] };
    uris.iter().try_for_each(|uri| over(uri, &security))
}

fn over(uri: &str, security: &Security) -> Result<(), Box<dyn std::error::Error>> {
    let (plain, _of_plain, plain_uri) = client(uri, Security::none())?;
    let (sealed, _of_sealed, sealed_uri) = client(uri, security.clone())?;
    println!("{uri}");
    compare("Null()", || plain.null().unwrap(), || sealed.null().unwrap());
    compare("8 threads", || by_eight(&plain), || by_eight(&sealed));
    compare("32 in flight", || in_flight(&plain), || in_flight(&sealed));
    let bytes = vec![7; 1400];
    compare("1400 in", || plain.max_arg(&bytes).unwrap(), || sealed.max_arg(&bytes).unwrap());
    let bytes = vec![7; 1 << 20];
    compare("1 MiB in", || plain.max_arg(&bytes).unwrap(), || sealed.max_arg(&bytes).unwrap());
    let out = |client: &LabClient| drop(black_box(client.max_result(1 << 20).unwrap()));
    compare("1 MiB out", || out(&plain), || out(&sealed));
    let bind = |uri: &str, security: &Security| {
        drop(LabClient::bind_with(uri, &BindOptions::new().security(security.clone())).unwrap());
    };
    compare("bind", || bind(&plain_uri, &Security::none()), || bind(&sealed_uri, security));
    Ok(())
}
