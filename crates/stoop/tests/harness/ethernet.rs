//! A private Ethernet for each test, which no other test uses at that time: two network namespaces joined by a veth pair. Callers are at one end, servers at the other.
//!
//! The namespaces have no names, so that nothing is left behind however the test ends.

pub(crate) mod raw;

use super::LIMIT;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::cell::OnceCell;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use stoop_ether::Interface;

/// The interface at each end.
pub(crate) const INTERFACE: &str = "stoop0";
/// The addresses of IPv4 (RFC 5737 §3: for documentation).
pub(crate) const SERVER_ADDRESS: &str = "192.0.2.2";
const CALLER_ADDRESS: &str = "192.0.2.1";
pub(crate) const SERVER_MAC: &str = "02:00:00:00:00:0b";

/// The two ends. A thread that uses them is in the callers' namespace.
struct Ethernet {
    callers: File,
    servers: File,
}

/// Ethernets that tests have left as they were made: the kernel takes half a second to make one and to remove it.
static LEFT: Mutex<Vec<Ethernet>> = Mutex::new(Vec::new());

/// The Ethernet of a test.
struct Lease {
    /// `None` when it is left to another test.
    ethernet: Option<Ethernet>,
    is_left: bool,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_left {
            LEFT.lock().unwrap().extend(self.ethernet.take());
        }
    }
}

thread_local! {
    static LEASE: OnceCell<Lease> = const { OnceCell::new() };
}

/// Makes an Ethernet for the calling thread, the first time, and moves the thread to the callers' end. `false`: that is not permitted,
/// and the test is skipped.
pub(crate) fn enter() -> bool {
    enter_with(Ethernet::make, false)
}

/// The same for a test that leaves the interfaces as they are. It may get an Ethernet that another test has left, without any endpoint.
pub(crate) fn enter_unchanged() -> bool {
    enter_with(|| Ethernet::left().map_or_else(Ethernet::make, Ok), true)
}

fn enter_with(make: impl FnOnce() -> Result<Ethernet, String>, is_left: bool) -> bool {
    LEASE.with(|lease| {
        let make = || make().map_err(|why| println!("SKIPPED: no private Ethernet: {why}")).ok();
        lease.get_or_init(|| Lease { ethernet: make(), is_left }).ethernet.is_some()
    })
}

/// The calling thread's Ethernet, if it has entered one.
fn with_ethernet<R>(with: impl FnOnce(Option<&Ethernet>) -> R) -> R {
    LEASE.with(|lease| with(lease.get().and_then(|lease| lease.ethernet.as_ref())))
}

/// Runs `there` at the servers' end. Sockets that it makes stay there; threads that it starts would, too.
pub(crate) fn at_servers<R>(there: impl FnOnce() -> R) -> R {
    with_ethernet(|ethernet| {
        let Some(Ethernet { callers, servers }) = ethernet else { return there() };
        enter_namespace(servers).unwrap();
        let result = there();
        enter_namespace(callers).unwrap();
        result
    })
}

/// Runs `ip` at the end where the thread is, with `{}` for the interface.
pub(crate) fn ip(arguments: &str) {
    run(&arguments.replace("{}", INTERFACE)).unwrap();
}

/// An address at which no other server listens.
pub(crate) fn address(parameters: &str) -> String {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let port = 1 + NEXT.fetch_add(1, Ordering::Relaxed) % 0x3fff;
    format!("ether://{INTERFACE}/{SERVER_MAC}:{port}{parameters}")
}

/// Removes the interfaces of both ends, runs `meanwhile`, and makes them again.
pub(crate) fn make_again(meanwhile: impl FnOnce()) {
    with_ethernet(|ethernet| {
        let Some(ethernet) = ethernet else { return };
        ip("link delete {}");
        meanwhile();
        ethernet.link().unwrap();
    });
}

/// Moves the interface of the end where the thread is to another network namespace and back, where it keeps its number.
pub(crate) fn move_away_and_back() {
    let index = || Interface::by_name(INTERFACE).unwrap().index;
    let [here, elsewhere] = [File::open("/proc/thread-self/ns/net").unwrap(), namespace().unwrap()];
    let path = |namespace: &File| format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
    let before = index();
    ip(&format!("link set {{}} netns {}", path(&elsewhere)));
    enter_namespace(&elsewhere).unwrap();
    ip(&format!("link set {{}} netns {}", path(&here)));
    enter_namespace(&here).unwrap();
    assert_eq!(index(), before);
    ip("link set {} up");
}

