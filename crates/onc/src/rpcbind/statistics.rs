//! The counters of rpcbind (RFC 1833 §2.1, `RPCBPROC_GETSTAT`).

use crate::structure::structure;
use stoop_xdr::Chain;

structure! {
    /// Questions for the address of a program (`rpcbs_addrlist`, RFC 1833 §2.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    AddressCount<'a> {
        /// The program.
        program: u32,
        /// Its version.
        version: u32,
        /// Questions that had an answer.
        successes: i32,
        /// Questions that had none.
        failures: i32,
        /// The transport.
        netid: &'a str,
    }
}

structure! {
    /// Calls that rpcbind was asked to make (`rpcbs_rmtcalllist`, RFC 1833 §2.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    RemoteCallCount<'a> {
        /// The program.
        program: u32,
        /// Its version.
        version: u32,
        /// The procedure.
        procedure: u32,
        /// Calls that succeeded.
        successes: i32,
        /// Calls that failed.
        failures: i32,
        /// 1 for INDIRECT, 0 for CALLIT and BCAST.
        is_indirect: i32,
        /// The transport.
        netid: &'a str,
    }
}

structure! {
    /// The counters of rpcbind for one version (`rpcb_stat`, RFC 1833 §2.1).
    #[derive(Clone, Debug, PartialEq, Eq)]
    Statistics<'a> {
        /// Calls of each procedure, by its number.
        calls: [i32; 13],
        /// SETs that succeeded.
        sets: i32,
        /// UNSETs that succeeded.
        unsets: i32,
        /// Questions for addresses.
        addresses: Chain<AddressCount<'a>>,
        /// Calls for programs of the machine.
        remote_calls: Chain<RemoteCallCount<'a>>,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use stoop_xdr::{from_slice, to_vec};

    #[test]
    fn statistics_are_read_as_they_were_written() {
        let address = AddressCount { program: 1, version: 2, successes: 3, failures: 4, netid: "tcp" };
        let call = RemoteCallCount {
            program: 1,
            version: 2,
            procedure: 3,
            successes: 4,
            failures: 5,
            is_indirect: 1,
            netid: "udp",
        };
        let (addresses, remote_calls) = (Chain(vec![address; 2]), Chain(vec![call]));
        let statistics = Statistics { calls: [7; 13], sets: 1, unsets: 2, addresses, remote_calls };
        let of_versions = [statistics.clone(), statistics.clone(), statistics];
        assert_eq!(from_slice(&to_vec(&of_versions).unwrap()), Ok(of_versions));
    }
}
