//! Deadlines of seconds: there the kernel's timer wheel, by which sockets know limits, rounds by an eighth.

use super::*;

/// At 250 ticks a second the wheel has steps of 256 ms here: half of the waits that it ends are later than 128 ms.
const SECONDS: [f64; 8] = [2.10, 2.13, 2.17, 2.20, 2.23, 2.26, 2.30, 2.33];
const LATE: Duration = Duration::from_millis(60);

#[test]
fn deadlines_of_seconds_are_not_rounded_to_the_steps_of_the_timer_wheel() {
    let timeouts = SECONDS.map(Duration::from_secs_f64);
    let ways = [Way::Blocking, Way::Handle, Way::Future, Way::Any];
    let mut cells = Vec::new();
    for transport in ["udp", "tcp", "unix", "shm"] {
        for waiting in [Waiting::Adaptive, Waiting::Block] {
            cells.extend(ways.map(|way| (transport, waiting, way)));
        }
    }
    check_at_once(&cells, &timeouts, LATE);
}
