//! Serves the greeter:
//!
//! ```sh
//! cargo run --example greeter-server
//! ```
//!
//! It listens at udp://127.0.0.1:7400, or at the address that is given as an argument (after `--`). Before an address that
//! other machines reach, `--plain` says that calls are not sealed: any machine on the way can read and forge them.

use std::error::Error;
use stoop::{Security, Server};
use stoop_examples::greeter::{Greeter, GreeterServer};

struct English;

impl Greeter for English {
    fn greet(&self, name: &str) -> String {
        format!("Hello, {name}!")
    }
}

fn serve(uri: &str, security: Security) -> Result<(), Box<dyn Error>> {
    let server = Server::new().export(GreeterServer::new(English)).security(security).listen(uri)?.start()?;
    println!("listening at {}", server.uris()[0]);
    server.wait();
    Ok(())
}

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let is_plain = arguments.next_if(|argument| argument == "--plain").is_some();
    let security = if is_plain { Security::none() } else { Security::default() };
    if let Err(why) = serve(arguments.next().as_deref().unwrap_or("udp://127.0.0.1:7400"), security) {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
