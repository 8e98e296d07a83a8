//! Serves the greeter:
//!
//! ```sh
//! cargo run --example greeter-server
//! ```
//!
//! It listens at udp://127.0.0.1:7400, or at the address that is given as an argument (after `--`).

use std::error::Error;
use stoop::Server;
use stoop_examples::greeter::{Greeter, GreeterServer};

struct English;

impl Greeter for English {
    fn greet(&self, name: &str) -> String {
        format!("Hello, {name}!")
    }
}

fn serve(uri: &str) -> Result<(), Box<dyn Error>> {
    let server = Server::new().export(GreeterServer::new(English)).listen(uri)?.start()?;
    println!("listening at {}", server.uris()[0]);
    server.wait();
    Ok(())
}

fn main() {
    let uri = std::env::args().nth(1);
    if let Err(why) = serve(uri.as_deref().unwrap_or("udp://127.0.0.1:7400")) {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
