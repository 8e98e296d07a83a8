//! Reports measurements to the weather server, which runs already (`cargo run --example weather-server`), and asks for them:
//!
//! ```sh
//! cargo run --example weather-client -- onc+udp://127.0.0.1:7402
//! ```
//!
//! The address says by which protocol: udp://127.0.0.1:7404 is Stoop's own, onc+udp://127.0.0.1:7402 is Sun RPC. The rest of the program
//! is the same.

use std::error::Error;
use stoop_examples::weather::{Measurement, WeatherClient};

fn call(uri: &str) -> Result<(), Box<dyn Error>> {
    let weather = WeatherClient::bind(uri)?;
    for (hour, celsius) in [(9, 11.5), (12, 17.0), (15, 16.5)] {
        let known = weather.report("harbour", &Measurement { time: hour * 3600, celsius })?;
        println!("{celsius:.1} °C is measurement {known} of the harbour");
    }
    for measurement in weather.latest("harbour", 2)? {
        println!("at {} o'clock: {:.1} °C", measurement.time / 3600, measurement.celsius);
    }
    if let Some(station) = weather.warmest()? {
        println!("{:.1} °C at the warmest station, {}", station.last.celsius, station.name);
    }
    Ok(())
}

fn main() {
    let uri = std::env::args().nth(1);
    if let Err(why) = call(uri.as_deref().unwrap_or("udp://127.0.0.1:7404")) {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
