//! The steps within the kernel, the tracepoints that end them, and the permission that reading these needs.

use super::perf::Event;
use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

/// A tracepoint that a packet passes on its way from one process to the other, and that ends a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Tracepoint {
    /// Its name among the kernel's, as `group/event`.
    pub(super) name: &'static str,
    /// The step that it ends.
    pub(super) step: &'static str,
    pub(super) side: Side,
    /// Only of passings that concern one of the two processes' threads; `{}` is such a thread.
    filter: Option<&'static str>,
}

/// The processor that passes a tracepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Side {
    /// That of the thread that sends: the time since that thread entered the kernel is known.
    Sender,
    /// That of the thread that receives: the time until that thread leaves the kernel is known.
    Receiver,
}

/// In the order in which a packet passes them.
pub(super) const TRACEPOINTS: [Tracepoint; 9] = [
    Tracepoint {
        name: "net/net_dev_queue",
        step: "system call entry; socket, UDP or TCP, and IP layers",
        side: Side::Sender,
        filter: None,
    },
    Tracepoint {
        name: "net/netif_rx",
        step: "device: queue the packet on its way to the other end",
        side: Side::Sender,
        filter: None,
    },
    Tracepoint {
        name: "net/netif_receive_skb",
        step: "soft interrupt: take the packet from the device",
        side: Side::Sender,
        filter: None,
    },
    Tracepoint {
        name: "sock/sk_data_ready",
        step: "receiving layers: queue the packet at the socket",
        side: Side::Sender,
        filter: None,
    },
    Tracepoint {
        name: "sched/sched_waking",
        step: "wake-up: find the sleeping thread",
        side: Side::Sender,
        filter: Some("pid == {}"),
    },
    Tracepoint {
        name: "sched/sched_wakeup",
        step: "wake-up: the thread becomes runnable",
        side: Side::Receiver,
        filter: Some("pid == {}"),
    },
    Tracepoint {
        name: "sched/sched_switch",
        step: "the processor switches to the receiving thread",
        side: Side::Receiver,
        filter: Some("next_pid == {}"),
    },
    Tracepoint {
        name: "skb/skb_copy_datagram_iovec",
        step: "the receiving thread finds the packet",
        side: Side::Receiver,
        filter: None,
    },
    Tracepoint {
        name: "sock/sock_recv_length",
        step: "receive: copy and free the packet",
        side: Side::Receiver,
        filter: Some("ret > 0 && common_pid == {}"),
    },
];

impl Tracepoint {
    /// Events of it on these processors, for the threads of the two processes.
    pub(super) fn open(&self, tracing: &Tracing, cpus: &[usize], threads: &[u32]) -> io::Result<Vec<Event>> {
        let id = tracing.id(self.name)?;
        let filter = self.filter.map(|filter| {
            let each = threads.iter().map(|thread| filter.replace("{}", &thread.to_string()));
            each.collect::<Vec<_>>().join(" || ")
        });
        cpus.iter().map(|&cpu| Event::open(id, cpu, filter.as_deref())).collect()
    }
}

/// The kernel's file system of tracepoints.
pub(super) struct Tracing(OwnedFd);

impl Tracing {
    /// The file system where it is mounted, or a mount of our own that has no place in the tree of files and ends with this process.
    ///
    /// # Errors
    /// A sentence that says what would be needed.
    pub(super) fn open() -> Result<Self, String> {
        let mounted = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(Path::new);
        let found = mounted.into_iter().find(|path| path.join("events").exists());
        let opened = match found {
            Some(path) => File::open(path).map(OwnedFd::from),
            None => mount(),
        };
        let tracing = Tracing(opened.map_err(|error| why_not(&error))?);
        // An event on one processor, of all its processes, needs the permission that all of them need.
        let tried = tracing.id(TRACEPOINTS[0].name).and_then(|id| Event::open(id, 0, None));
        tried.map(|_| tracing).map_err(|error| why_not(&error))
    }

    fn id(&self, name: &str) -> io::Result<u64> {
        let path = format!("events/{name}/id");
        let file = openat(&self.0, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut text = String::new();
        File::from(file).read_to_string(&mut text)?;
        text.trim().parse().map_err(io::Error::other)
    }
}

fn mount() -> io::Result<OwnedFd> {
    let tracefs = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&tracefs)?;
    let (flags, attributes) = (FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY);
    Ok(fsmount(&tracefs, flags, attributes)?)
}

fn why_not(error: &io::Error) -> String {
    format!(
        "the kernel is one step, because its tracepoints cannot be read here ({error}); root, or CAP_PERFMON with a readable \
         /sys/kernel/tracing, would show its steps"
    )
}
