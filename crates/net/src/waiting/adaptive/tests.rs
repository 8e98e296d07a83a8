use super::*;

const W: u64 = 40_000;
const COSTS: MachineCosts = MachineCosts { wake_up_ns: W, spin_pass_ns: 200 };
const APART: Placement = Placement { together: true, waiting_max: 1 };
const ON_ONE_CPU: Placement = Placement { together: false, waiting_max: 1 };

fn adaptive(placement: Placement) -> Wait {
    Wait::new(Waiting::Adaptive, COSTS, placement)
}

/// A wait whose end comes `after_ns` while the ends do run together; says whether it was found spinning.
fn wait_for(wait: &mut Wait, after_ns: u64) -> bool {
    let spin_ns = wait.begin(0, 1);
    if after_ns < spin_ns {
        wait.arrived(after_ns);
        return true;
    }
    wait.sleeps(spin_ns);
    wait.arrived(after_ns.max(spin_ns) + W);
    false
}

/// A wait on a processor that the peer needs too: it ends `after_ns` once this end sleeps.
fn wait_on_shared_cpu(wait: &mut Wait, after_ns: u64) -> bool {
    let spin_ns = wait.begin(0, 1);
    wait.sleeps(spin_ns);
    wait.arrived(spin_ns + after_ns);
    spin_ns > 0
}

/// A wait of one of two threads on one processor; says whether it spun.
fn wait_oversubscribed(wait: &mut Wait, after_ns: u64) -> bool {
    let spin_ns = wait.begin(0, 2);
    if after_ns >= spin_ns {
        wait.sleeps(spin_ns);
    }
    wait.arrived(after_ns.max(spin_ns) + W);
    spin_ns > 0
}

fn repeat(times: usize, mut wait: impl FnMut() -> bool) {
    for _ in 0..times {
        wait();
    }
}

fn facts(boot_id: u8, cpus: u32, only_cpu: Option<u32>) -> HostFacts {
    HostFacts { boot_id: [boot_id; 16], cpus, only_cpu }
}

#[test]
fn placement_follows_from_the_facts_of_both_ends() {
    let cases = [
        // own, peer, together, waiting_max
        (facts(1, 2, None), facts(1, 2, None), true, 1),
        (facts(1, 2, None), facts(2, 2, None), true, 2),
        (facts(1, 8, None), facts(1, 8, None), true, 7),
        (facts(1, 1, Some(0)), facts(1, 1, Some(1)), true, 1),
        (facts(1, 1, Some(0)), facts(1, 1, Some(0)), false, 1),
        (facts(1, 1, None), facts(1, 1, None), true, 1),
    ];
    for (own, peer, together, waiting_max) in cases {
        assert_eq!(Placement::of(&own, &peer), Placement { together, waiting_max }, "{own:?} {peer:?}");
    }
}

#[test]
fn first_wait_already_spins_or_not_by_the_facts_alone() {
    assert_eq!(adaptive(APART).begin(0, 1), 2 * W);
    assert_eq!(adaptive(ON_ONE_CPU).begin(0, 1), 0);
}

#[test]
fn oversubscribed_threads_spin_for_their_own_limit_at_most() {
    let mut wait = adaptive(APART);
    assert_eq!(wait.begin(0, 2), OVERSUBSCRIBED_SPIN_NS);
    assert_eq!(wait.begin(0, 1), 2 * W);
    assert!(wait.keeps_spinning(OVERSUBSCRIBED_SPIN_NS, 1));
    assert!(!wait.keeps_spinning(OVERSUBSCRIBED_SPIN_NS, 2), "another thread that waits ends the spin");
    assert!(!wait.keeps_spinning(2 * W, 1));
}

#[test]
fn oversubscribed_threads_sleep_for_results_that_take_longer() {
    let mut wait = adaptive(APART);
    let spins: Vec<bool> = (0..200).map(|_| wait_oversubscribed(&mut wait, 2 * W)).collect();
    assert!(spins[8..].iter().filter(|spins| **spins).count() <= 3, "{spins:?}");
}

#[test]
fn time_in_which_the_kernel_stops_a_spinning_thread_does_not_end_spinning() {
    let mut wait = adaptive(APART);
    for n in 0..1_000 {
        let after_ns = if n % 50 == 0 { 8_000_000 } else { 4_000 };
        assert!(wait.begin(0, 8) > 0, "wait {n} sleeps");
        wait.arrived(after_ns);
    }
}

#[test]
fn what_came_while_the_kernel_ran_another_thread_does_not_end_spinning_though_the_spin_had_run_out() {
    let mut wait = adaptive(APART);
    for n in 0..1_000 {
        let spin_ns = wait.begin(0, 8);
        assert!(spin_ns > 0, "wait {n} sleeps");
        wait.sleeps(3_000_000);
        wait.arrived(3_000_500);
    }
}

