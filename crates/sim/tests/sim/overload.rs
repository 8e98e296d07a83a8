//! Many callers and a server with limited power: what it cannot do in time, it refuses and does not begin.

use stoop_sim::{Report, Sabotage, Scenario, Sim, Violation};

fn run(seed: u64, sabotage: Sabotage) -> Result<Report, Violation> {
    let mut sim = Sim::new(seed, Scenario::overloaded(), sabotage);
    sim.run()?;
    Ok(sim.report())
}

#[test]
fn no_call_is_begun_after_its_deadline_or_twice() {
    let (mut overloaded, mut too_late) = (0, 0);
    for seed in 0..300 {
        let report = run(seed, Sabotage::None).unwrap_or_else(|violation| panic!("{violation}"));
        overloaded += report.overloaded;
        too_late += report.too_late;
    }
    assert!(overloaded > 1000 && too_late > 100, "{overloaded} calls refused, {too_late} too late");
}

#[test]
fn a_server_that_counts_from_when_it_reads_a_call_is_noticed() {
    let what =
        (0..300).find_map(|seed| run(seed, Sabotage::CountsFromReading).err()).expect("it is noticed").what;
    assert!(what.contains("after its deadline"), "{what}");
}
