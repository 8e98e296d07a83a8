//! A key-value store in memory:
//!
//! ```sh
//! cargo run --example kv-server
//! ```
//!
//! It listens at udp://127.0.0.1:7401, or at the address that is given as an argument (after `--`).

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;
use stoop::account::AccountOptions;
use stoop::{Server, current_call};
use stoop_examples::kv::{Entry, KvError, MAX_VALUE, Store, StoreServer};

#[derive(Default)]
struct Memory {
    contents: Mutex<Contents>,
    changed: Condvar,
}

#[derive(Default)]
struct Contents {
    entries: HashMap<String, Entry>,
    last_version: u64,
}

impl Memory {
    /// Procedures run on many threads at once: what they share is theirs to protect.
    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().expect("no procedure panics while it holds the contents")
    }
}

impl Store for Memory {
    fn get(&self, key: &str) -> Option<Entry> {
        self.contents().entries.get(key).cloned()
    }

    // `key` and `value` are views into the call packet; the store copies them.
    fn set(&self, key: &str, value: &[u8], expected: Option<u64>) -> Result<u64, KvError> {
        if value.len() > MAX_VALUE {
            return Err(KvError::TooLong { len: value.len() });
        }
        let mut contents = self.contents();
        let present = contents.entries.get(key).map_or(0, |entry| entry.version);
        if expected.is_some_and(|expected| expected != present) {
            return Err(KvError::Changed { version: present });
        }
        contents.last_version += 1;
        let version = contents.last_version;
        contents.entries.insert(key.into(), Entry { version, value: value.into() });
        self.changed.notify_all();
        Ok(version)
    }

    // `buf` lies in the result packet and holds what was there before: all of it has to be filled.
    fn read(&self, key: &str, buf: &mut [u8]) -> Result<usize, KvError> {
        let contents = self.contents();
        let value = &contents.entries.get(key).ok_or(KvError::Missing)?.value;
        let (copied, rest) = buf.split_at_mut(value.len().min(buf.len()));
        copied.copy_from_slice(&value[..copied.len()]);
        rest.fill(0);
        Ok(value.len())
    }

    fn await_change(&self, key: &str, version: u64) -> Option<Entry> {
        // The deadline came with the call. Half of what is left of it is for the way back.
        let until = Instant::now() + current_call()?.time_left() / 2;
        let newer = |contents: &Contents| contents.entries.get(key).filter(|e| e.version > version).cloned();
        let mut contents = self.contents();
        loop {
            let patience = until.saturating_duration_since(Instant::now());
            match newer(&contents) {
                None if !patience.is_zero() => {
                    let woken = self.changed.wait_timeout(contents, patience);
                    contents = woken.expect("no procedure panics while it holds the contents").0;
                }
                found => return found,
            }
        }
    }
}

fn serve(uri: &str) -> Result<(), Box<dyn Error>> {
    let server = Server::new().export(StoreServer::new(Memory::default()));
    // `stoop top ADDRESS` shows it.
    let server = server.account(AccountOptions::new()).listen(uri)?.start()?;
    println!("listening at {}", server.uris()[0]);
    server.wait();
    Ok(())
}

fn main() {
    let uri = std::env::args().nth(1);
    if let Err(why) = serve(uri.as_deref().unwrap_or("udp://127.0.0.1:7401")) {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
