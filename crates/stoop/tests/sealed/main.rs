//! Sealed bindings over UDP: keys, identity, and what an attacker on the way can do.

mod attackers;
mod keys;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stoop::{BindOptions, PublicKey, RunningServer, Security, Server, current_call};

#[stoop::interface]
trait Vault {
    /// Counts its calls.
    fn count(&self) -> u32;
    fn echo(&self, bytes: &[u8]) -> Vec<u8>;
    /// The caller's name.
    fn caller(&self) -> Option<String>;
    #[idempotent]
    fn again(&self) -> u32;
}

#[derive(Default)]
struct Counting(AtomicU32);

impl Vault for Counting {
    fn count(&self) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn echo(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    fn caller(&self) -> Option<String> {
        current_call()?.peer().map(|peer| peer.name().to_owned())
    }

    fn again(&self) -> u32 {
        7
    }
}

/// A folder with keys, which is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("stoop-sealed-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes the key of that name.
    fn key(&self, name: &str) -> (Security, PublicKey) {
        let path = self.file(name);
        let public = Security::generate_key(&path).unwrap();
        (Security::key_file(&path).unwrap(), public)
    }

    /// Writes the file of callers.
    fn callers(&self, lines: &[(&str, PublicKey)]) -> PathBuf {
        let text: String = lines.iter().map(|(name, key)| format!("{name} {key}\n")).collect();
        let (path, next) = (self.file("callers"), self.file("callers.new"));
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, &path).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A sealed server, a caller's security, and the files of both.
struct Pair {
    folder: Folder,
    server: RunningServer,
    caller: Security,
    key: PublicKey,
}

impl Pair {
    fn new() -> Self {
        Self::at("udp://127.0.0.1:0")
    }

    fn at(address: &str) -> Self {
        let folder = Folder::new();
        let ((of_server, _), (caller, key)) = (folder.key("server"), folder.key("caller"));
        let callers = folder.callers(&[("alice", key)]);
        let security = of_server.callers(callers).unwrap();
        let server = Server::new().security(security).export(VaultServer::new(Counting::default()));
        let server = server.listen(address).unwrap().start().unwrap();
        Self { folder, server, caller, key }
    }

    fn uri(&self) -> String {
        self.server.uris()[0].clone()
    }

    fn options(&self) -> BindOptions {
        BindOptions::new().security(self.caller.clone()).timeout(Duration::from_secs(20))
    }

    fn client(&self) -> VaultClient {
        VaultClient::bind_with(&self.uri(), &self.options()).unwrap()
    }
}

#[test]
fn calls_are_made_on_a_sealed_binding() {
    let pair = Pair::new();
    assert!(pair.uri().contains('@'), "{}", pair.uri());
    let client = pair.client();
    assert_eq!((client.count().unwrap(), client.count().unwrap()), (1, 2));
    let described = client.binding().describe();
    assert!(described.contains("sealed, with the server of the key"), "{described}");
}

#[test]
fn messages_of_every_length_travel_both_ways() {
    let pair = Pair::new();
    let client = pair.client();
    for len in [0, 1, 1000, 1400, 1408, 1409, 1416, 1417, 1424, 1432, 1440, 1441, 3000, 70_000, 1 << 20] {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        assert_eq!(client.echo(&bytes).unwrap(), bytes, "{len} bytes");
    }
}

#[test]
fn begun_calls_are_sealed_too() {
    let pair = Pair::new();
    let client = pair.client();
    for len in [0, 100, 1410, 5000] {
        let bytes = vec![len as u8; len];
        let begin = client.begin();
        let pending: Vec<_> = (0..200).map(|_| begin.echo(&bytes)).collect();
        drop(begin);
        for each in pending {
            assert_eq!(each.wait().unwrap(), bytes);
        }
    }
}

#[test]
fn many_threads_call_on_one_sealed_binding() {
    let pair = Pair::new();
    let client = pair.client();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                (0..200).for_each(|_| {
                    client.count().unwrap();
                })
            });
        }
    });
    assert_eq!(client.count().unwrap(), 1601);
}

#[test]
fn other_interfaces_of_the_server_are_bound_sealed() {
    let pair = Pair::new();
    let health = stoop::health::StoopHealthClient::bind_with(&pair.uri(), &pair.options()).unwrap();
    assert_eq!(health.check("Vault").unwrap(), Some(stoop::health::Health::Serving));
}
