//! What a lane keeps for large calls while there are some.

use crate::transport::packet::caller::lane::RESULT_ROOM;
use stoop_net::udp::{CallerArrival, CallerSocket};
use stoop_wire::MAX_DATAGRAM;

/// What one system call takes or gives at most.
const DATAGRAMS_LEN: usize = 64 * 1024;

/// Small calls in a row after which what large ones need is given back.
const REST_AFTER: u32 = 64;

/// What a lane keeps for large calls. It is given back when there have been none for a while.
pub(crate) struct Large {
    /// Packets on their way to the kernel, or from it.
    pub(crate) datagrams: Box<[u8]>,
    /// The kernel takes no packets together.
    pub(crate) one_by_one: bool,
    /// The socket has been made ready for large results.
    ready: bool,
    /// Small calls since the last large one.
    small: u32,
}

impl Default for Large {
    fn default() -> Self {
        let datagrams = vec![0; DATAGRAMS_LEN].into_boxed_slice();
        Self { datagrams, one_by_one: false, ready: false, small: 0 }
    }
}

impl Large {
    /// A large result may come: many packets at once.
    pub(crate) fn expect_result(&mut self, socket: &CallerSocket) {
        if self.ready {
            return;
        }
        self.ready = true;
        // Without it each packet comes by itself.
        let _ = socket.set_gro(true);
    }

    /// A call has ended.
    pub(crate) fn note(&mut self, was_large: bool) {
        self.small = if was_large { 0 } else { self.small + 1 };
    }

    /// There has been no large call for a while.
    pub(crate) fn has_rested(&self) -> bool {
        self.small >= REST_AFTER
    }

    /// Gives back the memory of large calls and results; `call` keeps its first bytes.
    pub(crate) fn give_back(mut self, socket: &CallerSocket, call: &mut Vec<u8>, result: &mut Vec<u8>) {
        if self.ready {
            // What has come together can only be told apart while it is asked for. It is for calls that have ended.
            while let Ok(CallerArrival::Datagram(_)) = socket.recv_segments(&mut self.datagrams) {}
            let _ = socket.set_gro(false);
        }
        call.truncate(MAX_DATAGRAM);
        call.shrink_to_fit();
        if result.len() > RESULT_ROOM {
            *result = vec![0; RESULT_ROOM];
        }
    }
}