#[test]
fn time_in_which_others_ran_while_an_oversubscribed_thread_slept_does_not_end_spinning() {
    let mut wait = adaptive(APART);
    for n in 0..1_000 {
        let spin_ns = wait.begin(0, 8);
        assert!(spin_ns > 0, "wait {n} sleeps");
        if n % 10 == 9 {
            wait.sleeps(spin_ns);
            wait.arrived(spin_ns + 8_000_000);
        } else {
            wait.arrived(4_000);
        }
    }
}

#[test]
fn spin_and_block_do_as_they_are_told() {
    for placement in [APART, ON_ONE_CPU] {
        let mut spin = Wait::new(Waiting::Spin, COSTS, placement);
        assert_eq!(spin.begin(5, 100), u64::MAX);
        assert!(spin.keeps_spinning(1 << 60, placement.waiting_max));
        assert_eq!(Wait::new(Waiting::Block, COSTS, placement).begin(5, 1), 0);
    }
}

#[test]
fn spin_sleeps_after_a_millisecond_when_oversubscribed() {
    let mut spin = Wait::new(Waiting::Spin, COSTS, APART);
    spin.begin(5, 100);
    assert!(spin.keeps_spinning(OVERSUBSCRIBED_SPIN_MAX_NS, 100));
    assert!(!spin.keeps_spinning(5 + OVERSUBSCRIBED_SPIN_MAX_NS, 100));
}

#[test]
fn short_waits_are_spun_and_long_ones_slept_after_a_few() {
    for (after_ns, spins) in [(4_000, true), (W, true), (3 * W, false), (1_000_000, false)] {
        let mut wait = adaptive(APART);
        repeat(8, || wait_for(&mut wait, after_ns));
        assert_eq!(wait.begin(0, 1) > 0, spins, "waits of {after_ns} ns");
    }
}

#[test]
fn one_long_wait_among_short_ones_changes_nothing() {
    let mut wait = adaptive(APART);
    for _ in 0..100 {
        assert!((0..9).all(|_| wait_for(&mut wait, 4_000)));
        assert!(!wait_for(&mut wait, 1_000_000_000));
    }
}

#[test]
fn waits_that_become_short_are_spun_after_a_few() {
    let mut wait = adaptive(APART);
    repeat(100, || wait_for(&mut wait, 10_000_000));
    let slept = (0..100).take_while(|_| !wait_for(&mut wait, 4_000)).count();
    assert!(slept <= 4, "{slept} waits slept");
}

#[test]
fn ends_that_both_sleep_do_not_keep_each_other_asleep() {
    // Each wait contains the other end's wake-up.
    let mut wait = adaptive(APART);
    repeat(100, || wait_for(&mut wait, 10_000_000));
    let slept = (0..100).take_while(|_| !wait_for(&mut wait, W + 4_000)).count();
    assert!(slept <= 5, "{slept} waits slept");
}

#[test]
fn idle_time_costs_a_bounded_spin_in_64_waits() {
    let mut wait = adaptive(APART);
    repeat(64, || wait_for(&mut wait, 1_000_000));
    let spins = (0..640).filter(|_| wait.begin(0, 1) > 0).count();
    assert!(spins <= 10, "{spins} spins");
}

#[test]
fn shared_processor_is_suspected_and_tried_ever_more_seldom() {
    let mut wait = adaptive(APART);
    let spins: Vec<usize> = (0..5000).filter(|_| wait_on_shared_cpu(&mut wait, 3_000)).collect();
    let pauses: Vec<usize> = spins.windows(2).map(|pair| pair[1] - pair[0] - 1).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
}

#[test]
fn suspicion_is_dropped_when_a_spin_succeeds() {
    let mut wait = adaptive(APART);
    repeat(600, || wait_on_shared_cpu(&mut wait, 3_000));
    while !wait_for(&mut wait, 4_000) {}
    assert!((0..100).all(|_| wait_for(&mut wait, 4_000)));
    assert!(wait_on_shared_cpu(&mut wait, 3_000));
    assert!(!wait_on_shared_cpu(&mut wait, 3_000), "one wait is slept");
    assert!(wait_on_shared_cpu(&mut wait, 3_000), "and then it is tried again");
}

#[test]
fn suspicion_fades_fast_once_wake_ups_come_from_another_processor() {
    let mut wait = adaptive(APART);
    repeat(1100, || wait_on_shared_cpu(&mut wait, 3_000));
    let slept = (0..1000).take_while(|_| !wait_for(&mut wait, 4_000)).count();
    assert!(slept <= 11, "{slept} waits slept");
}

