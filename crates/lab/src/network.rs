//! The private Ethernet: two network namespaces joined by a veth pair, or loopback where that is not permitted.
//!
//! The paper measured "with the two Fireflies attached to a private Ethernet" (Firefly §2.1). The namespaces have no names:
//! they exist while a process is in them or holds them open, so that nothing is left behind however this process ends.

use crate::args::LinkRate;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::cell::{Cell, OnceCell};
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use stoop_ether::address::Mac;
use stoop_ether::{Interface, State};

/// The network between caller and server.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) caller: Ipv4Addr,
    pub(crate) server: Ipv4Addr,
    /// Whether it is an Ethernet, with the interfaces [`INTERFACE`] and [`FLOOR_INTERFACE`] at both ends.
    pub(crate) has_frames: bool,
    /// Why it is loopback, when it is.
    why_loopback: Option<String>,
    spaces: Option<Spaces>,
    /// The namespace of a third host, if one was asked for.
    third: OnceCell<File>,
    limited: Cell<Option<LinkRate>>,
}

/// Two network namespaces, alive as long as these are open.
#[derive(Debug)]
struct Spaces {
    caller: File,
    server: File,
}

/// The interface at either end.
pub(crate) const INTERFACE: &str = "stoop0";
/// The interface at either end of a second Ethernet, for the floor: an interface has one program of XDP.
pub(crate) const FLOOR_INTERFACE: &str = "stoop1";
/// The hardware address of every interface of the caller's, and of the server's.
pub(crate) const CALLER_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x0a]);
pub(crate) const SERVER_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x0b]);
/// That of a third host.
const THIRD_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x0c]);

/// Addresses for documentation (RFC 5737 §3): they mean nothing anywhere else.
const CALLER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const THIRD: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 3);

impl Network {
    /// Makes the private Ethernet and moves this thread to the caller's end of it. Call it while the process has one thread.
    ///
    /// A process that has left its network namespace cannot always return, so another process tries it first.
    pub(crate) fn prepare() -> Self {
        match try_elsewhere().and_then(|()| Spaces::make()) {
            Ok(spaces) => Network {
                caller: CALLER,
                server: SERVER,
                has_frames: true,
                why_loopback: None,
                spaces: Some(spaces),
                third: OnceCell::new(),
                limited: Cell::default(),
            },
            Err(why) => Network::loopback(why),
        }
    }

    fn loopback(why: String) -> Self {
        let caller = Ipv4Addr::LOCALHOST;
        Network {
            caller,
            server: caller,
            has_frames: false,
            why_loopback: Some(why),
            spaces: None,
            third: OnceCell::new(),
            limited: Cell::default(),
        }
    }

    /// `veth` or `loopback`.
    pub(crate) fn name(&self) -> &'static str {
        if self.spaces.is_some() { "veth" } else { "loopback" }
    }

    /// A sentence for the header of a table.
    pub(crate) fn describe(&self) -> String {
        match &self.why_loopback {
            None => {
                "a private Ethernet: a veth pair between two network namespaces, one for each side".into()
            }
            Some(why) => format!("loopback, because no private Ethernet could be made: {why}"),
        }
    }

    /// Limits the private Ethernet to `rate` in both directions, or lifts the limit.
    pub(crate) fn limit(&self, rate: Option<LinkRate>) -> Result<(), String> {
        if self.limited.get() == rate {
            return Ok(());
        }
        if self.spaces.is_none() {
            return Err("loopback has no rate: a limit needs the private Ethernet".into());
        }
        let limit = || limit_device(INTERFACE, rate).and_then(|()| limit_device(FLOOR_INTERFACE, rate));
        limit()?;
        self.on_server_side(|| limit().map_err(io::Error::other)).map_err(|error| error.to_string())?;
        self.limited.set(rate);
        Ok(())
    }

    /// Lets both ends of the private Ethernet leave the checksums of packets out, as they usually do, or compute them.
    pub(crate) fn offload_checksums(&self, offload: bool) -> Result<(), String> {
        if self.spaces.is_none() {
            return Err("loopback computes no checksums: this needs the private Ethernet".into());
        }
        self.switch_feature("tx-checksum-ip-generic", offload)
    }

    /// Lets both ends of the private Ethernet pass on datagrams that the kernel has put together (UDP_SEGMENT), as they usually do,
    /// or makes the kernel cut them into packets before.
    pub(crate) fn offload_segmentation(&self, offload: bool) -> Result<(), String> {
        if self.spaces.is_none() {
            return Err("loopback has no device that cuts packets: this needs the private Ethernet".into());
        }
        self.switch_feature("tx-udp-segmentation", offload)
    }

    fn switch_feature(&self, feature: &str, on: bool) -> Result<(), String> {
        let switch = || stoop_ether::set_feature(INTERFACE, feature, on);
        switch().and_then(|()| self.on_server_side(switch)).map_err(|error| format!("{feature}: {error}"))
    }

    /// Runs `action` on the server's side: processes that it starts stay there.
    pub(crate) fn on_server_side<T>(&self, action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(spaces) = &self.spaces else { return action() };
        spaces.on(&spaces.server, action)
    }

    /// Runs `action` on a third host of the private Ethernet, with an interface, a hardware address and an address of its
    /// own: processes that it starts stay there.
    ///
    /// # Errors
    /// There is no private Ethernet, or the kernel makes no interface of the type `macvlan`.
    pub(crate) fn on_third_host<T>(&self, action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let spaces = self.spaces.as_ref().ok_or_else(|| io::Error::other("loopback has no third host"))?;
        let third = match self.third.get() {
            Some(third) => third,
            None => {
                let made = spaces.add_host().map_err(io::Error::other)?;
                self.third.get_or_init(|| made)
            }
        };
        spaces.on(third, action)
    }
}

