use super::*;
use alloc::vec;
use alloc::vec::Vec;

/// Takes single units for that owner until it gets no more.
fn take_all(pool: &mut Pool, held: &mut usize) {
    while pool.take(held, 1) {}
}

#[test]
fn one_owner_alone_gets_three_quarters_and_no_more() {
    for total in [4, 64, 1024, 65_536] {
        let (mut pool, mut held) = (Pool::new(total), 0);
        take_all(&mut pool, &mut held);
        assert_eq!(held, total / 4 * 3);
        assert_eq!((pool.held(), pool.free()), (held, total - held));
    }
}

#[test]
fn owners_that_come_one_after_the_other_leave_room_for_the_next() {
    let (mut pool, mut hoarder, mut victim) = (Pool::new(1024), 0, 0);
    take_all(&mut pool, &mut hoarder);
    take_all(&mut pool, &mut victim);
    assert_eq!((hoarder, victim), (768, 192));
    assert!(pool.allows(0, 1), "a third owner still finds room");
}

#[test]
fn owners_that_take_at_the_same_time_get_the_same() {
    for owners in 1..40 {
        let (mut pool, mut held) = (Pool::new(10_000), vec![0; owners]);
        while held.iter_mut().filter_map(|held| pool.take(held, 1).then_some(())).count() > 0 {}
        let expected = 3 * 10_000 / (3 * owners + 1);
        assert!(held.iter().all(|held| held.abs_diff(expected) <= 1), "{owners} owners: {held:?}");
        assert!(pool.free() >= 10_000 / (3 * owners + 1), "{owners} owners leave {}", pool.free());
    }
}

#[test]
fn what_one_owner_gives_back_another_may_take() {
    let (mut pool, mut first, mut second) = (Pool::new(100), 0, 0);
    take_all(&mut pool, &mut first);
    take_all(&mut pool, &mut second);
    let before = second;
    pool.give_back(&mut first, 50);
    take_all(&mut pool, &mut second);
    assert!(second > before + 30, "{before} units became {second}");
}

#[test]
fn room_is_the_most_that_is_allowed() {
    for held_by_others in 0..50 {
        for held in 0..50 {
            let mut pool = Pool::new(100);
            pool.held = held_by_others + held;
            let room = pool.room(held);
            assert!(room == 0 || pool.allows(held, room), "{held_by_others} {held} {room}");
            assert!(!pool.allows(held, room + 1), "{held_by_others} {held} {room}");
        }
    }
}

#[test]
fn a_part_leaves_some_of_its_owners_room_to_the_other_parts() {
    let (mut pool, mut held, mut first, mut second) = (Pool::new(1024), 0, 0, 0);
    while pool.take_for(&mut held, &mut first, 1) {}
    assert_eq!(first, 576, "three quarters of three quarters");
    while pool.take_for(&mut held, &mut second, 1) {}
    assert!(second >= 100, "{second}");
    assert_eq!(held, first + second);
    assert!(held <= 768);
    pool.give_back_for(&mut held, &mut first, 576);
    assert_eq!((held, first, pool.held()), (second, 0, second));
}

#[test]
fn a_pool_of_a_single_unit_serves_one_owner_after_the_other() {
    let (mut pool, mut held, mut part, mut other) = (Pool::new(1), 0, 0, 0);
    assert!(pool.take_for(&mut held, &mut part, 1));
    assert!(!pool.take(&mut other, 1) && !pool.take(&mut held, 1));
    pool.give_back_for(&mut held, &mut part, 1);
    assert!(pool.take(&mut other, 1));
}

#[test]
fn impossible_amounts_are_refused_and_change_nothing() {
    let (mut pool, mut held) = (Pool::new(100), 10);
    pool.held = 10;
    assert!(!pool.take(&mut held, usize::MAX) && !pool.take(&mut held, 91));
    assert_eq!((pool.held(), held), (10, 10));
    assert!(!Pool::new(0).allows(0, 1) && Pool::new(0).allows(0, 0));
}

#[test]
#[should_panic(expected = "are given back")]
fn more_cannot_be_given_back_than_is_held() {
    Pool::new(10).give_back(&mut 0, 1);
}

#[test]
fn an_ipv6_host_is_its_network_and_an_ipv4_host_its_address() {
    let v6 = |last| Owner::host([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, last]);
    assert_eq!(v6(1), v6(2));
    assert_ne!(v6(1), Owner::host([0x20, 1, 0xd, 0xb8, 0, 0, 0, 2, 9, 9, 9, 9, 9, 9, 9, 1]));
    let v4 = |last| Owner::host([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, last]);
    assert_ne!(v4(1), v4(2));
    assert_ne!(Owner::user(0), Owner::host([0; 16]));
}

#[test]
fn an_owner_is_there_until_its_last_part_has_left() {
    let mut owners = Owners::<usize>::default();
    let (one, two) = (Owner::user(1), Owner::user(2));
    let place = owners.enter(one);
    assert_eq!(owners.enter(one), place);
    *owners.counts_mut(place) = 7;
    let other = owners.enter(two);
    assert_ne!(other, place);
    assert_eq!((*owners.counts(place), *owners.counts(other), owners.len()), (7, 0, 2));
    owners.leave(place);
    assert_eq!(owners.find(one), Some(place));
    owners.leave(place);
    assert_eq!(owners.find(one), None);
    let third = owners.enter(Owner::user(3));
    assert_eq!((third, *owners.counts(third)), (place, 0), "the place is used again, with new counts");
    assert_eq!(owners.iter().map(|(owner, _)| owner).collect::<Vec<_>>(), [two, Owner::user(3)]);
    owners.leave(third);
    owners.leave(other);
    assert!(owners.is_empty() && owners.bytes_held() == 0);
}