/// Waits for what comes soon and no event tells. `seen` gives what is awaited, or else what there is, for the error.
pub(crate) fn wait_for<T>(mut seen: impl FnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        match seen() {
            Ok(awaited) => return awaited,
            Err(last) => assert!(Instant::now() < end, "waited in vain; at last: {last}"),
        }
        std::thread::yield_now();
    }
}

/// For each packet socket at the end where the thread is, the number of its interface. Sockets that reserve ports are at none, and left out.
pub(crate) fn packet_sockets() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/thread-self/net/packet").unwrap();
    // sk, RefCnt, Type, Proto, Iface, …
    let places = table.lines().skip(1).map(|line| line.split_whitespace().nth(4).unwrap());
    places.filter(|place| *place != "0").map(str::to_owned).collect()
}

/// Replaces the wire between the ends by a bridge, with another host at it. Returns the bridge's namespace, where that host's
/// interface is, too.
pub(crate) fn put_bridge_between() -> File {
    with_ethernet(|ethernet| {
        let Some(ethernet) = ethernet else { panic!("there is no Ethernet") };
        ip("link delete {}");
        ethernet.link_by_bridge().unwrap()
    })
}

impl Ethernet {
    fn link_by_bridge(&self) -> Result<File, String> {
        let between = namespace()?;
        enter_namespace(&between)?;
        run("link add bridge0 type bridge")?;
        run("link set bridge0 up")?;
        for (number, end) in [&self.callers, &self.servers, &between].into_iter().enumerate() {
            let there = format!("/proc/{}/fd/{}", std::process::id(), end.as_raw_fd());
            let mac = if number == 1 { format!("address {SERVER_MAC} ") } else { String::new() };
            run(&format!("link add port{number} type veth peer name {INTERFACE} {mac}netns {there}"))?;
            run(&format!("link set port{number} master bridge0 up"))?;
            enter_namespace(end)?;
            run(&format!("link set {INTERFACE} up"))?;
            enter_namespace(&between)?;
        }
        enter_namespace(&self.callers)?;
        Ok(between)
    }

    fn make() -> Result<Self, String> {
        let ethernet = Self { callers: namespace()?, servers: namespace()? };
        enter_namespace(&ethernet.callers)?;
        ethernet.link()?;
        Ok(ethernet)
    }

    /// One that a test has left, if all endpoints there are closed by now.
    fn left() -> Option<Self> {
        let mut left = LEFT.lock().unwrap();
        let at = left.iter().position(Self::is_quiet)?;
        let ethernet = left.swap_remove(at);
        enter_namespace(&ethernet.callers).unwrap();
        Some(ethernet)
    }

    /// Whether no endpoint is open at either end: each has a packet socket, if only to reserve its port.
    fn is_quiet(&self) -> bool {
        [&self.callers, &self.servers].into_iter().all(|end| {
            enter_namespace(end).unwrap();
            std::fs::read_to_string("/proc/thread-self/net/packet").unwrap().lines().count() == 1
        })
    }

    /// Makes the interfaces. The thread is at the callers' end.
    fn link(&self) -> Result<(), String> {
        let there = format!("/proc/{}/fd/{}", std::process::id(), self.servers.as_raw_fd());
        run(&format!(
            "link add {INTERFACE} type veth peer name {INTERFACE} address {SERVER_MAC} netns {there}"
        ))?;
        for (end, address) in [(&self.servers, SERVER_ADDRESS), (&self.callers, CALLER_ADDRESS)] {
            enter_namespace(end)?;
            run(&format!("address add {address}/24 dev {INTERFACE}"))?;
            // Other transports are used beside it.
            run("link set lo up")?;
            run(&format!("link set {INTERFACE} up"))?;
        }
        Ok(())
    }
}

/// A new network namespace.
pub(crate) fn namespace() -> Result<File, String> {
    let made = std::thread::spawn(|| {
        // SAFETY: descriptors stay shared; only this thread, which ends at once, gets the new network namespace.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
            .map_err(|error| format!("unshare: {error}"))
            .and_then(|()| File::open("/proc/thread-self/ns/net").map_err(|error| error.to_string()))
    });
    made.join().unwrap()
}

/// Moves the calling thread there.
pub(crate) fn enter_namespace(namespace: &File) -> Result<(), String> {
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), network).map_err(|error| format!("setns: {error}"))
}

/// Runs `ip` in this thread's namespace.
pub(crate) fn run(arguments: &str) -> Result<(), String> {
    let mut command = Command::new("ip");
    command.args(arguments.split(' ')).stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
