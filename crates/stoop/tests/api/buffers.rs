//! Buffers in place: one interface, over memory that both processes have, and over everything else.

use crate::harness::cameras::{CameraClient, CameraServer, Lens, started};
use crate::harness::eventually;
use crate::harness::transports;
use std::thread;
use std::time::Duration;
use stoop::error::{InPlaceError, SendError, UnknownCause};
use stoop::{
    BindOptions, CallError, Error, FailureCode, InPlace, RefusalCode, RunningServer, Server, ShmOptions,
};

/// A server on each transport, and a client of it.
fn everywhere() -> impl Iterator<Item = (RunningServer, CameraClient)> {
    transports::without_network().map(|transport| {
        let server = started(Server::new(), &transports::address(transport));
        let client = client(&server);
        (server, client)
    })
}

fn client(server: &RunningServer) -> CameraClient {
    let options = BindOptions::new().timeout(Duration::from_secs(60));
    CameraClient::bind_with(&server.uris()[0], &options).unwrap()
}

fn over_shm(server: Server) -> (RunningServer, CameraClient) {
    over("shm", server)
}

fn over(transport: &str, server: Server) -> (RunningServer, CameraClient) {
    let server = started(server, &transports::address(transport));
    let client = client(&server);
    (server, client)
}

/// Lengths about where a message is one packet, one slot, and far beyond.
const LENS: [usize; 8] = [0, 1, 7, 359, 360, 1024, 1025, 300_000];

#[test]
fn a_buffer_is_read_and_changed_in_the_same_way_over_every_transport() {
    for (_server, client) in everywhere() {
        let about = client.binding().describe();
        for len in LENS {
            let mut frame = client.in_place::<f32>(len).unwrap();
            let values: Vec<f32> = (0..len).map(|n| (n % 100) as f32).collect();
            frame.write(0, &values);
            let sum: f32 = values.iter().sum();
            assert_eq!(client.sum(&frame).unwrap(), f64::from(sum), "{about} {len}");
            assert_eq!(client.scale(&mut frame, 2.0).unwrap(), len as u32, "{about} {len}");
            assert!(
                frame.to_vec().iter().zip(&values).all(|(after, before)| *after == 2.0 * before),
                "{about}"
            );
            assert_eq!(frame.len(), len);
        }
    }
}

#[test]
fn a_buffer_is_filled_in_the_same_way_over_every_transport() {
    for (_server, client) in everywhere() {
        let about = client.binding().describe();
        for len in LENS {
            let mut numbers = client.in_place::<u64>(len).unwrap();
            client.count_up(7, &mut numbers).unwrap();
            assert!(numbers.to_vec().into_iter().eq(7..7 + len as u64), "{about} {len}");
            let begun = client.begin().count_up(9, len).wait().unwrap();
            assert!(begun.into_iter().eq(9..9 + len as u64), "{about} {len}");
            let mut own = InPlace::private(len);
            client.count_up(3, &mut own).unwrap();
            assert!(own.to_vec().into_iter().eq(3..3 + len as u64), "{about} {len}");
        }
        let failed = client.count_up(0, &mut client.in_place(3).unwrap());
        assert!(matches!(failed, Err(Error::Application(_))), "{about}: {failed:?}");
    }
}

