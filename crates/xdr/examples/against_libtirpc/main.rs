//! How long encoding and decoding take, against libtirpc in the same run: `cargo run --release -p stoop-xdr --example
//! against_libtirpc`
//!
//! Both sides take turns in short slices, on the same values. What is printed is the median of the slices with its
//! quartiles, and the ratio of the sums of encoding and decoding. Both write into memory that is there; both allocate
//! what they decode, and free it.

// Emitted from types.x (see make), which formats it in its own way.
#[rustfmt::skip]
#[allow(dead_code, unreachable_pub)]
mod types;

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;
use stoop_xdr::{DecodeOwned, Encode, Reader, Writer, encoded_len};
use types::{
    Attributes, Device, Entry, FileType, Handle, Listing, MaybeAttributes, MaybeHandle, Moment, Point, Points,
};

/// How often both sides take their turn.
const SLICES: usize = 200;

/// Nanoseconds that one value takes.
#[derive(Clone, Copy)]
struct Times {
    encode: f64,
    decode: f64,
}

/// The other side.
struct Peer {
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start() -> Result<Self, String> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/against_libtirpc");
        let folder = std::env::temp_dir().join(format!("stoop-xdr-{}", std::process::id()));
        let made =
            Command::new(here.join("make")).arg(&folder).status().map_err(|error| error.to_string())?;
        let started = Command::new(folder.join("peer")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let _ = std::fs::remove_dir_all(&folder);
        let mut process = started.map_err(|error| format!("{error}; make ended with {made}"))?;
        let questions = process.stdin.take().expect("it was piped");
        let answers = BufReader::new(process.stdout.take().expect("it was piped"));
        Ok(Self { questions, answers })
    }

    /// The times of libtirpc, and the sum of the bytes that it writes.
    fn measure(&mut self, name: &str, count: u32) -> (Times, u64) {
        writeln!(self.questions, "{name} {count}").expect("the peer reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the peer answers");
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        let [encode, decode, sum] = numbers[..] else { panic!("expected three numbers: {line}") };
        (times(encode as f64, decode as f64, count), sum)
    }
}

fn times(encode: f64, decode: f64, count: u32) -> Times {
    Times { encode: encode / f64::from(count), decode: decode / f64::from(count) }
}

/// Our times, and the sum of the bytes.
fn measure<T: Encode + DecodeOwned>(value: &T, memory: &mut [u8], count: u32) -> (Times, u64) {
    let begun = Instant::now();
    for _ in 0..count {
        let mut writer = Writer::new(memory);
        writer.value(black_box(value));
        black_box(writer.finish().expect("the value fits"));
    }
    let encoded = Instant::now();
    for _ in 0..count {
        black_box(Reader::new(black_box(memory)).value::<T>().expect("it was written"));
    }
    let decoded = encoded.elapsed();
    let sum = memory.iter().map(|byte| u64::from(*byte)).sum();
    (times((encoded - begun).as_nanos() as f64, decoded.as_nanos() as f64, count), sum)
}

/// Lower quartile, median and upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[values.len() * quarter / 4])
}

fn compare<T: Encode + DecodeOwned>(peer: &mut Peer, name: &str, value: &T, count: u32) {
    let mut memory = vec![0; encoded_len(value).expect("the value has a form")];
    let slices: Vec<(Times, Times)> = (0..SLICES)
        .map(|_| {
            let (ours, our_sum) = measure(value, &mut memory, count);
            let (theirs, their_sum) = peer.measure(name, count);
            assert_eq!(our_sum, their_sum, "both write the same bytes");
            (ours, theirs)
        })
        .collect();
    println!("{name}: {} bytes, {SLICES} slices of {count}", memory.len());
    let line = |what: &str, unit: &str, of: &dyn Fn(&(Times, Times)) -> f64| {
        let [low, median, high] = quartiles(slices.iter().map(of).collect());
        println!("  {what:<18} {median:8.2} {unit} ({low:.2} to {high:.2})");
    };
    line("encode, here", "µs", &|(ours, _)| ours.encode / 1000.0);
    line("encode, libtirpc", "µs", &|(_, theirs)| theirs.encode / 1000.0);
    line("decode, here", "µs", &|(ours, _)| ours.decode / 1000.0);
    line("decode, libtirpc", "µs", &|(_, theirs)| theirs.decode / 1000.0);
    line("ratio of both", "", &|(ours, theirs)| {
        (theirs.encode + theirs.decode) / (ours.encode + ours.decode)
    });
}

fn points() -> Points {
    let point = |at: u32| Point { a: at, b: -(at as i32), c: i64::from(at) * 1000 };
    Points((0..10_000).map(point).collect())
}

fn listing() -> Listing {
    let moment = |seconds, nanos| Moment { seconds, nanos };
    let attributes = Attributes {
        kind: FileType::Regular,
        mode: 0o644,
        links: 1,
        uid: 0,
        gid: 0,
        size: 123,
        used: 456,
        device: Device { major: 0, minor: 0 },
        file_system: 7,
        file: 8,
        read: moment(1, 2),
        written: moment(3, 4),
        changed: moment(5, 6),
    };
    let entry = |at: u64| Entry {
        file: at,
        name: format!("file name {at}"),
        cookie: at,
        attributes: MaybeAttributes::True(attributes.clone()),
        handle: MaybeHandle::True(Handle { data: vec![0; 32] }),
    };
    let entries = (0..100).map(entry).collect();
    let directory = MaybeAttributes::True(attributes.clone());
    Listing { directory, verifier: [0; 8], entries, is_complete: true }
}

fn main() {
    let mut peer = match Peer::start() {
        Ok(peer) => peer,
        Err(why) => return println!("libtirpc's side does not compile or run: {why}"),
    };
    compare(&mut peer, "points", &points(), 2);
    compare(&mut peer, "listing", &listing(), 20);
}
