//! Over shared memory: a caller takes a chunk of its result now and then, or none any more.

use super::*;
use crate::harness::eventually;
use crate::harness::shm_peer::Peer;
use std::thread;
use stoop_shm::layout::CHUNK;
use stoop_shm::{Answers, Emptying, Way};

const PAUSE: Duration = Duration::from_millis(110);
/// Chunks of the result: taking one after the other takes longer than the server waits for a caller that makes no progress.
const CHUNKS: usize = 68;

fn interface() -> &'static stoop::stub::Interface {
    use stoop::stub::Exported;
    static EXPORT: OnceLock<OfficeServer<Clerk>> = OnceLock::new();
    EXPORT.get_or_init(|| OfficeServer::new(Clerk::default())).interface()
}

/// A server that shuts down, and what a caller has to take of its last words.
fn last_words(name: &str) -> (RunningServer, Peer, Emptying) {
    let server = office(&format!("shm:slow-readers-{name}-{}", std::process::id()));
    let peer = Peer::bind(&server.uris()[0], interface()).unwrap();
    let bytes = (CHUNKS * CHUNK) as u32 - 64;
    peer.publish(&peer.request(0, 1, 0, 4), &bytes.to_le_bytes());
    eventually(|| peer.is_answered(0, 1));
    let answer = Answers::read(&peer.segment, 0).unwrap();
    let emptying = Emptying::new(Way::Result, answer.channel, answer.base, answer.len as usize).unwrap();
    (server, peer, emptying)
}

/// The result arrives whole.
pub(super) fn reads_slowly() {
    let (server, peer, mut emptying) = last_words("goes-on");
    let mut result = Vec::new();
    while !emptying.is_done() {
        while emptying.has_more(&peer.segment) == Ok(false) {
            emptying.sleep(&peer.segment, u64::MAX);
        }
        emptying.take(&peer.segment, &mut result);
        peer.ring(0);
        thread::sleep(PAUSE);
    }
    assert!(result[8..].iter().all(|byte| *byte == 7), "behind its length");
    server.wait();
}

/// The server does not wait for its reader.
pub(super) fn stops_reading() {
    let (server, _peer, _emptying) = last_words("stops");
    assert_ends_soon(&server);
}
