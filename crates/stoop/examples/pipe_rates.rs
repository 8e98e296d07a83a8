//! Measures pipes beside calls of the same transport: items of 64 KiB beside calls of 1 MiB, items of 64 bytes, and one item there and
//! back beside `Null()`. `cargo run --release -p stoop --example pipe_rates [MILLISECONDS] [URI…]`.

use std::time::{Duration, Instant};
use stoop::{Receiver, Sender, Server};

#[stoop::interface]
trait Rates {
    fn null(&self);
    /// Takes a large argument.
    fn put(&self, bytes: &[u8]) -> u64;
    /// Gives a large result.
    fn get(&self, len: u32) -> Vec<u8>;
    /// Sends items of that length until it is stopped.
    fn flow(&self, len: u32, items: Sender<[u8]>);
    /// Takes items.
    fn drain(&self, items: Receiver<[u8]>) -> u64;
    /// Gives back each item.
    fn echo(&self, items: Receiver<[u8]>, back: Sender<[u8]>);
}

struct Rated;

impl Rates for Rated {
    fn null(&self) {}
    fn put(&self, bytes: &[u8]) -> u64 {
        bytes.len() as u64
    }
    fn get(&self, len: u32) -> Vec<u8> {
        vec![7; len as usize]
    }
    fn flow(&self, len: u32, items: Sender<[u8]>) {
        let item = vec![7; len as usize];
        while items.send(&item).is_ok() {}
    }
    fn drain(&self, mut items: Receiver<[u8]>) -> u64 {
        let mut sum = 0;
        while let Ok(Some(len)) = items.recv_with(<[u8]>::len) {
            sum += len as u64;
        }
        sum
    }
    fn echo(&self, mut items: Receiver<[u8]>, back: Sender<[u8]>) {
        while let Ok(Some(sent)) = items.recv_with(|item| back.send(item)) {
            if sent.is_err() {
                break;
            }
        }
    }
}

/// Does something over and over for so long. Returns how often in a second.
fn rate(limit: Duration, mut act: impl FnMut()) -> f64 {
    let warm = Instant::now();
    while warm.elapsed() < limit / 4 {
        act();
    }
    let (begun, mut count) = (Instant::now(), 0_u64);
    while begun.elapsed() < limit {
        (0..16).for_each(|_| act());
        count += 16;
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

fn measure(limit: Duration, uri: &str) -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new().export(RatesServer::new(Rated)).listen(uri)?.start()?;
    let client = RatesClient::bind(&server.uris()[0])?;
    let mib = vec![7; 1 << 20];
    let put = rate(limit, || _ = client.put(&mib).unwrap()) * 1.048_576;
    let get = rate(limit, || _ = client.get(1 << 20).unwrap()) * 1.048_576;
    let kib64 = |rate: f64| rate * 0.065_536;
    let item = vec![7; 65_536];
    let (call, items) = client.drain();
    let upload = kib64(rate(limit, || items.send(&item).unwrap()));
    items.finish();
    call.wait()?;
    let (call, mut items) = client.flow(65_536);
    let download = kib64(rate(limit, || _ = items.recv_with(<[u8]>::len).unwrap()));
    drop(items);
    call.wait()?;
    println!(
        "{uri}: MB/s of 64 KiB items up {upload:.0} ({:.2} of calls of 1 MiB: {put:.0}), down {download:.0} ({:.2} of {get:.0})",
        upload / put,
        download / get
    );
    let (call, items) = client.drain();
    let up = rate(limit, || items.send(&[7; 64]).unwrap()) / 1e6;
    items.finish();
    call.wait()?;
    let (call, mut items) = client.flow(64);
    let down = rate(limit, || _ = items.recv_with(<[u8]>::len).unwrap()) / 1e6;
    drop(items);
    call.wait()?;
    println!("{uri}: million items of 64 bytes a second: up {up:.2}, down {down:.2}");
    let null = 1e6 / rate(limit, || client.null().unwrap());
    let begun = 1e6 / rate(limit, || client.begin().null().wait().unwrap());
    let (call, items, mut back) = client.echo();
    let there = 1e6
        / rate(limit, || {
            items.send(&[7; 64]).unwrap();
            back.recv_with(<[u8]>::len).unwrap();
        });
    items.finish();
    call.wait()?;
    println!(
        "{uri}: one item there and back {there:.2} us ({:.2} of Null(): {null:.2}; begun and awaited {begun:.2})",
        there / null
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let millis = arguments.first().and_then(|it| it.parse().ok()).unwrap_or(300);
    let uris = if arguments.len() > 1 { &arguments[1..] } else { &["udp://127.0.0.1:0".to_owned()][..] };
    uris.iter().try_for_each(|uri| measure(Duration::from_millis(millis), uri))
}
