//! Ready-made callers of the old services that many hosts have: the top layer of Sun RPC.

use crate::error::{CallError, SendError};
use crate::onc::address::Transport;
use crate::onc::client::call;
use crate::onc::rpcbind::{Registration, Rpcbind};
use stoop_xdr::{Decode, DecodeError, Layout, Reader, Xdr};

/// How many users are logged in on a host: `rnusers`, by its `rpc.rusersd`.
///
/// # Errors
/// As [`call`](crate::onc::call).
///
/// ```
/// # fn ask() -> Result<(), stoop::CallError> {
/// println!("{} users, {} programs", stoop::onc::rusers("server")?, stoop::onc::rpcinfo("server")?.len());
/// println!("{:?}", stoop::onc::rstat("server")?);
/// # Ok(())
/// # }
/// ```
pub fn rusers(host: &str) -> Result<u32, CallError> {
    call(host, 100_002, 2, 1, &())
}

/// Statistics of a host, by its `rpc.rstatd` (`statstime`, rstat.x version 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStatistics {
    /// Ticks of processors: user, nice, system, idle.
    pub cpu: [i32; 4],
    /// Transfers of four disks.
    pub disk: [i32; 4],
    /// Pages read, written, swapped in, swapped out.
    pub pages: [u32; 4],
    /// Interrupts.
    pub interrupts: u32,
    /// Packets received, errors in them, packets sent, errors in them, collisions.
    pub packets: [i32; 5],
    /// Context switches.
    pub switches: u32,
    /// Mean lengths of the run queue over 1, 5 and 15 minutes, in 256ths.
    pub load: [i32; 3],
    /// When the host was started, in seconds since 1970.
    pub started: u32,
    /// The time of its clock, likewise.
    pub now: u32,
}

impl Xdr for HostStatistics {
    const LAYOUT: Layout = Layout::fixed(104);
}

impl Decode<'_> for HostStatistics {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (cpu, disk, pages, interrupts) =
            (reader.value()?, reader.value()?, reader.value()?, reader.value()?);
        let [received, receive_errors, send_errors, collisions]: [i32; 4] = reader.value()?;
        let (switches, load) = (reader.value()?, reader.value()?);
        let [started, _, now, _]: [u32; 4] = reader.value()?;
        let packets = [received, receive_errors, reader.value()?, send_errors, collisions];
        Ok(Self { cpu, disk, pages, interrupts, packets, switches, load, started, now })
    }
}

/// Statistics of a host: by its `rpc.rstatd`.
///
/// # Errors
/// As [`call`](crate::onc::call).
pub fn rstat(host: &str) -> Result<HostStatistics, CallError> {
    call(host, 100_001, 3, 1, &())
}

/// The programs that are registered on a host, as `rpcinfo` lists them.
///
/// # Errors
/// As [`call`](crate::onc::call).
pub fn rpcinfo(host: &str) -> Result<Vec<Registration>, CallError> {
    let rpcbind = Rpcbind::of(host, Transport::Tcp);
    rpcbind.map_err(|why| CallError::not_sent(SendError::Bind(Box::new(why))))?.dump()
}
