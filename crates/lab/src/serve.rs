//! The server process of `bench`: exports the Test interface, and says what processor time it has used when asked.

use crate::args::{ServeArgs, Transport};
use crate::network::INTERFACE;
use crate::{account, cell, child, ours, placement};
use std::io;

/// Serves until the parent ends it.
pub(crate) fn run(args: &ServeArgs) -> Result<(), String> {
    prepare(args).map_err(|error| format!("the server process: {error}"))?;
    let server = ours::serve(&address(args)?, args.waiting)?;
    child::unless_orphaned(answer_orders(&server.uris()[0]))
        .map_err(|why| format!("the server process: {why}"))
}

/// Pinning comes before listening: the adaptive wait asks then what it can run on.
pub(crate) fn prepare(args: &ServeArgs) -> io::Result<()> {
    child::end_with_parent()?;
    placement::pin(args.cpu)
}

fn answer_orders(uri: &str) -> io::Result<()> {
    child::answer(&format!("listening {uri}"))?;
    while let Some(order) = child::next_order()? {
        child::answer(&answer_to(&order))?;
    }
    Ok(())
}

fn answer_to(order: &str) -> String {
    match order {
        "stamps" => format!("stamps {}", account::stamps::to_text(&stoop_probe::take())),
        order => match account::stamps::points_in(order) {
            Some(points) => {
                stoop_probe::switch_on(&points);
                order.into()
            }
            None => format!("cpu {}", cell::own_cpu().as_nanos()),
        },
    }
}

/// Where to listen: at any free port.
pub(crate) fn address(args: &ServeArgs) -> Result<String, String> {
    match args.transport {
        Transport::Local => Err("local calls have no server process".into()),
        Transport::Ether | Transport::EtherXdp | Transport::EtherXdpGeneric => {
            Ok(format!("ether://{INTERFACE}/:0?{}", parameters(args)))
        }
        other => {
            let path = args.path.display().to_string();
            Ok(stoop::free_address(&other.scheme(), &args.address.to_string(), &path))
        }
    }
}

/// The parameters behind the `?` of an address on an Ethernet.
fn parameters(args: &ServeArgs) -> &'static str {
    match (args.transport, args.no_checksum) {
        (Transport::EtherXdp, false) => "backend=xdp",
        (Transport::EtherXdp, true) => "backend=xdp&checksum=off",
        (Transport::EtherXdpGeneric, false) => "backend=xdp-generic",
        (Transport::EtherXdpGeneric, true) => "backend=xdp-generic&checksum=off",
        (_, false) => "backend=ring",
        (_, true) => "backend=ring&checksum=off",
    }
}
