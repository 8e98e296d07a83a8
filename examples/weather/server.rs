//! Keeps what weather stations measure, for callers of two protocols at once:
//!
//! ```sh
//! cargo run --example weather-server
//! ```
//!
//! It listens at udp://127.0.0.1:7404 for Stoop's own protocol, and at port 7402 for Sun RPC over UDP and TCP; or at the addresses that
//! are given as arguments (after `--`). With `--register` it tells rpcbind, so that callers of Sun RPC need no port.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use stoop::Server;
use stoop_examples::serve::{exit_code, serve};
use stoop_examples::weather::{Measurement, Station, Weather, WeatherServer};

const ADDRESSES: [&str; 3] = ["udp://127.0.0.1:7404", "onc+udp://127.0.0.1:7402", "onc+tcp://127.0.0.1:7402"];

/// The measurements of all stations, the newest last.
#[derive(Default)]
struct Archive(Mutex<BTreeMap<String, Vec<Measurement>>>);

impl Archive {
    fn stations(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Measurement>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Weather for Archive {
    fn report(&self, station: &str, measurement: &Measurement) -> u32 {
        let mut stations = self.stations();
        let measurements = stations.entry(station.to_owned()).or_default();
        measurements.push(measurement.clone());
        measurements.len() as u32
    }

    fn latest(&self, station: &str, count: u32) -> Vec<Measurement> {
        let stations = self.stations();
        let measurements = stations.get(station).into_iter().flatten();
        measurements.rev().take(count as usize).cloned().collect()
    }

    fn warmest(&self) -> Option<Station> {
        let stations = self.stations();
        let all = stations.iter().filter_map(|(name, measurements)| {
            Some(Station { name: name.clone(), last: measurements.last()?.clone() })
        });
        all.max_by(|one, other| one.last.celsius.total_cmp(&other.last.celsius))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, addresses): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|argument| *argument == "--register");
    let addresses = if addresses.is_empty() { &ADDRESSES } else { &addresses[..] };
    let mut server = Server::new().export(WeatherServer::new(Archive::default()));
    if !options.is_empty() {
        server = server.register();
    }
    exit_code(serve(server, addresses))
}