/// The hidden command `bench-network`: prints whether the private Ethernet can be made here.
pub(crate) fn try_here() -> Result<(), String> {
    Spaces::make().map(drop)
}

fn try_elsewhere() -> Result<(), String> {
    let this_program =
        std::env::current_exe().map_err(|error| format!("this program's own path: {error}"))?;
    let output = Command::new(this_program)
        .arg("bench-network")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("starting this program again: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

impl Spaces {
    fn make() -> Result<Self, String> {
        run_ip(&["-V"])
            .map_err(|_| "the command `ip` is not there (Debian: apt install iproute2)".to_owned())?;
        leave_network()?;
        let caller = this_space()?;
        let caller_process = std::process::id().to_string();
        let server = thread::spawn(move || Spaces::make_server_side(&caller_process))
            .join()
            .map_err(|_| "the thread that makes the server's side panicked".to_owned())??;
        switch_on(CALLER)?;
        let spaces = Spaces { caller, server };
        spaces.wait_until_up()?;
        Ok(spaces)
    }

    /// Makes a second namespace around this thread, and the Ethernet from it to that of process `caller`.
    fn make_server_side(caller: &str) -> Result<File, String> {
        unshare(UnshareFlags::NEWNET)
            .map_err(|error| format!("a network namespace for the server: {error}"))?;
        for name in [INTERFACE, FLOOR_INTERFACE] {
            let macs = [SERVER_MAC, CALLER_MAC].map(|mac| mac.to_string());
            let ours = ["link", "add", name, "address", &macs[0], "type", "veth"];
            let theirs = ["peer", "name", name, "address", &macs[1], "netns", caller];
            run_ip(&[&ours[..], &theirs].concat())?;
        }
        switch_on(SERVER)?;
        this_space()
    }

    /// Runs `action` in one of the namespaces, and returns to the caller's.
    fn on<T>(&self, space: &File, action: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        move_into(space)?;
        let result = action();
        move_into(&self.caller)?;
        result
    }

    /// Makes a namespace with an interface that shares the caller's end of the first Ethernet.
    fn add_host(&self) -> Result<File, String> {
        let alone = thread::spawn(|| {
            unshare(UnshareFlags::NEWNET)
                .map_err(|error| format!("a network namespace for a third host: {error}"))?;
            this_space()
        });
        let space =
            alone.join().map_err(|_| "the thread that makes the third host panicked".to_owned())??;
        let place = format!("/proc/{}/fd/{}", std::process::id(), space.as_raw_fd());
        let mac = THIRD_MAC.to_string();
        let added = ["link", "add", "link", INTERFACE, "name", "stoop2", "address", &mac, "netns", &place];
        run_ip(&[&added[..], &["type", "macvlan", "mode", "bridge"]].concat())?;
        let switch_on = || {
            run_ip(&["link", "set", "stoop2", "name", INTERFACE])?;
            run_ip(&["address", "add", &format!("{THIRD}/24"), "dev", INTERFACE])?;
            [INTERFACE, "lo"].iter().try_for_each(|name| run_ip(&["link", "set", name, "up"]))
        };
        self.on(&space, || switch_on().map_err(io::Error::other)).map_err(|error| error.to_string())?;
        Ok(space)
    }

    /// Waits until both ends of both Ethernets can send: the kernel tells one end later that the other one is there.
    fn wait_until_up(&self) -> Result<(), String> {
        let patience = Instant::now() + Duration::from_secs(5);
        for end in [&self.server, &self.caller] {
            move_into(end).map_err(|error| error.to_string())?;
            for name in [INTERFACE, FLOOR_INTERFACE] {
                while Interface::by_name(name).map_err(|error| error.to_string())?.state != State::Up {
                    if Instant::now() > patience {
                        return Err(format!("the interface {name} has no carrier"));
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            }
        }
        Ok(())
    }
}

/// Switches the interfaces of this thread's namespace on; one gets this address.
fn switch_on(address: Ipv4Addr) -> Result<(), String> {
    run_ip(&["address", "add", &format!("{address}/24"), "dev", INTERFACE])?;
    for name in [INTERFACE, FLOOR_INTERFACE, "lo"] {
        run_ip(&["link", "set", name, "up"])?;
    }
    Ok(())
}

/// Leaves the machine's network for an empty one: as root, or else as root of a user namespace of our own.
fn leave_network() -> Result<(), String> {
    if unshare(UnshareFlags::NEWNET).is_ok() {
        return Ok(());
    }
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET).map_err(|error| {
        format!(
            "neither root nor allowed to make user namespaces ({error}); run it as root, or allow them \
             (the settings user.max_user_namespaces and kernel.unprivileged_userns_clone of `sysctl`)"
        )
    })?;
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {} 1", user.as_raw())),
        ("gid_map", format!("0 {} 1", group.as_raw())),
    ];
    for (file, line) in maps {
        fs::write(format!("/proc/self/{file}"), line)
            .map_err(|error| format!("a user namespace refused its {file} ({error})"))?;
    }
    Ok(())
}

#[allow(unsafe_code)]
fn unshare(what: UnshareFlags) -> rustix::io::Result<()> {
    assert!(!what.contains(UnshareFlags::FILES), "descriptors stay shared");
    // SAFETY: the one obligation concerns `FILES`, descriptors that another thread does not have; it is excluded above.
    unsafe { unshare_unsafe(what) }
}

fn this_space() -> Result<File, String> {
    File::open("/proc/thread-self/ns/net").map_err(|error| format!("this network namespace: {error}"))
}

fn move_into(space: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Limits what `device` sends by a token bucket of two frames, or of a quarter of a millisecond where that is more: what is
/// due when the kernel's timer is late. Its queue is as long as a device's usually is, a thousand frames.
fn limit_device(device: &str, rate: Option<LinkRate>) -> Result<(), String> {
    let Some(rate) = rate else { return run_tc(&["qdisc", "del", "dev", device, "root"]) };
    let burst = (2 * FRAME_LEN).max(rate.mbits * (1_000_000 / 8 / 4000)).to_string();
    let queue = (1000 * FRAME_LEN).to_string();
    let rate = rate.to_string();
    run_tc(&[
        "qdisc", "replace", "dev", device, "root", "tbf", "rate", &rate, "burst", &burst, "limit", &queue,
    ])
}

/// Of an Ethernet with its header, as the bucket counts it.
const FRAME_LEN: u32 = 1514;

fn run_ip(words: &[&str]) -> Result<(), String> {
    run("ip", words)
}

fn run_tc(words: &[&str]) -> Result<(), String> {
    run("tc", words)
}

fn run(command: &str, words: &[&str]) -> Result<(), String> {
    let line = words.join(" ");
    let output = Command::new(command)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{command} {line}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`{command} {line}`: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_says_why() {
        let network = Network::loopback("neither root nor otherwise".into());
        assert_eq!(network.name(), "loopback");
        assert!(network.describe().ends_with("neither root nor otherwise"));
    }

    #[test]
    fn loopback_is_not_limited() {
        let network = Network::loopback(String::new());
        assert_eq!(network.limit(None), Ok(()));
        assert!(network.limit(Some(LinkRate { mbits: 10 })).is_err());
    }

    #[test]
    fn on_loopback_the_server_side_is_this_side() {
        let network = Network::loopback(String::new());
        let before = fs::read_link("/proc/thread-self/ns/net").expect("proc is mounted");
        let there =
            network.on_server_side(|| fs::read_link("/proc/thread-self/ns/net")).expect("nothing to enter");
        assert_eq!(before, there);
    }
}
