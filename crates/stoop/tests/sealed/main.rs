//! Sealed bindings: keys, identity, and what an attacker on the way can do.

#[path = "../harness/mod.rs"]
mod harness;

mod attackers;
mod calls;
mod certificates;
mod chaos;
mod keys;
mod middle;
mod shares;
mod streams;
mod sun;

use crate::harness::{ethernet, transports};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stoop::{BindOptions, PublicKey, RunningServer, Security, Server, current_call};

/// Makes a test of each claim for each transport: `over! { udp ether: [one another] }` makes `udp::one` to `ether::another`.
macro_rules! over {
    (@ $transport:ident [$($claim:ident)*]) => {
        mod $transport {
            $(
                #[test]
                fn $claim() {
                    if crate::harness::transports::is_there(stringify!($transport)) {
                        super::$claim(stringify!($transport));
                    }
                }
            )*
        }
    };
    ($($transport:ident)*: $claims:tt) => {
        $(over! { @ $transport $claims })*
    };
}
use over;

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

/// No test of its own: another process, when it is started as such.
#[test]
fn process() {
    harness::processes::play(&[chaos::play]);
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
        // The server reads it as a complete file at once.
        let earlier = std::time::SystemTime::now() - Duration::from_secs(10);
        std::fs::File::options().write(true).open(&next).unwrap().set_modified(earlier).unwrap();
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
    fn over(transport: &str) -> Self {
        let folder = Folder::new();
        let ((of_server, _), (caller, key)) = (folder.key("server"), folder.key("caller"));
        let callers = folder.callers(&[("alice", key)]);
        let security = of_server.callers(callers).unwrap();
        let server = Server::new().security(security).export(VaultServer::new(Counting::default()));
        let server =
            ethernet::at_servers(|| server.listen(&transports::address(transport))).unwrap().start().unwrap();
        Self { folder, server, caller, key }
    }

    fn uri(&self) -> String {
        self.server.uris()[0].clone()
    }

    /// The server's key, and its address without the key.
    fn parts(&self) -> (String, String) {
        let uri = self.uri();
        let (scheme, rest) = uri.split_once("://").unwrap();
        let (key, rest) = rest.split_once('@').unwrap();
        (key.into(), format!("{scheme}://{rest}"))
    }

    fn options(&self) -> BindOptions {
        BindOptions::new().security(self.caller.clone()).timeout(Duration::from_secs(20))
    }

    fn client(&self) -> VaultClient {
        VaultClient::bind_with(&self.uri(), &self.options()).unwrap()
    }
}
