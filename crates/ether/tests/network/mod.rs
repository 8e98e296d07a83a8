//! A private Ethernet: two network namespaces joined by a veth pair. It goes with the test's process.

// Each test program uses a part of it.
#![allow(dead_code)]

pub(crate) mod raw;
pub(crate) mod traffic;

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use stoop_ether::{Arrival, Backend, Endpoint, Interface, Mode, OpenError, Options, State, XdpOptions};

/// One end of the Ethernet.
pub(crate) struct Side {
    namespace: OwnedFd,
    /// The name of the interface there.
    pub(crate) name: &'static str,
}

/// Both ends.
pub(crate) struct Ethernet {
    pub(crate) a: Side,
    pub(crate) b: Side,
}

/// The name of the interface at each end.
pub(crate) const NAMES: [&str; 2] = ["stoop-a", "stoop-b"];
/// The IPv4 address at each end (RFC 5737 §3: for documentation).
pub(crate) const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

impl Ethernet {
    /// Makes an Ethernet, or says that `test` is skipped.
    pub(crate) fn make(test: &str, mtu: usize) -> Option<Self> {
        match Self::try_make(mtu) {
            Ok(ethernet) => Some(ethernet),
            Err(why) => {
                println!("SKIPPED: {test}: needs root for network namespaces, and iproute2: {why}");
                None
            }
        }
    }

    /// As [`make`](Self::make), with this many receive queues at both sides.
    pub(crate) fn make_with_queues(test: &str, queues: u32) -> Option<Self> {
        let ethernet = Self::make(test, 1500)?;
        ethernet.a.run("ip link delete stoop-a");
        ethernet.make_again(queues);
        Some(ethernet)
    }

    /// Makes the interfaces of both sides, which were removed, with this many receive queues.
    pub(crate) fn make_again(&self, queues: u32) {
        let there = format!("/proc/{}/fd/{}", std::process::id(), self.b.namespace.as_raw_fd());
        let queues = format!("numrxqueues {queues} numtxqueues {queues}");
        self.a
            .run(&format!("ip link add stoop-a {queues} type veth peer name stoop-b {queues} netns {there}"));
        for side in [&self.a, &self.b] {
            side.run(&format!("ip link set {} up", side.name));
        }
        for side in [&self.a, &self.b] {
            wait_until(|| side.interface().state == State::Up);
        }
    }

    fn try_make(mtu: usize) -> Result<Self, String> {
        let [a, b] = [Side::new(NAMES[0])?, Side::new(NAMES[1])?];
        let there = format!("/proc/{}/fd/{}", std::process::id(), b.namespace.as_raw_fd());
        a.try_run(&format!("ip link add {} type veth peer name {} netns {there}", a.name, b.name))?;
        for (side, address) in [(&a, ADDRESSES[0]), (&b, ADDRESSES[1])] {
            side.try_run(&format!("ip address add {address}/24 dev {}", side.name))?;
            side.try_run(&format!("ip link set {} mtu {mtu} up", side.name))?;
        }
        for side in [&a, &b] {
            // The kernel tells one end later that the other one is there.
            wait_until(|| side.interface().state == State::Up);
        }
        Ok(Self { a, b })
    }
}

impl Side {
    fn new(name: &'static str) -> Result<Self, String> {
        let made = std::thread::spawn(|| {
            // SAFETY: descriptors stay shared; only this thread, which ends at once, gets the new network
            // namespace.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.map(|()| own_namespace())
        });
        let namespace = made.join().unwrap().map_err(|error| format!("unshare: {error}"))?;
        Ok(Self { namespace, name })
    }

