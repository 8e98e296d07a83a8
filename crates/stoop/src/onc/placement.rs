//! Whether the two ends of a Sun RPC connection can run at the same time. Its messages do not tell.

use std::fs;
use std::sync::OnceLock;
use stoop_net::host::HostFacts;
use stoop_net::waiting::Placement;

/// The placement of an end whose peer may be anywhere: it can spin, unless the machine has one processor only. If the peer shares that of
/// this thread, spinning finds nothing, and the adaptive way of waiting soon sleeps at once.
pub(crate) fn of_this_end() -> Placement {
    static HAS_ONE: OnceLock<bool> = OnceLock::new();
    let own = HostFacts::gather();
    let has_one = *HAS_ONE.get_or_init(|| {
        // "0" on such a machine, a range or a list on others.
        fs::read_to_string("/sys/devices/system/cpu/online").is_ok_and(|cpus| !cpus.contains(['-', ',']))
    });
    Placement { together: !has_one, ..Placement::of(&own, &own) }
}
