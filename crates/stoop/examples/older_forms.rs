//! Prints what marshaling in an older form costs in comparison with the newest one: nanoseconds to write and read values, and their ratio.
//!
//! `cargo run --release -p stoop --example older_forms`

use std::hint::black_box;
use std::time::Instant;
use stoop::stub::{Data, Form, Reader, Writer};

/// A record with ten fields of all kinds, two of which came later.
#[derive(Clone, Debug, PartialEq, stoop::Data)]
struct Record {
    id: u64,
    name: String,
    size: u32,
    mode: u16,
    flags: [u8; 8],
    place: (f64, f64),
    tags: Vec<String>,
    parent: Option<u64>,
    #[stoop(since = 1, default = 7)]
    links: u32,
    #[stoop(since = 2)]
    owner: Option<String>,
}

/// A fixed record.
#[derive(Clone, Copy, Debug, PartialEq, stoop::Data)]
struct Point {
    x: f64,
    y: f64,
    #[stoop(since = 1)]
    z: f64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, stoop::Data)]
enum Kind {
    #[default]
    Plain,
    #[stoop(since = 2)]
    Marked,
    #[stoop(otherwise)]
    Other,
}

const ROUNDS: usize = 41;

/// Nanoseconds that writing a value takes, and reading it, in the newest form and in an older one.
fn compare<T: Data + PartialEq>(name: &str, value: &T, calls: u32) {
    let form = Form::of_arguments(0);
    let write_newest = |packet: &mut Vec<u8>| {
        let mut writer = Writer::new(packet, 0, 1 << 20);
        black_box(value).encode(&mut writer);
        writer.finish().expect("it fits")
    };
    let write_older = |packet: &mut Vec<u8>| {
        let mut writer = Writer::new(packet, 0, 1 << 20);
        black_box(value).encode_at(&mut writer, form);
        writer.finish().expect("it has its defaults")
    };
    let (mut newest, mut older) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let lens = (write_newest(&mut newest), write_older(&mut older));
    let both = [&mut newest, &mut older];
    compare_times(&format!("{name}: write"), calls, both, write_newest, write_older);
    let read_newest =
        |packet: &mut Vec<u8>| T::decode(&mut Reader::new(&packet[..lens.0])).expect("it was written");
    let read_older = |packet: &mut Vec<u8>| {
        T::decode_at(&mut Reader::new(&packet[..lens.1]), form).expect("it was written")
    };
    compare_times(&format!("{name}: read"), calls, [&mut newest, &mut older], read_newest, read_older);
}

/// Prints what two functions take: the median of many rounds, each of the one and of the other in turn, and the ratio.
fn compare_times<R>(
    name: &str,
    calls: u32,
    [packet, other_packet]: [&mut Vec<u8>; 2],
    newest: impl Fn(&mut Vec<u8>) -> R,
    older: impl Fn(&mut Vec<u8>) -> R,
) {
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        let (one, other) = (time(calls, packet, &newest), time(calls, other_packet, &older));
        [one, other, other / one].into_iter().zip(&mut times).for_each(|(time, all)| all.push(time));
    }
    let [one, other, ratio] = times.map(|mut all| {
        all.sort_by(f64::total_cmp);
        (all[ROUNDS / 2], all[ROUNDS / 10], all[ROUNDS - 1 - ROUNDS / 10])
    });
    println!(
        "{name:<30} {:>9.1} ns {:>9.1} ns   {:.2} ({:.2} to {:.2})",
        one.0, other.0, ratio.0, ratio.1, ratio.2
    );
}

#[inline(never)]
fn time<R>(calls: u32, packet: &mut Vec<u8>, run: impl Fn(&mut Vec<u8>) -> R) -> f64 {
    let begun = Instant::now();
    for _ in 0..calls {
        // The compiler knows neither the bytes before nor those after.
        black_box(run(black_box(packet)));
    }
    begun.elapsed().as_nanos() as f64 / f64::from(calls)
}

fn main() {
    println!("{:<30} {:>12} {:>12}   ratio (of nine in ten)", "", "newest form", "older form");
    let record = Record {
        id: 1,
        name: "a name of some length".into(),
        size: 2,
        mode: 3,
        flags: [4; 8],
        place: (5.0, 6.0),
        tags: vec!["one".into(), "another".into()],
        parent: Some(7),
        links: 7,
        owner: None,
    };
    let point = Point { x: 1.0, y: 2.0, z: 0.0, kind: Kind::Other };
    compare("a record of ten fields", &record, 20_000);
    compare("a hundred of them", &vec![record; 100], 200);
    compare("a fixed record", &point, 100_000);
    compare("a hundred of them", &vec![point; 100], 5_000);
}
