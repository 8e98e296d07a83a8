//! Pipes of two items: nothing is read before it is written, or written before it has been read, and no thread sleeps for ever.

use super::{World, explore};
use crate::Way;
use crate::pipe::{self, Closed, Reading, Stopped, Writing};
use loom::thread;

/// One more than the ring holds.
const ITEMS: u64 = 3;

/// A thread writes items and closes the pipe; it sleeps while there is no room.
fn write(world: &World, way: Way) {
    let (segment, mut writing) = (&world.segment, Writing::new(way, 0));
    for item in 1..=ITEMS {
        while writing.room(segment, 8).unwrap() < 8 {
            writing.sleep().sleep(segment, u64::MAX, || false);
        }
        writing.put(segment, &item.to_le_bytes());
        writing.publish(segment);
    }
    writing.close(segment, Closed::Whole);
}

/// Takes the next item that is there.
fn take(world: &World, reading: &mut Reading) -> Option<u64> {
    if reading.arrived(&world.segment).unwrap() == 0 {
        return None;
    }
    let mut bytes = Vec::new();
    reading.take(&world.segment, 8, &mut bytes);
    Some(u64::from_le_bytes(bytes.try_into().unwrap()))
}

/// A thread reads until the pipe is closed; it sleeps while there is nothing.
fn read(world: &World, reading: &mut Reading) -> Vec<u64> {
    let (segment, mut items) = (&world.segment, Vec::new());
    loop {
        let closed = reading.closed(segment).unwrap();
        match take(world, reading) {
            Some(item) => items.push(item),
            None if closed.is_some() => return items,
            None => {
                let is_closed = || reading.closed(segment) != Ok(None);
                reading.sleep().sleep(segment, u64::MAX, is_closed);
            }
        }
    }
}

#[test]
fn all_items_arrive_in_order_though_both_ends_sleep() {
    explore(|| {
        let world = World::with_pipes();
        let writer = {
            let world = world.clone();
            thread::spawn(move || write(&world, Way::Result))
        };
        assert_eq!(read(&world, &mut Reading::new(Way::Result, 0)), [1, 2, 3]);
        writer.join().unwrap();
    });
}

#[test]
fn a_writer_that_sleeps_for_room_or_a_limit_learns_that_the_reader_stops() {
    explore(|| {
        let world = World::with_pipes();
        let reader = {
            let world = world.clone();
            thread::spawn(move || {
                let reading = Reading::new(Way::Call, 0);
                reading.raise_limit(&world.segment, 8);
                reading.stop(&world.segment, Stopped::Unwanted);
            })
        };
        let writing = Writing::new(Way::Call, 0);
        let segment = &world.segment;
        while writing.limit(segment) == 0 {
            writing.sleep().sleep(segment, u64::MAX, || writing.limit(segment) > 0);
        }
        while writing.stopped(segment).is_none() {
            writing.sleep().sleep(segment, u64::MAX, || writing.stopped(segment).is_some());
        }
        reader.join().unwrap();
    });
}

/// The server's receiver waits for what it was to be notified of.
fn wait_until_ready(world: &World) {
    world.wait(|| {
        let mut is_ready = false;
        pipe::take_ready(&world.segment, |lane| is_ready = lane == 0);
        is_ready.then_some(())
    });
}

#[test]
fn a_server_without_a_thread_is_notified_of_each_item() {
    explore(|| {
        let world = World::with_pipes();
        let server = {
            let world = world.clone();
            thread::spawn(move || {
                let mut reading = Reading::new(Way::Call, 0);
                for item in 1..=2 {
                    loop {
                        if let Some(taken) = take(&world, &mut reading) {
                            assert_eq!(taken, item);
                            break;
                        }
                        reading.ask(&world.segment);
                        if reading.arrived(&world.segment) == Ok(0) {
                            wait_until_ready(&world);
                        }
                    }
                }
            })
        };
        let mut writing = Writing::new(Way::Call, 0);
        for item in 1..=2_u64 {
            writing.put(&world.segment, &item.to_le_bytes());
            if writing.publish(&world.segment) {
                world.ring();
            }
        }
        server.join().unwrap();
    });
}
