//! Prints what a call by bytes costs beside one of emitted stubs: `cargo run --release -p stoop --example dynamic_cost [TRANSPORT…]`.
//!
//! The kinds of clients alternate in short slices; the figure is the median of the ratios of slices that followed each other. Both serve
//! the same values: nothing, and structs of a fixed size. The first half of a slice is not counted: the server of the slice before may
//! still look for calls then, on a processor that this one needs.

use std::time::{Duration, Instant};
use stoop::dynamic::{self, Interface, Procedure, Reader, Writer};
use stoop::{BindOptions, Server};

#[derive(stoop::Data, Clone, Copy, Debug, PartialEq)]
struct Fixed {
    place: [f64; 4],
    number: u64,
    flags: [u16; 6],
}

#[stoop::interface]
trait Test {
    fn null(&self);
    fn move_by(&self, from: &Fixed, by: u64) -> Fixed;
}

struct Plain;

impl Test for Plain {
    fn null(&self) {}
    fn move_by(&self, from: &Fixed, by: u64) -> Fixed {
        Fixed { number: from.number + by, ..*from }
    }
}

const FROM: Fixed = Fixed { place: [0.5; 4], number: 7, flags: [1; 6] };
const SLICES: usize = 201;
const HALF: Duration = Duration::from_millis(5);

/// Nanoseconds of a call.
fn slice_ns(call: &mut dyn FnMut()) -> f64 {
    let mut half_ns = || {
        let (begun, mut calls) = (Instant::now(), 0_u32);
        while begun.elapsed() < HALF {
            (0..50).for_each(|_| call());
            calls += 50;
        }
        begun.elapsed().as_nanos() as f64 / f64::from(calls)
    };
    half_ns();
    half_ns()
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[values.len() * quarter / 4])
}

/// Serves as the emitted stubs do.
fn serve(procedure: u16, arguments: &[u8], result: &mut Writer<'_>) -> Result<(), dynamic::NoResult> {
    let mut arguments = Reader::new(arguments);
    match procedure {
        0 => arguments.finish()?,
        _ => {
            let (from, by) = (arguments.value::<Fixed>()?, arguments.value::<u64>()?);
            arguments.finish()?;
            result.value(&Plain.move_by(&from, by));
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let procedures = TestClient::interface().procedures.iter().map(|each| Procedure::new(each.signature()));
    let interface = Interface::new("Test", procedures)?;
    let given: Vec<String> = std::env::args().skip(1).collect();
    for scheme in ["shm", "udp", "tcp"] {
        if !given.is_empty() && !given.iter().any(|each| each == scheme) {
            continue;
        }
        let address = |end: &str| match scheme {
            "shm" => format!("shm:dynamic-cost-{end}-{}", std::process::id()),
            scheme => format!("{scheme}://127.0.0.1:0"),
        };
        // A server for each client: two bindings at one server would slow each other down over shared memory.
        let stubs = |end: &str| Server::new().export(TestServer::new(Plain)).listen(&address(end))?.start();
        let (stubs, also_stubs) = (stubs("stubs")?, stubs("also-stubs")?);
        let bytes = dynamic::Exported::new(interface, serve);
        let bytes = Server::new().export(bytes).listen(&address("bytes"))?.start()?;
        let options = BindOptions::new();
        let typed = TestClient::bind(&stubs.uris()[0])?;
        let client = dynamic::Client::bind(&also_stubs.uris()[0], interface, &options)?;
        let to_bytes = TestClient::bind(&bytes.uris()[0])?;
        let fails = "it is served";
        let by_bytes = || {
            let write = |arguments: &mut Writer<'_>| {
                arguments.value(&FROM);
                arguments.value(&1_u64);
            };
            let moved = client.call(1, write, |result| result.value::<Fixed>()).expect(fails);
            assert_eq!(moved.number, 8);
        };
        type Calls<'a> = [Box<dyn FnMut() + 'a>; 3];
        let null: Calls<'_> = [
            Box::new(|| typed.null().expect(fails)),
            Box::new(|| client.call(0, |_| {}, |_| Ok(())).expect(fails)),
            Box::new(|| to_bytes.null().expect(fails)),
        ];
        let fixed: Calls<'_> = [
            Box::new(|| assert_eq!(typed.move_by(&FROM, 1).expect(fails).number, 8)),
            Box::new(by_bytes),
            Box::new(|| assert_eq!(to_bytes.move_by(&FROM, 1).expect(fails).number, 8)),
        ];
        for (name, mut calls) in [("Null()", null), ("a fixed struct", fixed)] {
            let mut ns = [const { Vec::new() }; 3];
            for _ in 0..SLICES {
                for (kind, call) in calls.iter_mut().enumerate() {
                    ns[kind].push(slice_ns(call));
                }
            }
            let [_, base, _] = quartiles(ns[0].clone());
            for (kind, end) in [(1, "client"), (2, "server")] {
                let ratios = ns[kind].iter().zip(&ns[0]).map(|(with, without)| with / without).collect();
                let [low, median, high] = quartiles(ratios);
                println!(
                    "{scheme} {name}, {end} by bytes: {median:.3} ({low:.3} to {high:.3}) of {base:.0} ns"
                );
            }
        }
    }
    Ok(())
}
