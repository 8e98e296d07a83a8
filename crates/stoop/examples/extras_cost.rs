//! Prints what an interceptor that does nothing adds to a call, at each end, and what metadata adds at both:
//! `cargo run --release -p stoop --example extras_cost`.
//!
//! Kinds of clients alternate in short slices; the figure is the median of the differences between slices that followed each other.

use std::error::Error;
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

/// Serves over `scheme`, with so many interceptors that do nothing.
fn serve(scheme: &str, count: usize, is_timed: bool) -> Result<stoop::RunningServer, Box<dyn Error>> {
    let address = match scheme {
        "udp" => "udp://127.0.0.1:0".to_owned(),
        _ => format!("{scheme}:extras-cost-{count}-{}", std::process::id()),
    };
    let server = (0..count).fold(Server::new(), |server, _| server.interceptor(NoOp { is_timed }));
    Ok(server.export(TestServer::new(Nothing)).listen(&address)?.start()?)
}

fn bind(server: &stoop::RunningServer, count: usize, is_timed: bool) -> Result<TestClient, Box<dyn Error>> {
    let options = (0..count).fold(BindOptions::new(), |options, _| options.interceptor(NoOp { is_timed }));
    Ok(TestClient::bind_with(&server.uris()[0], &options)?)
}

/// Prints what the calls of one client cost more than those of the other.
fn compare(what: &str, without: &TestClient, with: &TestClient) {
    let (mut base, mut added) = (Vec::new(), Vec::new());
    for _ in 0..SLICES {
        let before = slice_ns(without);
        added.push(slice_ns(with) - before);
        base.push(before);
    }
    let ([_, base, _], [low, median, high]) = (quartiles(base), quartiles(added));
    println!("{what}: {median:+.1} ns ({low:+.1} to {high:+.1}) on {base:.0} ns");
}

fn main() -> Result<(), Box<dyn Error>> {
    for scheme in ["local", "shm", "udp"] {
        // Within the process each end has one interceptor at least, so that all calls take the same way.
        let least = usize::from(scheme == "local");
        for is_timed in [false, true] {
            let timed = if is_timed { "timed" } else { "not timed" };
            let few = serve(scheme, least, is_timed)?;
            let plain = bind(&few, least, is_timed)?;
            let one_more = bind(&few, least + 1, is_timed)?;
            compare(&format!("{scheme:5} one more at the client, {timed}"), &plain, &one_more);
            let more = serve(scheme, least + 1, is_timed)?;
            let at_more = bind(&more, least, is_timed)?;
            compare(&format!("{scheme:5} one more at the server, {timed}"), &plain, &at_more);
        }
        let server = serve(scheme, 0, false)?;
        let plain = bind(&server, 0, false)?;
        let parent: TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
        let traced = plain.with_metadata(Metadata::new().trace_parent(parent));
        compare(&format!("{scheme:5} a traceparent"), &plain, &traced);
        let paired = plain.with_metadata(Metadata::new().set("tenant", [7; 20]));
        compare(&format!("{scheme:5} a pair of 20 bytes"), &plain, &paired);
    }
    Ok(())
}
