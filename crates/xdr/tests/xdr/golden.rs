//! The bytes are those of libtirpc, and of RFC 4506's own example.

use crate::common::{
    All, Arrays, Blobs, Colour, Entry, Name, Narrow, Node, Nodes, Numbers, Perhaps, Stamp, Status, Tree,
};
use std::collections::HashMap;
use std::fmt::Debug;
use stoop_xdr::{Chain, DecodeOwned, Encode, Opaque, OpaqueArray, Quadruple, from_slice, to_vec};

/// The lines of `golden.txt`, which `oracle/golden.c` printed.
fn lines() -> HashMap<&'static str, Vec<u8>> {
    let line = |line: &'static str| {
        let (name, hex) = line.split_once(' ').expect("a name and bytes");
        (name, unhex(hex))
    };
    include_str!("../oracle/golden.txt").lines().map(line).collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("digits"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal digits")).collect()
}

/// Checks a value in both directions.
fn check<T: Encode + DecodeOwned + PartialEq + Debug>(bytes: &[u8], value: &T) {
    assert_eq!(to_vec(value).as_deref(), Ok(bytes), "{value:?}");
    assert_eq!(&from_slice::<T>(bytes).expect("libtirpc wrote it"), value);
}

fn numbers() -> [Numbers; 2] {
    [
        Numbers { i: i32::MIN, u: 0, h: i64::MIN, uh: 0, f: -0.0, d: -1.0 / 3.0, b: false },
        Numbers { i: i32::MAX, u: u32::MAX, h: i64::MAX, uh: u64::MAX, f: 1e38, d: 5e-324, b: true },
    ]
}

fn green() -> Entry {
    Entry::Green(Name(b"twelve bytes".into()))
}

fn statuses() -> Vec<Status> {
    vec![Status::Value(-2), Status::Two(green()), Status::Other(-7)]
}

fn nodes() -> Nodes {
    let node = |(name, id): (&str, u32)| Node { name: Name(name.into()), id };
    [("a", 1), ("two", 2), ("", 3)].into_iter().map(node).collect()
}

fn tree() -> Tree {
    let leaf = Tree { value: 2, left: None, right: None };
    let right = Tree { value: 3, left: Some(Box::new(leaf)), right: None };
    Tree { value: 1, left: None, right: Some(Box::new(right)) }
}

#[test]
fn numbers_are_as_libtirpc_writes_them() {
    let golden = lines();
    let [low, high] = numbers();
    check(&golden["numbers_low"], &low);
    check(&golden["numbers_high"], &high);
    check(&golden["narrow_low"], &Narrow { c: -128, uc: 0, s: i16::MIN, us: 0 });
    check(&golden["narrow_high"], &Narrow { c: 127, uc: 255, s: i16::MAX, us: u16::MAX });
}

#[test]
fn opaque_data_and_arrays_are_as_libtirpc_writes_them() {
    let golden = lines();
    let (none, five) = (Vec::new, vec![1, 2, 3, 4, 5]);
    let empty = Blobs { fixed: [0; 5], bounded: none(), any: none(), text: String::new(), anytext: none() };
    check(&golden["blobs_empty"], &empty);
    let (bounded, anytext) = (b"abcdef".into(), "é".into());
    let full = Blobs { fixed: [1, 2, 3, 4, 5], bounded, any: five, text: "seven.7".into(), anytext };
    check(&golden["blobs_full"], &full);
    let stamp = |seconds, nanos| Stamp { seconds, nanos };
    let arrays = Arrays {
        fixed: [7, 8, 9],
        pair: vec![stamp(1, 2), stamp(3, 4)],
        bounded: vec![1, -1, 2, -2],
        any: vec![stamp(1, 2), stamp(3, 4), stamp(5, 6)],
        colours: vec![Colour::Blue, Colour::Green, Colour::Red],
        chars: vec![0, 127, 128, 255, 1],
    };
    check(&golden["arrays_full"], &arrays);
}

#[test]
fn unions_and_pointers_are_as_libtirpc_writes_them() {
    let golden = lines();
    check(&golden["entry_red"], &Entry::Red(Stamp { seconds: 1, nanos: 2 }));
    check(&golden["entry_green"], &green());
    check(&golden["entry_blue"], &Entry::Blue);
    for (name, status) in ["status_value", "status_entry", "status_default"].into_iter().zip(statuses()) {
        check(&golden[name], &status);
    }
    check(&golden["perhaps_known"], &Perhaps(Some(vec![1, 2, 3, 4, 5])));
    check(&golden["perhaps_unknown"], &Perhaps(None));
    check(&golden["nodes_three"], &nodes());
    check(&golden["nodes_none"], &Nodes::default());
    check(&golden["tree"], &tree());
}

#[test]
fn a_struct_of_all_is_as_libtirpc_writes_it() {
    let golden = lines();
    let [low, high] = numbers();
    let full = All {
        numbers: high,
        maybe: Perhaps(Some(vec![1, 2, 3, 4, 5])),
        list: nodes(),
        tree: Some(Box::new(tree())),
        stamp: Some(Stamp { seconds: 1, nanos: 2 }),
        results: statuses(),
    };
    check(&golden["all_full"], &full);
    let (maybe, list) = (Perhaps(None), Chain(Vec::new()));
    let least = All { numbers: low, maybe, list, tree: None, stamp: None, results: Vec::new() };
    check(&golden["all_least"], &least);
}

/// RFC 4506 §7: a file that John owns.
#[test]
fn the_example_of_rfc_4506_has_its_bytes() {
    let bytes = unhex(concat!(
        "0000000973696c6c7970726f6700000000000002000000046c697370000000046a6f686e0000000628717569742900",
        "00"
    ));
    let mut expected = Vec::new();
    for part in [
        to_vec("sillyprog"),
        to_vec(&2_u32),
        to_vec("lisp"),
        to_vec("john"),
        to_vec(&Opaque(b"(quit)".as_slice())),
    ] {
        expected.extend(part.expect("it has a form"));
    }
    assert_eq!(bytes, expected);
}

/// rpcgen's C for these does not compile, so the bytes are from RFC 4506 §4.8 and §4.9.
#[test]
fn quadruples_and_arrays_of_opaque_data_are_their_bytes() {
    let quadruple: Vec<u8> = (1..=16).collect();
    check(&quadruple, &Quadruple(quadruple[..].try_into().expect("16 bytes")));
    check(&[1, 2, 3, 0, 4, 5, 6, 0], &[OpaqueArray([1, 2, 3]), OpaqueArray([4, 5, 6])]);
    check(&[], &());
    check(&[], &OpaqueArray([]));
}