#[test]
fn every_wait_is_counted_once_by_the_way_it_went() {
    let mut wait = adaptive(APART);
    wait_for(&mut wait, 4_000);
    wait_for(&mut wait, 3 * W);
    wait.set_placement(ON_ONE_CPU);
    wait_for(&mut wait, 4_000);
    assert_eq!(wait.counts(), WaitCounts { spun: 1, spun_then_slept: 1, slept: 1 });
}

#[test]
fn clocks_that_stand_still_or_lie_do_no_harm() {
    let mut wait = adaptive(APART);
    for now_ns in [u64::MAX, 0, 1 << 63, u64::MAX, 3] {
        wait.begin(now_ns, 1);
        wait.sleeps(now_ns / 2);
        wait.arrived(now_ns.wrapping_add(7));
    }
    assert!(wait.mean_ns() <= 4 * W);
}

/// Two ends that call each other's turn, in virtual time: real `Wait`s at both, and a machine that costs
/// what MachineCosts may or may not have guessed.
mod two_ends {
    use super::*;

    struct World {
        /// True cost of a wake-up across processors.
        wake_up_ns: u64,
        /// Sending, delivery and procedure, each way.
        hop_ns: u64,
        /// Both on one processor, which neither knows.
        secretly_one_cpu: bool,
        /// A context switch on one processor.
        switch_ns: u64,
        /// Between a result and the next call.
        think_ns: u64,
    }

    const WORLD: World =
        World { wake_up_ns: W, hop_ns: 2_000, secretly_one_cpu: false, switch_ns: 1_500, think_ns: 100 };

    impl World {
        /// The receiver began to wait at `began`; the packet is in its queue at `there`. When has it got it?
        fn receive(&self, wait: &mut Wait, began: u64, there: u64) -> u64 {
            let spin_ns = wait.begin(began, 1);
            let slept = began.saturating_add(spin_ns);
            if !self.secretly_one_cpu && there < slept {
                wait.arrived(there.max(began));
                return there.max(began);
            }
            let got = match self.secretly_one_cpu {
                // `there` is when the peer sent, had it had the processor: it gets it when we sleep.
                true => there + spin_ns + self.switch_ns,
                false => there.max(slept) + self.wake_up_ns,
            };
            wait.sleeps(slept);
            wait.arrived(got);
            got
        }

        /// Mean time of a call over `calls` calls back to back.
        fn mean_call_ns(&self, waiting: Waiting, placement: Placement, calls: u64) -> u64 {
            let mut caller = Wait::new(waiting, COSTS, placement);
            let mut server = Wait::new(waiting, COSTS, placement);
            let (mut now, mut server_began) = (1_000_000_000, 0);
            let start = now;
            for _ in 0..calls {
                let called = now + self.hop_ns;
                let caller_began = called;
                let mut at_server = self.receive(&mut server, server_began, called);
                if self.secretly_one_cpu {
                    // Seen from outside, the server's spin took place before the caller could send.
                    at_server = called + self.switch_ns;
                }
                let answered = at_server + self.hop_ns;
                server_began = answered;
                now = self.receive(&mut caller, caller_began, answered);
                if self.secretly_one_cpu {
                    now += server.spin_until_ns.saturating_sub(server.began_ns);
                }
                now += self.think_ns;
            }
            (now - start) / calls
        }
    }

    fn ratio_to(best_ns: u64, ns: u64) -> f64 {
        ns as f64 / best_ns as f64
    }

    #[test]
    fn on_two_processors_adaptive_is_as_good_as_spinning() {
        for wake_up_ns in [5_000, 20_000, 40_000, 60_000, 75_000] {
            let world = World { wake_up_ns, ..WORLD };
            let spin = world.mean_call_ns(Waiting::Spin, APART, 1_000);
            let adaptive = world.mean_call_ns(Waiting::Adaptive, APART, 1_000);
            assert!(ratio_to(spin, adaptive) < 1.1, "wake-up {wake_up_ns}: {adaptive} against {spin}");
        }
    }

    #[test]
    fn on_one_known_processor_adaptive_is_blocking() {
        let world = World { secretly_one_cpu: true, ..WORLD };
        let block = world.mean_call_ns(Waiting::Block, ON_ONE_CPU, 1_000);
        assert_eq!(world.mean_call_ns(Waiting::Adaptive, ON_ONE_CPU, 1_000), block);
    }

    #[test]
    fn on_one_processor_that_the_placement_does_not_tell_adaptive_is_soon_as_good_as_blocking() {
        let world = World { secretly_one_cpu: true, ..WORLD };
        let block = world.mean_call_ns(Waiting::Block, APART, 20_000);
        let adaptive = world.mean_call_ns(Waiting::Adaptive, APART, 20_000);
        assert!(ratio_to(block, adaptive) < 1.1, "{adaptive} against {block}");
    }
}
