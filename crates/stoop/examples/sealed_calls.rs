//! What a seal costs: calls on a sealed and on a plain binding to one machine, in turns of short slices. Prints the median of each, and of
//! their differences or ratios.
//!
//! ```sh
//! cargo run --release -p stoop --features seal --example sealed_calls
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};
use stoop::{BindOptions, Security, Server, Waiting};

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

fn client(
    scheme: &str,
    security: Security,
) -> Result<(LabClient, stoop::RunningServer), Box<dyn std::error::Error>> {
    let server = Server::new().security(security.clone()).export(LabServer::new(Idle));
    let server = server.listen(&format!("{scheme}://127.0.0.1:0"))?.waiting(Waiting::Spin).start()?;
    let options = BindOptions::new().security(security).waiting(Waiting::Spin);
    Ok((LabClient::bind_with(&server.uris()[0], &options)?, server))
}

/// Mean time of a call in a slice, in nanoseconds.
fn slice(mut call: impl FnMut()) -> f64 {
    let (begun, mut calls) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_millis(20) {
        (0..8).for_each(|_| call());
        calls += 8;
    }
    begun.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(name: &str, mut plain: impl FnMut(), mut sealed: impl FnMut()) {
    let pairs: Vec<_> = (0..100).map(|_| (slice(&mut plain), slice(&mut sealed))).collect();
    let of = |pick: fn(&(f64, f64)) -> f64| median(pairs.iter().map(pick).collect());
    let (plain, sealed, more, ratio) =
        (of(|it| it.0), of(|it| it.1), of(|it| it.1 - it.0), of(|it| it.0 / it.1));
    println!(
        "{name:12} plain {plain:9.0} ns  sealed {sealed:9.0} ns  more {more:8.0} ns  of plain {ratio:.2}"
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("stoop-sealed-calls-{}", std::process::id()));
    let path = folder.join("key");
    Security::generate_key(&path)?;
    let security = Security::key_file(&path)?;
    std::fs::remove_dir_all(folder)?;
    ["udp", "tcp"].iter().try_for_each(|scheme| over(scheme, &security))
}

fn over(scheme: &str, security: &Security) -> Result<(), Box<dyn std::error::Error>> {
    let (plain, _of_plain) = client(scheme, Security::none())?;
    let (sealed, _of_sealed) = client(scheme, security.clone())?;
    println!("{}", sealed.binding().describe());
    compare("Null()", || plain.null().unwrap(), || sealed.null().unwrap());
    let bytes = vec![7; 1400];
    compare("1400 in", || plain.max_arg(&bytes).unwrap(), || sealed.max_arg(&bytes).unwrap());
    let bytes = vec![7; 1 << 20];
    compare("1 MiB in", || plain.max_arg(&bytes).unwrap(), || sealed.max_arg(&bytes).unwrap());
    let out = |client: &LabClient| drop(black_box(client.max_result(1 << 20).unwrap()));
    compare("1 MiB out", || out(&plain), || out(&sealed));
    let uri = &_of_sealed.uris()[0];
    let options = BindOptions::new().security(security.clone());
    let binds = (0..100).map(|_| {
        let begun = Instant::now();
        drop(LabClient::bind_with(uri, &options).unwrap());
        begun.elapsed().as_nanos() as f64
    });
    println!("bind         sealed {:9.0} ns", median(binds.collect()));
    Ok(())
}
