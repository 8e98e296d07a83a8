//! Texts and messages from a peer that means harm.

use crate::common::{Node, encoded, signature};
use proptest::prelude::*;
use std::sync::Arc;
use stoop_marshal::{DecodeError, Reader};
use stoop_schema::{Argument, Signature, limits};

#[test]
fn texts_that_are_no_signatures_are_refused() {
    for wrong in [
        "",
        "f",
        "f(",
        "f()x",
        "f() -> ",
        "f(a)",
        "f(a: )",
        "f(a: u8",
        "f(a: u8,b: u8)",
        "f(a: u9{)",
        "f(a: [u8; ])",
        "f(a: [u8; 99999999999999999999])",
        "f(a: (u8))",
        "f(a: NonZero<f32>)",
        "f(a: Other<u8>)",
        "f(a: A{x: A})",
        "f(a: A(Box<A>))",
        "f(a: A{x: [A; 2]})",
        "f(a: [u64; 1152921504606846976])",
        "f(a: [[u8; 4294967295]; 2])",
        "f(a: whole [u8])",
        "f(a: out whole u8)",
        "f(a: in place [A])",
        "f(a: in place u8)",
        "f(a: A{x: shared u8})",
        "f(a: A#99999999999)",
        "f(a: A#0)",
        "f(a: A#1)",
        "f(a: A#02)",
        "f(a: [u8; 07])",
        "f(a: A{x: u8 | y})",
        "f(1: u8)",
        "f(a: u8, b: u8, a: u8)",
        "f(a: A{x: u8, x: u8})",
        "f(a: A{X | Y | X})",
        "f(a: A{X{x: u8, x: u8}})",
        "two words()",
        "f(a: out in place [u8]) extra",
    ] {
        let parsed = Signature::parse(wrong);
        // A type without a structure is a unit struct.
        assert!(parsed.is_err(), "{wrong}: {parsed:?}");
    }
}

#[test]
fn the_largest_tree_is_bounded() {
    let nested = |depth: usize| format!("f(a: {}u8{})", "[".repeat(depth), "]".repeat(depth));
    assert!(Signature::parse(&nested(limits::NESTING_MAX - 1)).is_ok());
    assert!(Signature::parse(&nested(limits::NESTING_MAX)).is_err());
    let fields = |count: usize| {
        let all: Vec<_> = (0..count).map(|number| format!("a{number:x}: u8")).collect();
        format!("f({})", all.join(", "))
    };
    assert!(Signature::parse(&fields(limits::NODES_MAX / 2)).is_ok());
    assert!(Signature::parse(&fields(limits::NODES_MAX / 2 + 1)).is_err());
    assert!(Signature::parse(&format!("f(a: {})", "A".repeat(limits::TEXT_MAX))).is_err());
}

#[test]
fn a_count_takes_no_memory_that_its_message_does_not_justify() {
    let of = |text: &str| Signature::parse(text).unwrap();
    let read =
        |signature: &Signature, payload: &[u8]| signature.take_call(&mut Reader::new(payload)).unwrap_err();
    let huge = u32::MAX.to_le_bytes();
    assert_eq!(read(&of("f(a: [u8])"), &huge), DecodeError::CountTooLarge { count: u32::MAX });
    assert_eq!(read(&of("f(a: [()])"), &huge), DecodeError::OverBudget);
    assert_eq!(read(&of("f(a: [(); 4000000000])"), &[]), DecodeError::OverBudget);
    assert_eq!(read(&of("f(a: [[(); 1000]; 1000000])"), &[]), DecodeError::OverBudget);
    assert_eq!(read(&of("f(a: Map<(), ()>)"), &2_u32.to_le_bytes()), DecodeError::Duplicate);
    assert_eq!(read(&of("f(a: Set<u8>)"), &[2, 0, 0, 0, 7, 7]), DecodeError::Duplicate);
    let shared = of("f(a: A{x: shared [Box<u8>], y: shared Option<Box<u16>>})");
    assert_eq!(read(&shared, &[1, 0, 0, 0, 1, 0, 0, 0]), DecodeError::BadReference { found: 1 });
    let other_type = [1, 0, 0, 0, 0, 0, 0, 0, 9, 1, 0, 0, 1, 0, 0, 0];
    assert_eq!(read(&shared, &other_type), DecodeError::BadReference { found: 1 });
}

#[test]
fn a_graph_with_many_paths_takes_no_more_json_than_its_nodes() {
    let mut node = Arc::new(Node { value: 0, next: Vec::new(), best: None });
    for value in 0..60 {
        node = Arc::new(Node { value, next: vec![Arc::clone(&node), Arc::clone(&node)], best: Some(node) });
    }
    let payload = encoded(&*node, 0, 4000).unwrap();
    let signature = signature::<Node>(0);
    let arguments = signature.take_call(&mut Reader::new(&payload)).unwrap();
    assert!(signature.json_of_arguments(&arguments).to_string().len() < 6000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_parsed_or_refused(text in "(f\\(|a: |[A-C]|u8|\\[|\\]|\\{|\\}|\\(|\\)|<|>|, |; 3| \\| |#2|Option<|Box<|Map<|shared |out |inout |whole |late |in place |pipe in |pipe out |str|slice<u8>){0,24}") {
        if let Ok(signature) = Signature::parse(&text) {
            prop_assert_eq!(signature.to_string(), text);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        which in 0_usize..9,
        payload in prop::collection::vec(prop_oneof![4 => 0_u8..3, 1 => any::<u8>()], 0..200),
    ) {
        let text = [
            "f(a: Tree{value: u64, branches: [Tree], named: Map<String, Tree>})",
            "f(a: Node{value: u32, next: shared [Box<Node>], best: shared Option<Box<Node>>})",
            "f(a: Shape{Nothing | Circle(f64) | Polygon{corners: [(f32,f32,)]} | Group([Shape]) | Boxed(Box<Shape>)})",
            "f(a: [Option<Result<char, NonZero<u8>>>], b: Duration, c: SystemTime)",
            "f(a: Set<(u8,i64,)>, b: SocketAddr, c: [IpAddr; 2])",
            "f(a: Option<A(Option<Box<u8>>)>, b: inout [u16], c: out in place [u32])",
            "f(a: Map<[u8], Set<bool>>, b: u128, c: [[u16; 3]; 2])",
            "f(a: [()], b: [[(); 1000]])",
            "f(a: pipe in slice<u8>, b: Option<u8>, c: pipe out u32)",
        ][which];
        let signature = Signature::parse(text).unwrap();
        if let Ok(arguments) = signature.take_call(&mut Reader::new(&payload)) {
            let json = signature.json_of_arguments(&arguments);
            // A caller gives no window.
            let given = arguments.into_iter().map(|argument| match argument {
                Argument::Window(_) => Argument::Nothing,
                argument => argument,
            });
            prop_assert_eq!(signature.arguments_of(&json), Ok(given.collect()));
        }
    }
}