    /// Runs `there` in this side's network namespace, on a thread of its own: a user namespace may not let a
    /// thread go back. Sockets that it makes stay there.
    pub(crate) fn inside<R: Send>(&self, there: impl FnOnce() -> R + Send) -> R {
        let run = || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(self.namespace.as_fd(), kind).unwrap();
            there()
        };
        std::thread::scope(|scope| scope.spawn(run).join().unwrap())
    }

    /// Runs a command there. Returns what it prints.
    pub(crate) fn run(&self, line: &str) -> String {
        self.try_run(line).unwrap()
    }

    fn try_run(&self, line: &str) -> Result<String, String> {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).stdin(Stdio::null());
        let output = self.inside(|| command.output()).map_err(|error| format!("{line}: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }

    pub(crate) fn interface(&self) -> Interface {
        self.inside(|| Interface::by_name(self.name)).unwrap()
    }

    /// Moves the interface to another network namespace and back, where it keeps its number.
    pub(crate) fn move_away_and_back(&self) {
        let elsewhere = Self::new(self.name).unwrap();
        let before = self.interface();
        for (from, to) in [(self, &elsewhere), (&elsewhere, self)] {
            let there = format!("/proc/{}/fd/{}", std::process::id(), to.namespace.as_raw_fd());
            from.run(&format!("ip link set {} netns {there}", self.name));
        }
        assert_eq!((before.index, before.mac), (self.interface().index, self.interface().mac));
        self.run(&format!("ip link set {} up", self.name));
    }

    /// All that the kernel shows of the interface, but for what changes by itself.
    pub(crate) fn state(&self) -> String {
        self.run(&format!("ip -d link show {}", self.name))
    }

    pub(crate) fn listen(
        &self,
        port: u16,
        backend: Backend,
        options: &Options,
    ) -> Result<Endpoint, OpenError> {
        self.open(|interface| patiently(|| Endpoint::listen(interface, Some(port), backend, options)))
    }

    /// As [`listen`](Self::listen), where another endpoint is expected to have the port or the interface.
    pub(crate) fn listen_once(
        &self,
        port: u16,
        backend: Backend,
        options: &Options,
    ) -> Result<Endpoint, OpenError> {
        self.open(|interface| Endpoint::listen(interface, Some(port), backend, options))
    }

    pub(crate) fn connect(&self, backend: Backend, options: &Options) -> Result<Endpoint, OpenError> {
        self.open(|interface| patiently(|| Endpoint::connect(interface, backend, options)))
    }

    fn open(
        &self,
        open: impl FnOnce(&Interface) -> Result<Endpoint, OpenError> + Send,
    ) -> Result<Endpoint, OpenError> {
        self.inside(|| open(&Interface::by_name(self.name)?))
    }
}

/// Longer than a loaded machine needs for an event that comes soon.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Opens an endpoint, again while the port or the interface is taken: when a test of the same process starts a
/// program, the child has for a moment all descriptors of this process; and the kernel may detach the program of a
/// process that was killed a little later than the process ends.
pub(crate) fn patiently(open: impl Fn() -> Result<Endpoint, OpenError>) -> Result<Endpoint, OpenError> {
    let mut opened = open();
    let end = Instant::now() + LIMIT;
    while matches!(opened, Err(OpenError::XdpTaken(_) | OpenError::PortTaken(_))) && Instant::now() < end {
        std::thread::yield_now();
        opened = open();
    }
    opened
}

/// Waits until the thread of this number sleeps in the kernel (proc_pid_stat(5)).
pub(crate) fn wait_until_asleep(thread: rustix::thread::Pid) {
    wait_until(|| {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", thread.as_raw_nonzero()));
        stat.unwrap().rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"))
    });
}

fn own_namespace() -> OwnedFd {
    File::open("/proc/thread-self/ns/net").unwrap().into()
}

/// Waits for an event that comes soon.
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain");
        std::thread::yield_now();
    }
}

pub(crate) const GENERIC: Backend =
    Backend::Xdp(XdpOptions { mode: Mode::Generic, queue: None, busy_poll: false });
pub(crate) const NATIVE: Backend =
    Backend::Xdp(XdpOptions { mode: Mode::Native, queue: None, busy_poll: false });
pub(crate) const BACKENDS: [Backend; 3] = [Backend::PacketRing, GENERIC, NATIVE];

/// The endpoint, or `None` if this kernel cannot do it, which is said.
pub(crate) fn if_possible(test: &str, opened: Result<Endpoint, OpenError>) -> Option<Endpoint> {
    match opened {
        Ok(endpoint) => Some(endpoint),
        Err(why @ (OpenError::Unsupported { .. } | OpenError::NotPermitted { .. })) => {
            println!("SKIPPED: {test}: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Receives the next packet, which comes soon.
pub(crate) fn next(endpoint: &Endpoint) -> Vec<u8> {
    let mut buffer = vec![0; 1 << 16];
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        match endpoint.receive_within(&mut buffer, Some(100_000_000)).unwrap() {
            Arrival::Packet { len, .. } => return buffer[..len].to_vec(),
            Arrival::TooLarge(len) => panic!("{len} bytes"),
            Arrival::Nothing => {}
        }
    }
    panic!("no packet at {}", endpoint.address());
}
