//! Shows what the key-value store can do; the store runs already (`cargo run --example kv-server`):
//!
//! ```sh
//! cargo run --example kv-client
//! ```
//!
//! It calls udp://127.0.0.1:7401, or the address that is given as an argument (after `--`).

use std::thread;
use std::time::Duration;
use stoop::{BindOptions, Error, Ran};
use stoop_examples::kv::{KvError, StoreClient};

/// Sets a value. Should the call get lost, finds out what became of it.
fn set(store: &StoreClient, key: &str, value: &[u8]) -> Result<u64, Error<KvError>> {
    match store.set(key, value, None) {
        Err(Error::Call(lost)) => match lost.ran() {
            // It did not run: calling again cannot make it run twice.
            Ran::No => store.set(key, value, None),
            // It may have run: look before calling again.
            Ran::Perhaps => match store.get(key)? {
                Some(entry) if entry.value == value => Ok(entry.version),
                _ => store.set(key, value, None),
            },
            // It ran, and its result cannot come back: calling again would not help.
            Ran::Yes => Err(lost.into()),
        },
        outcome => outcome,
    }
}

fn tour(uri: &str) -> Result<(), Box<dyn std::error::Error>> {
    // Each call may take two seconds, or as long as `with_timeout` says.
    let store = StoreClient::bind_with(uri, &BindOptions::new().timeout(Duration::from_secs(2)))?;

    let blue = set(&store, "colour", b"blue")?;
    let colour = store.get("colour")?.map(|entry| entry.value);
    println!("colour is {}", String::from_utf8_lossy(&colour.unwrap_or_default()));

    // A result that is copied once, into memory that the caller already has.
    let mut buf = [0; 8];
    let len = store.read("colour", &mut buf)?;
    println!("its {len} bytes begin with {:?}", buf[0] as char);

    // Clients can be cloned and used by any number of threads; all of them share one binding.
    let watcher = thread::spawn({
        let store = store.clone();
        move || store.with_timeout(Duration::from_secs(20)).await_change("colour", blue)
    });
    set(&store, "colour", b"green")?;
    let changed = watcher.join().expect("the watcher does not panic")?;
    println!("colour has changed: {}", changed.is_some());

    // An application error has a type, and is apart from errors of the call.
    match store.set("colour", b"red", Some(blue)) {
        Err(Error::Application(KvError::Changed { .. })) => println!("not set: another client was faster"),
        Err(error) => return Err(error.into()),
        Ok(version) => println!("set, version {version}"),
    }

    // Which of the two happens depends on the transport: a UDP packet does not even hold this value.
    match store.set("poster", &[0; 100_000], None) {
        Err(Error::Application(error)) => println!("the store says: {error}"),
        Err(Error::Call(error)) => println!("{error}"),
        Ok(version) => println!("set, version {version}"),
    }
    Ok(())
}

fn main() {
    let uri = std::env::args().nth(1);
    if let Err(why) = tour(uri.as_deref().unwrap_or("udp://127.0.0.1:7401")) {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
