//! The Test interface by iceoryx2's request-response: `peer-iceoryx2 serve WAITING`, `peer-iceoryx2 call ADDRESS`.
//!
//! iceoryx2 leaves waiting to its user: `spin` asks for the next message again and again, `yield` lets other threads run in between, and
//! `event` sleeps until the other end has sent a notification. All callers are threads with ports of their own.

mod exchange;

use end::{Role, slices, threads};
use exchange::{Anyhow, Waiting};

fn waiting(word: &str) -> Waiting {
    match word {
        "spin" => Waiting::Spin,
        "yield" => Waiting::Yield,
        "event" => Waiting::Event,
        _ => panic!("{word} is not spin, yield or event"),
    }
}

fn main() -> Anyhow<()> {
    iceoryx2::prelude::set_log_level(iceoryx2::prelude::LogLevel::Error);
    match end::role() {
        (Role::Serve, words) => {
            let name = format!("peer-{}/{}", words[0], std::process::id());
            let waiting = waiting(&words[0]);
            exchange::serve(&name.clone(), waiting, || {
                // The server's loop never returns, so this thread ends the process when the driver closes standard input.
                std::thread::spawn(move || {
                    end::ready(&name);
                    std::process::exit(0);
                });
            })
        }
        (Role::Call(name), _) => {
            let waiting = waiting(name.split(['-', '/']).nth(1).expect("the server's address"));
            slices(|slice| {
                threads(slice, || {
                    let mut call = exchange::caller(&name, waiting, slice).expect("a port");
                    move || call().expect("the server answers")
                })
            });
            Ok(())
        }
    }
}
