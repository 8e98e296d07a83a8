//! Users of the machine who may open no packet socket, beside servers and callers.

use crate::network;
use crate::network::{Ethernet, Side};
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};
use rustix::thread::{Gid, Uid, set_thread_gid, set_thread_uid};
use std::fs::read_to_string;
use stoop_ether::address::Address;
use stoop_ether::names::{Announcement, Name, find};
use stoop_ether::{Backend, Endpoint, Interface, OpenError, Options};

/// The user and the group that have no rights.
const NOBODY: u32 = 65534;
const PORT: u16 = 7400;

/// A server with a port and a name, at this side.
fn serve(side: &Side) -> Result<(Endpoint, Announcement), OpenError> {
    let options = Options::of_one_lane();
    let endpoint = side.listen_once(PORT, Backend::PacketRing, &options)?;
    let (name, at): (Name, _) = ("greeter".parse().unwrap(), endpoint.address());
    let announced = side.inside(|| Announcement::new(&side.interface(), options.ether_type, &name, at))?;
    Ok((endpoint, announced))
}

/// A caller's endpoint at this side, and the servers that it finds; `None`: the server is at the caller's own interface.
fn call(side: &Side) -> Result<(Endpoint, Option<Vec<Address>>), OpenError> {
    let options = Options::of_one_lane();
    let endpoint = side.connect(Backend::PacketRing, &options)?;
    let name: Name = "greeter".parse().unwrap();
    let found = side.inside(|| {
        let interface = Interface::by_name(side.name)?;
        let is_here = Announcement::is_here(&interface, options.ether_type, &name);
        let found = || find(&interface, options.ether_type, &name, network::LIMIT);
        (!is_here).then(found).transpose()
    });
    Ok((endpoint, found?))
}

/// The abstract names of Unix sockets in the namespace of this side (unix(7)).
fn abstract_names(side: &Side) -> Vec<String> {
    let table = side.inside(|| read_to_string("/proc/thread-self/net/unix")).unwrap();
    table.lines().filter_map(|line| line.split(" @").nth(1)).map(str::to_owned).collect()
}

/// Takes those names at this side, as a user who has no rights.
fn take_as_stranger(side: &Side, names: &[String]) -> Vec<OwnedFd> {
    side.inside(|| {
        // Of this thread alone, which ends. It loses its capabilities with its user.
        set_thread_gid(Gid::from_raw(NOBODY)).unwrap();
        set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
        let interface = Interface::by_name(side.name).unwrap();
        let opened = Endpoint::listen(&interface, Some(PORT), Backend::PacketRing, &Options::of_one_lane());
        assert!(matches!(opened, Err(OpenError::NotPermitted { .. })), "{opened:?}");
        let take = |name: &String| {
            let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None).unwrap();
            bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
            socket
        };
        names.iter().map(take).collect()
    })
}

#[test]
fn names_that_every_user_can_take_keep_no_endpoint_from_its_port_or_name() {
    let test = "names_that_every_user_can_take_keep_no_endpoint_from_its_port_or_name";
    let Some(Ethernet { a, b }) = Ethernet::make(test, 1500) else { return };
    let (server, caller) = (serve(&b).unwrap(), call(&a).unwrap());
    let (address, names) = (server.0.address(), [abstract_names(&a), abstract_names(&b)].concat());
    drop((server, caller));
    for side in [&a, &b] {
        let taken = take_as_stranger(side, &names);
        let _server = serve(&b).unwrap();
        assert_eq!(call(&a).unwrap().1, Some(vec![address]));
        drop(taken);
    }
}

#[test]
fn name_that_another_user_shows_does_not_make_its_server_one_at_the_callers_own_interface() {
    let test = "name_that_another_user_shows_does_not_make_its_server_one_at_the_callers_own_interface";
    let Some(Ethernet { a, b }) = Ethernet::make(test, 1500) else { return };
    // Names of a server at the caller's side, which has ended.
    let names = (serve(&a).unwrap(), abstract_names(&a)).1;
    let _taken = take_as_stranger(&a, &names);
    let server = serve(&b).unwrap();
    assert_eq!(call(&a).unwrap().1, Some(vec![server.0.address()]));
}
