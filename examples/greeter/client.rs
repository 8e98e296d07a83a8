//! Has itself greeted by the greeter, which runs already (`cargo run --example greeter-server`):
//!
//! ```sh
//! cargo run --example greeter-client
//! ```
//!
//! It calls udp://127.0.0.1:7400, or the address that is given as an argument (after `--`).

use std::error::Error;
use stoop_examples::greeter::GreeterClient;

fn call(uri: &str) -> Result<(), Box<dyn Error>> {
    let greeter = GreeterClient::bind(uri)?;
    println!("{}", greeter.greet("world")?);
    Ok(())
}

fn main() {
    let uri = std::env::args().nth(1);
    if let Err(why) = call(uri.as_deref().unwrap_or("udp://127.0.0.1:7400")) {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
