//! Takes the calls of a program's own interface apart: where the time of each procedure goes, at the caller and at the server.
//!
//! ```sh
//! cargo run --release --example account --features account              # over UDP, on this machine
//! cargo run --release --example account --features account -- shm:store
//! ```

use stoop::account::{AccountOptions, StoopAccountClient};
use stoop::{BindOptions, Server};

#[stoop::interface]
trait Store {
    fn get(&self, key: u64) -> Vec<u8>;
    fn put(&self, key: u64, value: &[u8]);
}

struct Memory(std::sync::Mutex<std::collections::HashMap<u64, Vec<u8>>>);

impl Store for Memory {
    fn get(&self, key: u64) -> Vec<u8> {
        self.0.lock().map_or_else(|_| Vec::new(), |values| values.get(&key).cloned().unwrap_or_default())
    }

    fn put(&self, key: u64, value: &[u8]) {
        if let Ok(mut values) = self.0.lock() {
            values.insert(key, value.to_vec());
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One call in eight. In production one in 64 costs little; see docs/account.md.
    let account = AccountOptions::new().steps_share(8);
    let address = std::env::args().nth(1).unwrap_or_else(|| "udp://127.0.0.1:0".into());
    let server = Server::new().export(StoreServer::new(Memory(Default::default())));
    let server = server.account(account.clone()).listen(&address)?.start()?;

    let uri = &server.uris()[0];
    let store = StoreClient::bind_with(uri, &BindOptions::new().account(account))?;
    for key in 0..10_000 {
        store.put(key, &[7; 100])?;
        store.get(key)?;
    }
    for steps in store.binding().account().steps {
        println!("{steps}");
    }
    // The server's part. The server may be a process of another machine.
    for steps in StoopAccountClient::bind(uri)?.steps()? {
        println!("at the server: {steps}");
    }
    Ok(())
}
