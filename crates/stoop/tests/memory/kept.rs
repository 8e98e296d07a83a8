//! The memory that a client keeps after long calls is given back when it has been quiet.

use crate::harness::processes::alone;
use std::time::{Duration, Instant};
use stoop::{BindOptions, Server};

#[stoop::interface]
trait Store {
    fn echo(&self, parts: &[Vec<u8>]) -> Vec<Vec<u8>>;
}

struct Copying;

impl Store for Copying {
    fn echo(&self, parts: &[Vec<u8>]) -> Vec<Vec<u8>> {
        parts.to_vec()
    }
}

const MIB: usize = 1 << 20;

/// Bytes of private memory of this process.
fn held() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel tells it");
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

#[test]
fn an_idle_client_keeps_nothing_of_its_longest_call() {
    alone(|| {
        let uri = format!("shm:test-kept-memory-{}", std::process::id());
        let server = Server::new().max_message(128 * MIB).export(StoreServer::new(Copying));
        let server = server.listen(&uri).unwrap().start().unwrap();
        let options = BindOptions::new().max_message(128 * MIB).timeout(Duration::from_secs(60));
        let client = StoreClient::bind_with(&server.uris()[0], &options).unwrap();
        let before = held();
        // In one piece: the allocator keeps shorter ones.
        let parts = vec![vec![7; 60 * MIB]];
        assert!(client.echo(&parts).unwrap() == parts);
        drop(parts);
        let limit = Instant::now() + Duration::from_secs(20);
        while held() > before + 16 * MIB {
            assert!(Instant::now() < limit, "{} MiB more than before", (held() - before) / MIB);
            std::thread::sleep(Duration::from_millis(50));
        }
        let parts = vec![vec![7; MIB]; 6];
        assert!(client.echo(&parts).unwrap() == parts);
    });
}
