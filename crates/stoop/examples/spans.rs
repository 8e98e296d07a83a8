//! Calls as spans of OpenTelemetry: of each slow call, of each that fails, and of one in so many of the others.
//!
//! The spans are collected in memory and printed; a program at work sets a provider with an exporter to its collector instead.
//!
//! ```sh
//! cargo run --example spans --features opentelemetry
//! ```

use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use stoop::account::AccountOptions;
use stoop::{BindOptions, Server};

#[stoop::interface]
trait Store {
    fn get(&self, key: u64) -> u64;
}

struct Memory;

impl Store for Memory {
    fn get(&self, key: u64) -> u64 {
        key
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::new().export(StoreServer::new(Memory)).listen("udp://127.0.0.1:0")?.start()?;

    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    opentelemetry::global::set_tracer_provider(provider);

    let options = BindOptions::new().account(AccountOptions::new().spans(100));
    let store = StoreClient::bind_with(&server.uris()[0], &options)?;
    for key in 0..1000 {
        store.get(key)?;
    }
    for span in exporter.get_finished_spans()? {
        let took = span.end_time.duration_since(span.start_time)?;
        println!("{} took {took:?}: {:?}", span.name, span.attributes);
    }
    Ok(())
}
