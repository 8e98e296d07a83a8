use super::*;
use crate::Segment;
use rustix::fd::OwnedFd;

fn both(len: usize) -> (Arc<Arena>, Arc<Arena>, OwnedFd) {
    let (_ours, ours, file) = Segment::create_with_arena(len).unwrap();
    let (_theirs, theirs) = Segment::attach_with_arena(&file).unwrap();
    (ours.unwrap(), theirs.unwrap(), file)
}

#[test]
fn what_one_process_writes_the_other_finds_where_it_is_told() {
    let (server, caller, _file) = both(1 << 20);
    let first = caller.allocate::<u8>(1).unwrap();
    let mut buffer = caller.allocate::<f64>(1000).unwrap();
    buffer.write(990, &[2.5; 10]);
    let (at, _) = buffer.place_in(&caller).unwrap();
    let mut view = server.view::<f64>(at, 1000).unwrap();
    assert_eq!(view.get(999), 2.5);
    view.set(0, -1.0);
    assert_eq!(buffer.get(0), -1.0);
    assert!(view.is_shared() && view.place_in(&server).is_none() && view.place_in(&caller).is_none());
    assert_eq!(first.place_in(&caller).unwrap().0, 0);
}

#[test]
fn nothing_outside_and_nothing_misaligned_is_viewed() {
    let (server, ..) = both(Arena::PAGE);
    let len = Arena::PAGE as u64;
    assert!(server.view::<u8>(0, Arena::PAGE).is_some());
    assert!(server.view::<u64>(len, 0).is_some());
    for (at, count) in [
        (0, Arena::PAGE + 1),
        (1, Arena::PAGE),
        (len, 1),
        (len + 8, 0),
        (u64::MAX, 0),
        (u64::MAX, 1),
        (u64::MAX - 7, 8),
        (8, usize::MAX),
        (8, usize::MAX / 8),
        (8, usize::MAX / 8 + 2),
    ] {
        assert!(server.view::<u8>(at, count).is_none(), "{at} {count}");
        assert!(server.view::<u64>(at, count).is_none(), "{at} {count}");
    }
    assert!(server.view::<u64>(4, 1).is_none());
    assert!(server.view::<u128>(8, 1).is_none());
    assert!(server.view::<f32>(4, 1).is_some());
}

#[test]
fn a_full_arena_says_what_there_is_and_has_room_again_when_a_buffer_goes() {
    let (_, caller, _file) = both(2 * Arena::PAGE);
    let first = caller.allocate::<u8>(Arena::PAGE).unwrap();
    let second = caller.allocate::<u8>(Arena::PAGE / 2).unwrap();
    let full = caller.allocate::<u16>(Arena::PAGE).unwrap_err();
    let half = Arena::PAGE / 2;
    assert_eq!(full, Full { wanted: 2 * Arena::PAGE, free: half, longest: half, len: 2 * Arena::PAGE });
    drop(first);
    assert_eq!(caller.allocate::<u64>(usize::MAX).unwrap_err().longest, Arena::PAGE);
    drop(second);
    assert!(caller.allocate::<u16>(Arena::PAGE).is_ok());
    assert_eq!(caller.free(), 2 * Arena::PAGE);
}

#[test]
fn memory_that_was_given_back_does_not_pile_up() {
    let (_server, caller, file) = both(64 << 20);
    // In units of 512 bytes.
    let held = || rustix::fs::fstat(&file).unwrap().st_blocks as usize * 512;
    let mut buffers: Vec<_> = (0..16).map(|_| caller.allocate::<u8>(1 << 20).unwrap()).collect();
    for buffer in &mut buffers {
        buffer.write(0, &[1; 1 << 20]);
    }
    assert!(held() >= 16 << 20);
    let kept = buffers.remove(7);
    drop(buffers);
    assert!(held() <= (1 << 20) + UNRETURNED_MAX, "{}", held());
    assert!(kept.to_vec().iter().all(|&byte| byte == 1));
}

#[test]
fn a_buffer_outlives_everything_else() {
    let (server, caller, file) = both(Arena::PAGE);
    let mut buffer = caller.allocate::<u32>(100).unwrap();
    let view = server.view::<u32>(0, 100).unwrap();
    drop((server, caller, file));
    buffer.set(99, 7);
    assert_eq!(view.get(99), 7);
}

#[test]
fn a_range_that_is_held_elsewhere_too_is_not_given_to_another() {
    let (_, caller, _file) = both(Arena::PAGE);
    let buffer = caller.allocate::<u8>(Arena::PAGE).unwrap();
    let range = Arc::clone(buffer.place_in(&caller).unwrap().1);
    drop(buffer);
    assert!(caller.allocate::<u8>(1).is_err());
    drop(range);
    assert!(caller.allocate::<u8>(1).is_ok());
}
