//! Binding ends with its time limit where a server does not answer.

use super::*;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Instant;
use stoop::BindError;

/// At 250 ticks a second the timer wheel may round this up by 256 ms.
const LIMIT: Duration = Duration::from_millis(2_100);
const LATE: Duration = Duration::from_millis(100);

/// Binds where nothing answers, several times at once, and looks how late that ends.
fn assert_ends_in_time(uri: &str) {
    let limits = [0, 40, 80, 120, 160, 200, 240].map(|more| LIMIT + Duration::from_millis(more));
    let mut late: Vec<_> = std::thread::scope(|scope| {
        let bind = |limit| {
            scope.spawn(move || {
                let begun = Instant::now();
                let options = BindOptions::new().bind_timeout(limit);
                let error = LabClient::bind_with(uri, &options).unwrap_err();
                let took = begun.elapsed();
                assert!(
                    matches!(error, BindError::NoAnswer { .. } | BindError::Unreachable { .. }),
                    "{error}"
                );
                took.checked_sub(limit)
                    .unwrap_or_else(|| panic!("{uri}: ended after {took:?} instead of {limit:?}"))
            })
        };
        let binds: Vec<_> = limits.into_iter().map(bind).collect();
        binds.into_iter().map(|bind| bind.join().unwrap()).collect()
    });
    late.sort_unstable();
    assert!(late[late.len() / 2] < LATE, "{uri}: {late:?}");
}

#[test]
fn binding_to_a_silent_address_ends_with_its_limit() {
    let name = format!("deadlines-silent-{}", std::process::id());
    let _unix = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let uris = [
        format!("udp://{}", udp.local_addr().unwrap()),
        format!("tcp://{}", tcp.local_addr().unwrap()),
        format!("unix:@{name}"),
    ];
    std::thread::scope(|scope| {
        uris.iter().for_each(|uri| drop(scope.spawn(|| assert_ends_in_time(uri))));
    });
}
