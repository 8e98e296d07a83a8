//! Takes part in the chat, whose server runs already (`cargo run --example chat-server`):
//!
//! ```sh
//! cargo run --example chat-client -- ann
//! ```
//!
//! What is typed is said, until the input ends. The address of the server follows the name, if it is not unix:@chat. When the server is
//! started again, the client joins again by itself.

use std::error::Error;
use std::io::stdin;
use std::process::ExitCode;
use std::time::Duration;
use stoop::BindOptions;
use stoop_examples::chat::{Guest, GuestServer, RoomClient};
use stoop_examples::serve::exit_code;

struct Screen;

impl Guest for Screen {
    fn said(&self, who: &str, text: &str) {
        println!("{who}: {text}");
    }
}

fn chat(name: String, uri: &str) -> Result<(), Box<dyn Error>> {
    let joins = name.clone();
    let options = BindOptions::new()
        .wait_for_restart(Duration::from_secs(60))
        .callback(GuestServer::new(Screen))
        .after_bind(move |room: &RoomClient| room.join(&joins)); // again after each restart
    let room = RoomClient::bind_with(uri, &options)?;
    for line in stdin().lines() {
        if let Err(why) = room.say(&name, &line?) {
            eprintln!("{why}"); // the next line may find the server again
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "somebody".into());
    exit_code(chat(name, arguments.next().as_deref().unwrap_or("unix:@chat")))
}
