//! Addresses of this machine that tests have to themselves.

use super::eventually;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU32, Ordering};

/// An address in 127/8 at which nobody else binds. A port of 127.0.0.1 that a server gives back may be anybody's when it is started
/// again.
pub(crate) fn address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (process, own) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("127.{}.{}.{}", 1 + (process >> 8) % 250, process % 256, 1 + own % 250)
}

/// Waits until a server can listen at the address of one that has ended in this process.
///
/// A child that another test starts has copies of all sockets until it executes its program, also of those that are closed here
/// meanwhile. This binds no socket itself to find out: such a child would have it too.
pub(crate) fn await_free(uri: &str) {
    let (scheme, rest) = uri.split_once(':').unwrap_or(("", uri));
    let place = rest.rsplit('@').next().unwrap();
    let place = place.trim_start_matches('/').split(['/', '?']).next().unwrap();
    let is_listed = |table: &str, is_listener: &dyn Fn(&[&str]) -> bool| {
        // Each thread may be in a network of its own.
        let table = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap();
        table.lines().any(|line| is_listener(&line.split_whitespace().collect::<Vec<_>>()))
    };
    match scheme.trim_start_matches("onc+") {
        kind @ ("udp" | "tcp") => {
            let Ok(address) = place.parse::<SocketAddrV4>() else { return };
            let ip = u32::from_ne_bytes(address.ip().octets());
            let of_all = format!("{:08X}:{:04X}", 0, address.port());
            let own = format!("{ip:08X}:{:04X}", address.port());
            const LISTENS: &str = "0A";
            eventually(|| {
                !is_listed(kind, &|of| {
                    of.len() > 3 && (of[1] == own || of[1] == of_all) && (kind == "udp" || of[3] == LISTENS)
                })
            });
        }
        kind @ ("unix" | "shm") => {
            let name = if kind == "shm" { format!("@stoop-shm/{place}") } else { format!("@{place}") };
            const LISTENS: &str = "00010000";
            eventually(|| !is_listed("unix", &|of| of.len() > 7 && of[7] == name && of[3] == LISTENS));
        }
        _ => {}
    }
}