#[test]
fn the_contents_of_a_buffer_to_be_filled_do_not_travel_with_the_call() {
    let (_server, client) = over("udp", Server::new().max_message(1000));
    // What the procedure fills has the limit of results, and the call has a few bytes.
    let mut short = InPlace::private(100);
    client.count_up(1, &mut short).unwrap();
    let mut long = InPlace::from(vec![5; 1_000_000]);
    match client.count_up(1, &mut long) {
        Err(Error::Call(CallError::Refused(refusal, ..))) => {
            assert_eq!(refusal.code, RefusalCode::ResultTooLarge, "{refusal:?}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(long.to_vec(), vec![5; 1_000_000]);
}

#[test]
fn one_call_passes_several_buffers_and_other_arguments() {
    for (_server, client) in everywhere() {
        let about = client.binding().describe();
        for (len, before) in [(0, 0), (3, 10), (1000, 10), (100, 200_000), (100_000, 5000)] {
            let mut sums = client.in_place(len).unwrap();
            // One of another kind among them.
            let left = InPlace::from(vec![7_u64; len]);
            let mut right = client.in_place(len).unwrap();
            right.write(0, &(0..len as u64).collect::<Vec<_>>());
            let mut after = [1, 2, 3];
            let answer = client.add(vec![1; before], &mut sums, &left, &right, &mut after, "text").unwrap();
            assert_eq!((answer, after), (format!("text {before}"), [3, 2, 1]), "{about}");
            assert!(sums.to_vec().into_iter().eq(7..7 + len as u64), "{about}");
            let other = client.in_place(len + 1).unwrap();
            match client.add(Vec::new(), &mut sums, &other, &right, &mut after, "") {
                Err(Error::Application(why)) => {
                    assert_eq!(why, format!("{} and {len} are not {len}", len + 1))
                }
                other => panic!("{about}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_buffer_made_for_another_server_is_copied() {
    for (_server, client) in everywhere() {
        let (_other, elsewhere) = over_shm(Server::new());
        let mut frame = elsewhere.in_place::<f32>(5000).unwrap();
        assert!(frame.is_shared());
        frame.write(0, &[1.5; 5000]);
        assert_eq!(client.sum(&frame).unwrap(), 7500.0);
        assert_eq!(client.scale(&mut frame, 4.0).unwrap(), 5000);
        assert_eq!(frame.to_vec(), [6.0; 5000]);
    }
}

#[test]
fn begun_and_one_way_calls_copy_buffers() {
    for (_server, client) in everywhere() {
        let mut frame = client.in_place(2000).unwrap();
        frame.write(0, &[0.5; 2000]);
        let (sum, scaled) = {
            let begin = client.begin();
            (begin.sum(&frame), begin.scale(&frame, 3.0))
        };
        frame.write(0, &[9.0; 2000]);
        assert_eq!(sum.wait().unwrap(), 1000.0);
        assert_eq!(scaled.wait().unwrap(), (2000, vec![1.5; 2000]));
        let mut note = client.in_place(3).unwrap();
        note.write(0, &[-1, 2, -3]);
        client.note(&note).unwrap();
        while client.noted().unwrap() != [-1, 2, -3] {}
    }
}

#[test]
fn a_procedure_may_replace_a_buffer_by_one_of_the_same_length() {
    for (_server, client) in everywhere() {
        let mut buffer = client.in_place(3).unwrap();
        client.replace(&mut buffer, &[4, 5, 6]).unwrap();
        assert_eq!(buffer.to_vec(), [4, 5, 6]);
        if client.binding().uri().starts_with("local:") {
            continue;
        }
        match client.replace(&mut buffer, &[4, 5, 6, 7]) {
            Err(CallError::Failed(failure, ..)) => {
                assert_eq!(failure.code, FailureCode::Panicked);
                let is_within_machine =
                    ["unix:", "shm:"].iter().any(|scheme| client.binding().uri().starts_with(scheme));
                let is_told = failure.detail.contains("of 4 elements in the place of one of 3");
                assert_eq!(is_told, is_within_machine, "{failure:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn buffers_that_a_procedure_exchanges_are_exchanged_for_the_caller() {
    for (_server, client) in everywhere() {
        let about = client.binding().describe();
        // Of three that lie in memory of both ends, and of which one is copied.
        for copied in 0..4 {
            let mut buffers: Vec<InPlace<u32>> = (0..3)
                .map(|number| match number == copied {
                    true => InPlace::private(500),
                    false => client.in_place(500).unwrap(),
                })
                .collect();
            for (number, buffer) in (1..).zip(&mut buffers) {
                buffer.write(0, &[number; 500]);
            }
            let [first, second, third] = &mut buffers[..] else { unreachable!("they are three") };
            client.rotate(first, second, third).unwrap();
            let after: Vec<_> = buffers.iter().map(InPlace::to_vec).collect();
            assert_eq!(after, [[2; 500], [3; 500], [1; 500]], "{about} {copied}");
        }
    }
}

#[test]
fn only_shared_memory_gives_the_procedure_the_callers_own_buffer() {
    for (_server, client) in everywhere() {
        let buffer = client.in_place::<u8>(10).unwrap();
        let is_shared = client.binding().uri().starts_with("shm:");
        assert_eq!((buffer.is_shared(), client.is_shared(&buffer).unwrap()), (is_shared, is_shared));
        let about = client.binding().describe();
        let expected = match client.binding().uri().split(':').next().unwrap() {
            "shm" => "buffers lie in memory of both, 67108864 bytes, of which 67108800 are free",
            "local" => "the procedure gets the buffers themselves",
            _ => "buffers are copied, because only `shm:` shares memory with the server",
        };
        assert!(about.contains(expected), "{about}");
        // Its own memory, and the offset in it.
        let next = client.in_place::<u8>(10).unwrap();
        if is_shared {
            assert_eq!(client.place(&next).unwrap(), client.place(&buffer).unwrap() + 64);
        }
        assert!(!client.is_shared(&InPlace::private(10)).unwrap());
    }
}

#[test]
fn a_full_arena_is_reported_and_has_space_after_a_buffer_is_dropped() {
    let (_server, client) = over_shm(Server::new().with(ShmOptions::new().in_place(1 << 20)));
    let first = client.in_place::<u8>(1 << 19).unwrap();
    let second = client.in_place::<u8>(1 << 19).unwrap();
    match client.in_place::<u8>(1) {
        Err(why @ InPlaceError::Full(full)) => {
            assert_eq!((full.free, full.len), (0, 1 << 20));
            assert!(why.to_string().contains("`ShmOptions::in_place`"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    assert!(client.sum(&InPlace::private(3)).is_ok());
    drop(first);
    let third = client.in_place::<u32>(1 << 17).unwrap();
    assert!(third.is_shared() && second.is_shared());
}

#[test]
fn a_server_that_gives_no_memory_gets_copies() {
    let (_server, client) = over_shm(Server::new().with(ShmOptions::new().in_place(0)));
    let mut frame = client.in_place::<f32>(3).unwrap();
    assert!(!frame.is_shared());
    frame.write(0, &[1.0, 2.0, 3.0]);
    assert_eq!(client.sum(&frame).unwrap(), 6.0);
    let about = client.binding().describe();
    assert!(about.contains("the server gives no memory for them"), "{about}");
}

#[test]
fn several_threads_may_pass_the_same_buffer() {
    let (_server, client) = over_shm(Server::new());
    let mut frame = client.in_place::<f32>(100).unwrap();
    frame.write(0, &[1.0; 100]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| assert_eq!(client.sum(&frame).unwrap(), 100.0)));
        }
    });
}

#[test]
fn memory_that_a_procedure_may_still_use_is_not_given_to_another_buffer() {
    let lens = Lens::default();
    let gate = lens.gate.clone();
    let uri = format!("shm:test-held-buffer-{}", std::process::id());
    let server = Server::new()
        .export(CameraServer::new(lens))
        .with(ShmOptions::new().in_place(1 << 16))
        .listen(&uri)
        .unwrap();
    let server = server.start().unwrap();
    let _opens = gate.open_on_drop();
    let client = client(&server);
    let mut bytes = client.in_place::<u8>(1 << 16).unwrap();
    bytes.set(0, 1);
    // A time in which a call begins; if it should not, it did not run, and says so.
    let mut timeout = Duration::from_millis(50);
    while gate.inside() == 0 {
        match client.with_timeout(timeout).hold(&bytes) {
            Err(
                CallError::Unknown { cause: UnknownCause::DeadlinePassed, .. }
                | CallError::Refused(..)
                | CallError::NotSent(SendError::DeadlinePassed, ..),
            ) => {}
            other => panic!("{other:?}"),
        }
        timeout *= 2;
    }
    drop(bytes);
    assert!(matches!(client.in_place::<u8>(1), Err(InPlaceError::Full(_))));
    gate.open();
    // The call ends with its deadline; after that the procedure no longer uses the memory.
    eventually(|| client.in_place::<u8>(1 << 16).is_ok());
}
