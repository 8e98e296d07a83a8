//! A refusal says where, what was expected and what was found.

use crate::common::{Arrays, Blobs, Colour, Entry, Name, Narrow, Stamp, Status};
use stoop_xdr::{
    Decode, DecodeError, Encode, EncodeError, Fault, Opaque, Reader, UNBOUNDED, Writer, from_slice, to_vec,
};

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The refusal of a `T` in these words.
fn refusal<T: for<'a> Decode<'a>>(words: &[u32]) -> DecodeError {
    from_slice::<T>(&bytes(words)).map(drop).expect_err("the words are no such value")
}

fn at(position: usize, fault: Fault) -> DecodeError {
    DecodeError { position, fault }
}

#[test]
fn the_end_of_the_message_inside_a_value_is_named() {
    assert_eq!(refusal::<(/* void */)>(&[1]), at(0, Fault::Trailing { count: 4 }));
    assert_eq!(refusal::<u64>(&[1]), at(0, Fault::Truncated { needed: 8, left: 4 }));
    assert_eq!(refusal::<Stamp>(&[1]), at(0, Fault::Truncated { needed: 8, left: 4 }));
    assert_eq!(refusal::<String>(&[5, 0]), at(4, Fault::Truncated { needed: 8, left: 4 }));
    assert_eq!(refusal::<Vec<Stamp>>(&[3, 1, 2, 3]), at(4, Fault::Truncated { needed: 24, left: 12 }));
    let missing_padding = from_slice::<Opaque<&[u8]>>(&[0, 0, 0, 1, 7]);
    assert_eq!(missing_padding, Err(at(4, Fault::Truncated { needed: 4, left: 1 })));
}

#[test]
fn a_number_that_is_no_value_is_named() {
    assert_eq!(refusal::<bool>(&[2]), at(0, Fault::NotBool { found: 2 }));
    assert_eq!(refusal::<Option<u32>>(&[3, 1]), at(0, Fault::NotBool { found: 3 }));
    let unknown = Fault::UnknownValue { name: "colour", found: 7 };
    assert_eq!(refusal::<[Colour; 2]>(&[0, 7]), at(4, unknown));
    assert_eq!(refusal::<Entry>(&[7]), at(0, unknown));
    let out_of_range = |name, found| Fault::OutOfRange { name, found };
    assert_eq!(refusal::<Narrow>(&[256, 0, 0, 0]), at(0, out_of_range("i8", 256)));
    assert_eq!(refusal::<Narrow>(&[0, u32::MAX, 0, 0]), at(4, out_of_range("u8", -1)));
    assert_eq!(refusal::<Narrow>(&[0, 0, 32_768, 0]), at(8, out_of_range("i16", 32_768)));
    assert_eq!(refusal::<Narrow>(&[0, 0, 0, 65_536]), at(12, out_of_range("u16", 65_536)));
}

#[test]
fn the_position_of_a_discriminant_is_where_it_begins() {
    let form = [1, 2, 3].map(u32::to_be_bytes).concat();
    let mut reader = Reader::new(&form);
    let word = reader.i32().unwrap();
    let unknown = |found| Fault::UnknownArm { name: "union", found };
    assert_eq!(reader.unknown_arm("union", word), at(0, unknown(1)));
    let hyper: i64 = reader.value().unwrap();
    assert_eq!(reader.unknown_arm("union", hyper), at(4, unknown((2 << 32) + 3)));
}

#[test]
fn a_length_above_the_declared_bound_is_named() {
    let name = from_slice::<Name>(&bytes(&[13, 0, 0, 0, 0]));
    assert_eq!(name, Err(at(0, Fault::TooLong { len: 13, max: 12 })));
    let five = bytes(&[1, 2, 3, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0]);
    assert_eq!(from_slice::<Arrays>(&five), Err(at(28, Fault::TooLong { len: 5, max: 4 })));
}

#[test]
fn text_must_be_utf_8_and_a_string_need_not() {
    let form = [0, 0, 0, 2, 0xff, b'a', 0, 0];
    assert_eq!(from_slice::<&str>(&form), Err(at(0, Fault::NotUtf8)));
    assert_eq!(from_slice::<Name>(&form), Ok(Name(vec![0xff, b'a'])));
}

