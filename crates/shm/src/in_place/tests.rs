use super::*;
use crate::Segment;

fn is_used_alike<T: Number + PartialEq + fmt::Debug>(of: impl Fn(u8) -> T) {
    let (_segment, arena, _file) = Segment::create_with_arena(1).unwrap();
    for mut buffer in [InPlace::private(20), arena.unwrap().allocate(20).unwrap()] {
        for index in 0..20 {
            buffer.set(index, of(index as u8));
        }
        assert_eq!(buffer.get(19), of(19));
        buffer.write(17, &[of(1), of(2)]);
        let mut part = [of(0); 4];
        buffer.read(16, &mut part);
        assert_eq!(part, [of(16), of(1), of(2), of(19)]);
        assert_eq!(buffer.to_vec()[..2], [of(0), of(1)]);
        // SAFETY: no other thread or process has this memory.
        assert_eq!(unsafe { buffer.as_slice() }, buffer.to_vec());
        // SAFETY: as above.
        unsafe { buffer.as_mut_slice() }.fill(of(9));
        assert_eq!(buffer.get(3), of(9));
        assert_eq!(buffer.as_ptr(), buffer.as_mut_ptr().cast_const());
    }
}

#[test]
fn numbers_of_every_size_are_read_and_written_wherever_they_lie() {
    is_used_alike(|n| n);
    is_used_alike(|n| u16::from(n) << 7);
    is_used_alike(|n| i32::from(n) - 7);
    is_used_alike(f32::from);
    is_used_alike(f64::from);
    is_used_alike(|n| u128::from(n) << 100 | 3);
}

#[test]
fn an_empty_buffer_has_no_elements() {
    let (_segment, arena, _file) = Segment::create_with_arena(1).unwrap();
    for mut buffer in [InPlace::<u64>::private(0), arena.unwrap().allocate(0).unwrap()] {
        assert!(buffer.is_empty() && buffer.to_vec().is_empty());
        buffer.write(0, &[]);
        buffer.copy_from(&[]);
    }
}

#[test]
fn bytes_are_copied_whole() {
    let mut buffer = InPlace::from(vec![1_u16, 2]);
    let mut bytes = [0; 4];
    buffer.copy_to(&mut bytes);
    bytes.reverse();
    buffer.copy_from(&bytes);
    assert_eq!(buffer.private_elements(), Some(&[2_u16.swap_bytes(), 1_u16.swap_bytes()][..]));
    buffer.private_elements_mut().unwrap()[0] = 4;
    assert_eq!(format!("{buffer:?} {}", buffer.get(0)), "InPlace { len: 2, is_shared: false } 4");
}

#[test]
#[should_panic(expected = "element 3 of 3")]
fn there_is_no_element_behind_the_last() {
    InPlace::<u8>::private(3).get(3);
}

#[test]
#[should_panic(expected = "2 elements from 2 on, of 3")]
fn nothing_is_written_behind_the_last() {
    InPlace::<u8>::private(3).write(2, &[1, 2]);
}
