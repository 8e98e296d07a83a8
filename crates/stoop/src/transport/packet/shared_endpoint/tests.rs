use super::*;
use crate::transport::contract::{Binding, Lane};
use crate::transport::packet::link::PacketLink;
use crate::transport::packet::options::PacketOptions;
use crate::transport::packet::tests::bound;
use crate::transport::udp::UdpLink;
use std::net::SocketAddr;
use std::thread;

fn connect(server: SocketAddr, share: Share) -> SharedEndpoint<<UdpLink as PacketLink>::Caller> {
    UdpLink::shared_endpoints()
        .connect(&server, share, || UdpLink::connect(&server, Share::ManyLanes))
        .unwrap()
}

#[test]
fn lanes_of_earlier_sessions_are_served_no_longer() {
    let server = SocketAddr::from(([127, 0, 0, 1], 9));
    let user = connect(server, Share::ManyLanes);
    let other = connect(server, Share::OneLane);
    other.serve_lane(BindingId(1), LaneId(7));
    for binding in 1..=1000 {
        (0..8).chain(0..8).for_each(|lane| user.serve_lane(BindingId(binding), LaneId(lane)));
        assert_eq!(user.served().lanes.len(), 8);
    }
    // The lane that it took from the other user is not there any more either.
    assert_eq!(user.shared.mailboxes().len(), 8);
    drop(user);
    assert!(other.shared.mailboxes().is_empty());
}

#[test]
fn endpoint_is_in_use_while_it_has_a_user() {
    let server = SocketAddr::from(([127, 0, 0, 1], 10));
    let is_in_use = || UdpLink::shared_endpoints().is_in_use(&server);
    assert!(!is_in_use());
    let users = [(); 2].map(|()| connect(server, Share::OneLane));
    for user in users {
        assert!(is_in_use());
        drop(user);
    }
    assert!(!is_in_use());
}

/// Threads that wait are woken while they sleep, and never otherwise.
#[test]
fn no_thread_is_woken_that_does_not_sleep() {
    const THREADS: u64 = 4;
    const CALLS: u64 = 500;
    let (_server, binding) = bound(PacketOptions::new().share_endpoints());
    let counts: Vec<_> = thread::scope(|scope| {
        let call_often = || {
            for _ in 0..CALLS {
                binding.hold(10_000_000_000).unwrap().transport(0, 0).unwrap();
            }
            WaitingThread::current().counts()
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(call_often)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (sleeps, wakes) in &counts {
        assert!(wakes <= sleeps, "{counts:?}");
    }
    assert!(counts.iter().any(|(_, wakes)| *wakes > 0), "threads have waited for another to receive");
}
