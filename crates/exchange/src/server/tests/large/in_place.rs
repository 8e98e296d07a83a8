//! Calls whose only argument comes back in the memory into which it was received.

use super::*;

/// Of procedure `a`, so many bytes of a call come before its argument.
const LEADING: usize = 4;

fn world(lost: fn(u32) -> bool) -> World {
    let mut world = World::new(lost);
    let interfaces = core::mem::take(&mut world.server.interfaces);
    world.server.interfaces = interfaces.returning_in_place(0, 0, LEADING as u8);
    world
}

/// Makes a call of `len` bytes whose argument comes back; the result also contains `more`. Returns the address of the
/// result.
fn call(world: &mut World, len: usize, more: &[u8]) -> *const u8 {
    world.begin(len);
    let mut running = world.until_run();
    assert!(running.is_long());
    let (before, got, result) = running.argument_as_result().expect("it comes back in place");
    let place = result.as_ptr();
    assert_eq!((&before[..LEADING], got), (&world.arguments[..LEADING], len - LEADING));
    assert!(
        result[HEADER_LEN..HEADER_LEN + got] == world.arguments[LEADING..],
        "it is where a result begins"
    );
    assert!(
        result[HEADER_LEN + got..].iter().all(|byte| *byte == 0),
        "and no other binding's bytes behind it"
    );
    result[HEADER_LEN] ^= 0xff;
    let room = result.len().max(HEADER_LEN + got + more.len());
    result.resize(room, 0);
    result[HEADER_LEN + got..HEADER_LEN + got + more.len()].copy_from_slice(more);
    let _ = running.complete(world.now, got + more.len());
    let (is_large, answer) = (running.is_large(), running.answer().to_vec());
    assert!(matches!(world.server.finish(world.now, running), Next::Nothing));
    if !is_large {
        world.reach_caller(&answer);
    }
    world.until_ended();
    let mut expected = [&world.arguments[LEADING..], more].concat();
    expected[0] ^= 0xff;
    assert!(world.result == expected, "the result is the changed argument, and what comes behind it");
    assert_eq!(world.server.incomplete_bytes(), 0);
    world.server.bytes_held();
    place
}

#[test]
fn an_argument_comes_back_in_its_own_memory() {
    let mut world = world(|packet| packet % 7 == 3);
    for len in [1441, 1444, 1456, 1457, 1476, 1477, 5000, 100 * KIB, 2000] {
        call(&mut world, len, &[]);
        call(&mut world, len, b"more");
    }
}

#[test]
fn two_buffers_serve_all_calls_of_a_lane() {
    let mut world = world(|_| false);
    let places: Vec<_> = (0..8).map(|_| call(&mut world, 300 * KIB, &[])).collect();
    assert!(places[2..].iter().zip(&places).all(|(later, earlier)| later == earlier), "{places:?}");
    assert!(world.server.bytes_held() < 800 * KIB, "{}", world.server.bytes_held());
}

#[test]
fn memory_behind_the_argument_contains_nothing_of_another_binding() {
    let mut world = world(|_| false);
    world.call(400 * KIB, 10);
    call(&mut world, 300 * KIB, &[]);
}

#[test]
fn other_calls_have_no_argument_in_place() {
    let mut world = World::new(|_| false);
    world.begin(5000);
    let mut running = world.until_run();
    assert!(running.argument_as_result().is_none());
    assert!(running.arguments_and_result(&[]).0 == world.arguments);
    finish(&mut world.server, running);
    let mut world = self::world(|_| false);
    world.begin(50);
    let mut running = world.until_run();
    assert!(!running.is_long() && running.argument_as_result().is_none());
    finish(&mut world.server, running);
}

#[test]
fn an_argument_in_place_can_also_be_read_as_others() {
    let mut world = world(|_| false);
    world.call(5000, 6000);
    call(&mut world, 5000, &[]);
    world.call(5000, 10);
}
