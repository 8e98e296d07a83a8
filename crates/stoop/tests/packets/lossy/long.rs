//! Calls of many packets over a bad network. A proxy of datagrams would have to carry those of any length: this is over frames alone.

use super::*;

#[test]
fn every_long_call_runs_once_and_gets_its_own_result_over_a_bad_network() {
    over_frames(&[(110, LOSSY), (111, DISORDERLY), (112, STORM)], |link, (seed, weather)| {
        let world = World::new(link, seed, weather);
        let ends = call_from_threads(3, 6, |id| {
            let words: Vec<u64> = (0..6_000).map(|word| word * id).collect();
            let result = world.client.add_long(id, words.clone())?;
            let expected: Vec<_> = words.into_iter().map(|word| word ^ result_of(id)).collect();
            assert!(result == expected, "call {id} got other bytes");
            Ok(result_of(id))
        });
        assert_all_succeeded(&ends);
        world.end(&ends);
    });
}
