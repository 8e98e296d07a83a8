//! The server's half of the protocol as a table, under version control.

use super::*;
use alloc::format;
use alloc::string::String;

/// The snapshot shows every change of the protocol in a diff.
#[test]
fn the_table_equals_its_snapshot() {
    let ended = Phase::Ended(Assignment::blank(()));
    let phases = [
        ("Fresh", Phase::Fresh),
        ("Running", Phase::Running),
        ("RunningCancelled", Phase::RunningCancelled),
        ("Ended", ended),
        ("Copied", Phase::Copied(Box::new(Copied::of(&Assignment::blank(()))))),
        ("Delivered", Phase::Delivered(Assignment::blank(()))),
        ("Gone", Phase::Gone(None)),
        ("Refused", Phase::Refused(RefusalCode::Overloaded)),
    ];
    let mut table = String::new();
    for (name, phase) in phases {
        for age in [Age::Newer, Age::Same, Age::Older] {
            table += &format!("{name} × {age:?} call → {:?}\n", phase.on_call(age));
            table += &format!("{name} × {age:?} probe → {:?}\n", phase.on_probe(age));
            table += &format!("{name} × {age:?} cancel → {:?}\n", phase.on_cancel(age));
            table += &format!("{name} × {age:?} data → {:?}\n", phase.on_data(age));
        }
    }
    assert_eq!(table, include_str!("../lane.table"), "the table is now:\n{table}");
}

#[test]
fn an_idle_lane_is_small() {
    assert!(size_of::<LaneState<[u8; 64]>>() <= 64, "{}", size_of::<LaneState<[u8; 64]>>());
}
