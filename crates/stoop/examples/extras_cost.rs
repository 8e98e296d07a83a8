//! Prints what an interceptor that does nothing adds to a call, at each end, and what metadata adds at both:
//! `cargo run --release -p stoop --example extras_cost`.
//!
//! Kinds of clients alternate in short slices; the figure is the median of the differences between slices that followed each other.

use std::time::Instant;
use stoop::intercept::Intercept;
use stoop::{BindOptions, Metadata, Server, TraceParent};

#[stoop::interface]
trait Test {
    fn null(&self);
}

struct Nothing;

impl Test for Nothing {
    fn null(&self) {}
}

/// Does nothing.
struct NoOp {
    is_timed: bool,
}

impl Intercept for NoOp {
    fn is_timed(&self) -> bool {
        self.is_timed
    }
}

const SLICES: usize = 301;
const CALLS: u32 = 2000;

fn slice_ns(client: &TestClient) -> f64 {
    let begun = Instant::now();
    for _ in 0..CALLS {
        client.null().expect("it is served");
    }
    begun.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[values.len() * quarter / 4])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for scheme in ["local", "shm", "udp"] {
        for is_timed in [false, true] {
            let address = |end: &str| match scheme {
                "udp" => "udp://127.0.0.1:0".to_owned(),
                _ => format!("{scheme}:interceptor-cost-{end}-{}", std::process::id()),
            };
            let serve = |end: &str, count: usize| {
                let server =
                    (0..count).fold(Server::new(), |server, _| server.interceptor(NoOp { is_timed }));
                server
                    .export(TestServer::new(Nothing))
                    .listen(&address(end))?
                    .start()
                    .map_err(Box::<dyn std::error::Error>::from)
            };
            let bind = |uri: &str, count: usize| {
                let options =
                    (0..count).fold(BindOptions::new(), |options, _| options.interceptor(NoOp { is_timed }));
                TestClient::bind_with(uri, &options)
            };
            // Within the process each end has one at least, so that all calls take the same way.
            let least = usize::from(scheme == "local");
            let (few, more) = (serve("few", least)?, serve("more", least + 1)?);
            let plain = bind(&few.uris()[0], least)?;
            let parent: TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
            let clients = [
                ("neither", plain.clone()),
                ("one more at the client", bind(&few.uris()[0], least + 1)?),
                ("one more at the server", bind(&more.uris()[0], least)?),
                ("a traceparent", plain.with_metadata(Metadata::new().trace_parent(parent))),
                ("a pair of 20 bytes", plain.with_metadata(Metadata::new().set("tenant", [7; 20]))),
            ];
            let mut ns = [const { Vec::new() }; 5];
            for _ in 0..SLICES {
                for (kind, (_, client)) in clients.iter().enumerate() {
                    ns[kind].push(slice_ns(client));
                }
            }
            let [_, base, _] = quartiles(ns[0].clone());
            for kind in 1..clients.len() {
                let added = ns[kind].iter().zip(&ns[0]).map(|(with, without)| with - without).collect();
                let ([low, median, high], what) = (quartiles(added), clients[kind].0);
                let timed = if is_timed { "timed" } else { "not timed" };
                println!(
                    "{scheme:5} {timed:9} {what}: {median:+.1} ns ({low:+.1} to {high:+.1}) on {base:.0} ns"
                );
            }
        }
    }
    Ok(())
}
