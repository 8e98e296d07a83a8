//! Deadlines of milliseconds, and in the long form up to a minute: each way of waiting over each transport.

use super::*;

/// In milliseconds.
const SHORT: [u64; 8] = [5, 7, 11, 23, 47, 95, 160, 250];
/// Waits at once in the long form.
pub(crate) const MANY: i32 = 200;
/// What a wrong mechanism exceeds and an overloaded machine does not, in the middle.
const LATE: Duration = Duration::from_millis(100);

macro_rules! cells {
    ($($transport:ident [$($way:ident)*])*) => {
        $(
            mod $transport {
                use super::super::*;

                #[test]
                fn adaptive_waits_end_at_their_deadlines() {
                    super::check(stringify!($transport), Waiting::Adaptive, &[$(Way::$way),*]);
                }
                #[test]
                fn sleeping_waits_end_at_their_deadlines() {
                    super::check(stringify!($transport), Waiting::Block, &[$(Way::$way),*]);
                }
                #[test]
                fn spinning_waits_end_at_their_deadlines() {
                    super::check(stringify!($transport), Waiting::Spin, &[$(Way::$way),*]);
                }
            }
        )*
    };
}

cells! {
    udp [Blocking Handle Future Any]
    tcp [Blocking Handle Future Any]
    unix [Blocking Handle Future Any]
    shm [Blocking Handle Future Any]
    local [Handle Future Any]
}

fn check(transport: &str, waiting: Waiting, ways: &[Way]) {
    if let Ok(longest) = std::env::var("STOOP_DEADLINES") {
        let longest_ms: u64 =
            longest.parse().expect("STOOP_DEADLINES is the longest deadline in milliseconds");
        return ways.iter().for_each(|&way| print_row(transport, waiting, way, longest_ms));
    }
    let cells: Vec<_> = ways.iter().map(|&way| (transport, waiting, way)).collect();
    check_at_once(&cells, &SHORT.map(Duration::from_millis), LATE);
}

/// Prints how late waits ended, in milliseconds: the first, the middle, the 99th of a hundred, and the last.
fn print_row(transport: &str, waiting: Waiting, way: Way, longest_ms: u64) {
    let (_server, client) = silent(transport, waiting);
    let ratio = longest_ms as f64 / SHORT[0] as f64;
    let timeout_ms = |n| SHORT[0] as f64 * ratio.powf(f64::from(n) / f64::from(MANY - 1));
    let timeouts: Vec<_> = (0..MANY).map(|n| Duration::from_secs_f64(timeout_ms(n) / 1e3)).collect();
    let lateness = Lateness::measure(&client, way, &timeouts);
    println!("{transport:5} {:8} {:8} {lateness}", format!("{waiting:?}"), format!("{way:?}"));
    lateness.assert_never_early((transport, waiting, way));
}
