//! The state of the server's process.

use crate::Address;
use crate::events::{Life, Place};
use crate::network::Socket;
use crate::task::Task;
use std::collections::{BTreeMap, VecDeque};
use stoop_exchange::Instant;
use stoop_exchange::server::{Assignment, Server};

/// A call that a worker runs, or that waits for one.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) assignment: Assignment<Address>,
    pub(crate) task: Task,
}

/// State of the server's process.
#[derive(Debug, Default)]
pub(crate) struct ServerProcess {
    pub(crate) life: Life,
    pub(crate) place: Place,
    pub(crate) server: Option<Server<Address>>,
    pub(crate) shutting_down: bool,
    pub(crate) running: BTreeMap<u64, Job>,
    /// Calls whose procedures have returned and whose answers come later.
    pub(crate) open: BTreeMap<u64, Job>,
    pub(crate) queue: VecDeque<Job>,
    pub(crate) jobs: u64,
    /// The most bindings that there were at once since it started.
    pub(crate) peak_bindings: usize,
    pub(crate) socket: Socket,
    /// Credits that results have granted, by binding: how many beyond the initial credit at least, and until when they hold.
    pub(crate) grants: BTreeMap<u64, (u32, Instant)>,
    /// When a look is planned at what it owes once its socket is drained.
    pub(crate) drains_at: Option<Instant>,
    /// For when its timer is planned by its clock, so that it is not planned again for every packet.
    pub(crate) timer_at: Option<Instant>,
}