#[test]
fn padding_of_any_bytes_is_accepted_and_written_as_zeros() {
    let garbage_as_of_libtirpc = [0, 0, 0, 1, 7, 0xaa, 0xbb, 0xcc];
    let value: Opaque<&[u8]> = from_slice(&garbage_as_of_libtirpc).unwrap();
    assert_eq!(value, Opaque(&[7][..]));
    let mut memory = [0xee; 8];
    let mut writer = Writer::new(&mut memory);
    writer.value(&value);
    assert_eq!(writer.finish(), Ok(8));
    assert_eq!(memory, [0, 0, 0, 1, 7, 0, 0, 0]);
}

/// C's `char` is unsigned on some machines.
#[test]
fn a_char_of_a_machine_where_char_is_unsigned_is_accepted() {
    assert_eq!(from_slice::<Narrow>(&bytes(&[200, 0, 0, 0])).map(|narrow| narrow.c), Ok(-56));
}

#[test]
fn values_beyond_their_declaration_are_not_written() {
    let too_long = |position, len, max| Err(EncodeError::TooLong { position, len, max });
    assert_eq!(to_vec(&Name(vec![b'a'; 13])), too_long(0, 13, 12));
    let (bounded, any) = (vec![0; 7], Vec::new());
    let blobs = Blobs { fixed: [0; 5], bounded, any, text: String::new(), anytext: Vec::new() };
    assert_eq!(to_vec(&blobs), too_long(8, 7, 6));
    let stamp = Stamp { seconds: 0, nanos: 0 };
    let pair = vec![stamp; 3];
    let arrays = Arrays { fixed: [0; 3], pair, bounded: vec![], any: vec![], colours: vec![], chars: vec![] };
    assert_eq!(to_vec(&arrays), Err(EncodeError::WrongLength { position: 12, len: 3, expected: 2 }));
    let wrong_arm = EncodeError::WrongArm { position: 4, name: "status", discriminant: 2 };
    assert_eq!(to_vec(&vec![Status::Other(2)]), Err(wrong_arm));
}

#[test]
fn the_first_failure_counts_and_lack_of_room_does_not_hide_it() {
    let mut writer = Writer::new(&mut []);
    writer.value(&1_u32);
    assert!(!writer.has_failed());
    writer.string("too long", 3);
    writer.string("also too long", 3);
    assert!(writer.has_failed());
    assert_eq!(writer.finish(), Err(EncodeError::TooLong { position: 4, len: 8, max: 3 }));
}

#[test]
fn refusals_are_sentences() {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let error = at(28, Fault::TooLong { len: 5, max: 4 });
    assert_eq!(text(&error), "at byte 28: expected a length of at most 4, found 5");
    let error = at(4, Fault::UnknownArm { name: "entry", found: -3 });
    assert_eq!(text(&error), "at byte 4: expected a discriminant of union entry, found -3");
    let error = EncodeError::TooLong { position: 8, len: 7, max: 6 };
    assert_eq!(text(&error), "the value at byte 8 has length 7, and at most 6 is declared");
}

/// An encoder reads nothing: what it borrows can be anything with a form.
#[test]
fn a_reference_is_written_as_its_value() {
    let stamps = [Stamp { seconds: 1, nanos: 2 }, Stamp { seconds: 3, nanos: 4 }];
    let borrowed: Vec<&Stamp> = stamps.iter().collect();
    assert_eq!(to_vec(&borrowed), to_vec(&stamps[..]));
    fn written(value: &impl Encode) -> Vec<u8> {
        to_vec(value).unwrap()
    }
    assert_eq!(written(&&stamps), bytes(&[1, 2, 3, 4]));
}

#[test]
fn data_is_borrowed_from_the_message() {
    let message = to_vec(&vec!["one".to_owned(), "two".to_owned()]).unwrap();
    let texts: Vec<&str> = from_slice(&message).unwrap();
    assert_eq!(texts, ["one", "two"]);
    assert!(message.as_ptr_range().contains(&texts[1].as_ptr()));
    let mut reader = Reader::new(&message[4..]);
    assert_eq!(reader.opaque(UNBOUNDED), Ok(&b"one"[..]));
    assert_eq!((reader.position(), reader.rest().len()), (8, 8));
}
