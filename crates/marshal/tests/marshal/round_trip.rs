//! Every type arrives as it was sent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZero;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::{Colour, Fixed, List, Mixed, Node, Shape, Tree, Unit, assert_travels, decoded, encoded};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use stoop_marshal::{Data, Layout, Reader};

/// Checks a property of arbitrary values of a type.
macro_rules! travels {
    ($($name:ident: $strategy:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(24))]
            $(#[test] fn $name(value in $strategy) { assert_travels(&value); })*
        }
    };
}

/// A type, all of its collections and pointers.
fn wrapped<T: Data + Clone + PartialEq + Debug>(values: &[T]) {
    let Some(first) = values.first() else { return };
    assert_travels(&values.to_vec());
    assert_travels(&values.to_vec().into_boxed_slice());
    assert_travels(&values.iter().cloned().collect::<VecDeque<T>>());
    assert_travels(&values.iter().cloned().collect::<LinkedList<T>>());
    assert_travels(&Some(first.clone()));
    assert_travels(&Ok::<T, u16>(first.clone()));
    assert_travels(&Err::<u16, T>(first.clone()));
    assert_travels(&Box::new(first.clone()));
    assert_travels(&Rc::new(first.clone()));
    assert_travels(&Arc::new(first.clone()));
    assert_travels(&[first.clone(), first.clone()]);
    assert_travels(&(first.clone(), 1u8, first.clone()));
    assert_travels(&Mixed(1, "text".to_owned(), first.clone(), None));
    assert_travels(&[(1u8, first.clone())].into_iter().collect::<BTreeMap<u8, T>>());
}

macro_rules! travels_wrapped {
    ($($name:ident: $ty:ty;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(8))]
            $(#[test] fn $name(values in vec(any::<$ty>(), 1..4)) {
                assert_travels(&values[0]);
                wrapped(&values);
            })*
        }
    };
}

travels_wrapped! {
    u8_travels: u8; u16_travels: u16; u32_travels: u32; u64_travels: u64; u128_travels: u128; usize_travels: usize;
    i8_travels: i8; i16_travels: i16; i32_travels: i32; i64_travels: i64; i128_travels: i128; isize_travels: isize;
    f32_travels: f32; f64_travels: f64;
    bool_travels: bool; char_travels: char; unit_travels: (); string_travels: String;
    arrays_travel: [u16; 5];
    tuples_travel: (u8, u64, char, bool, i16, u128, f32, u8, u16, i32);
    duration_travels: Duration;
    option_travels: Option<u32>;
    nested_vec_travels: Vec<u32>;
}

fn shapes() -> impl Strategy<Value = Shape> {
    let colour = prop_oneof![Just(Colour::Red), Just(Colour::Green), Just(Colour::Blue)];
    let leaf = prop_oneof![
        Just(Shape::Nothing),
        any::<f64>().prop_map(Shape::Circle),
        (vec(any::<(f32, f32)>(), 0..4), colour)
            .prop_map(|(corners, colour)| Shape::Polygon { corners, colour }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| vec(inner, 0..3).prop_map(Shape::Group))
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = any::<u64>().prop_map(|value| Tree { value, branches: Vec::new(), named: BTreeMap::new() });
    leaf.prop_recursive(3, 8, 3, |inner| {
        (any::<u64>(), vec(inner.clone(), 0..3), btree_map("[a-z]{1,3}", inner, 0..2))
            .prop_map(|(value, branches, named)| Tree { value, branches, named })
    })
}

travels! {
    maps_travel: any::<BTreeMap<u16, String>>();
    hash_maps_travel: any::<HashMap<u16, u64>>();
    sets_travel: any::<BTreeSet<String>>();
    hash_sets_travel: any::<HashSet<i8>>();
    addresses_travel: any::<(IpAddr, SocketAddr)>();
    address_kinds_travel: any::<(Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6)>();
    times_travel: any::<SystemTime>();
    results_travel: any::<Result<String, u8>>();
    enums_travel: shapes();
    trees_travel: trees();
    fixed_structs_travel: any::<(u8, u128, (u16, [u32; 3]), bool)>()
        .prop_map(|(small, large, pair, flag)| Fixed { small, large, pair, flag });
}

#[test]
fn fixed_structs_and_enums_survive_encoding_in_every_container() {
    wrapped(&[Fixed { small: 1, large: 2, pair: (3, [4, 5, 6]), flag: true }, Fixed::default()]);
    wrapped(&[Colour::Blue, Colour::Red]);
    wrapped(&[Unit]);
    wrapped(&[NonZero::new(7u64).unwrap()]);
    wrapped(&[Shape::Circle(1.0), Shape::Group(vec![Shape::Nothing])]);
    wrapped(&[
        SystemTime::UNIX_EPOCH - Duration::from_nanos(1),
        SystemTime::UNIX_EPOCH - Duration::from_secs(1),
    ]);
}

#[test]
fn unsized_boxes_survive_encoding() {
    assert_travels(&"text".to_owned().into_boxed_str());
    assert_travels(&vec!["text".to_owned()].into_boxed_slice());
}

#[test]
fn a_list_survives_encoding() {
    let list = (0..100).fold(None, |next, value| Some(Box::new(List { value, next }))).unwrap();
    assert_travels(&list);
}

#[test]
fn a_shared_node_is_sent_once_and_stays_shared() {
    let shared = Arc::new(Node { value: 7, next: Vec::new(), best: None });
    let middle =
        Arc::new(Node { value: 8, next: vec![Arc::clone(&shared)], best: Some(Arc::clone(&shared)) });
    let root = Node { value: 9, next: vec![middle, Arc::clone(&shared)], best: Some(shared) };
    assert_travels(&root);
    let root: Node = decoded(&encoded(&root, 0, 1000).unwrap(), 0).unwrap();
    let shared = &root.next[1];
    assert!(Arc::ptr_eq(shared, root.best.as_ref().unwrap()));
    assert!(Arc::ptr_eq(shared, &root.next[0].next[0]));
    assert_eq!(Arc::strong_count(shared), 4);
}

#[test]
fn an_arc_without_the_attribute_is_sent_at_each_occurrence() {
    let shared = Arc::new(1u32);
    let pair: (Arc<u32>, Arc<u32>) = decoded(&encoded(&(shared.clone(), shared), 0, 8).unwrap(), 0).unwrap();
    assert!(!Arc::ptr_eq(&pair.0, &pair.1));
}

#[test]
fn a_graph_with_many_paths_takes_no_more_than_its_nodes() {
    let mut node = Arc::new(Node { value: 0, next: Vec::new(), best: None });
    for value in 0..60 {
        node = Arc::new(Node { value, next: vec![Arc::clone(&node), Arc::clone(&node)], best: Some(node) });
    }
    let payload = encoded(&*node, 0, 4000).unwrap();
    assert_eq!(decoded::<Node>(&payload, 0).unwrap().value, 59);
}

#[test]
fn sequences_of_numbers_are_read_from_memory_at_any_address() {
    let values: Vec<u64> = (1..100).collect();
    let payload = encoded(&values, 0, 1000).unwrap();
    for shift in 0..8 {
        let mut memory = vec![0; shift];
        memory.extend_from_slice(&payload);
        let mut reader = Reader::new(&memory[shift..]);
        assert_eq!(reader.value::<Vec<u64>>().unwrap(), values, "shifted by {shift}");
    }
}

#[test]
fn values_are_aligned_and_padding_is_zero() {
    assert_eq!(encoded(&(1u8, 2u32), 0, 100).unwrap(), [1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(encoded(&(1u8, 2u16, "ab".to_owned()), 0, 100).unwrap(), [1, 0, 2, 0, 2, 0, 0, 0, b'a', b'b']);
    assert_eq!(encoded(&(4u32, 1u8), 0, 100).unwrap(), [4, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(encoded(&Some(1u16), 0, 100).unwrap(), [1, 0, 1, 0]);
    assert_eq!(
        encoded(&Shape::Circle(0.0), 0, 100).unwrap(),
        [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(encoded(&vec![1u64; 0], 0, 100).unwrap(), [0; 4]);
}

#[test]
fn a_fixed_struct_has_the_layout_of_c() {
    assert_eq!(Fixed::LAYOUT, Layout::fixed(64, 16));
    assert_eq!(Colour::LAYOUT, Layout::fixed(4, 4));
    assert_eq!(Unit::LAYOUT, Layout::fixed(0, 1));
    assert_eq!(List::LAYOUT, Layout::variable(5));
}

#[test]
fn structures_are_spelled_out_once() {
    let structure = |describe: fn(&mut stoop_marshal::Description)| {
        let mut description = stoop_marshal::Description::new();
        describe(&mut description);
        description.finish()
    };
    assert_eq!(structure(List::describe), "List{value: u32, next: Option<Box<List>>}");
    assert_eq!(
        structure(Shape::describe),
        "Shape{Nothing | Circle(f64) | Polygon{corners: [(f32,f32,)], colour: Colour{Red | Green | Blue}} | Group([Shape])}"
    );
    assert_eq!(
        structure(Node::describe),
        "Node{value: u32, next: shared [Box<Node>], best: shared Option<Box<Node>>}"
    );
    assert_eq!(
        structure(<(Fixed, Mixed<Fixed>)>::describe),
        "(Fixed{small: u8, large: u128, pair: (u16,[u32; 3],), flag: bool},Mixed(u8, String, Fixed, Option<Fixed>),)"
    );
}

/// Declares types whose parts it is given.
macro_rules! declared {
    ($record:ident $grown:ident $choice:ident: $($name:ident $ty:ty),*) => {
        #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
        #[stoop(crate = crate::common::root)]
        struct $record {
            $($name: $ty,)*
            #[stoop(shared)]
            shared: Vec<std::sync::Arc<u32>>,
        }

        #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
        #[stoop(crate = crate::common::root)]
        struct $grown($(#[stoop(since = 1)] $ty),*);

        #[derive(stoop_macros::Data, Clone, Debug, PartialEq)]
        #[stoop(crate = crate::common::root)]
        enum $choice {
            One { $($name: $ty),* },
            #[stoop(since = 1)]
            Two($(#[stoop(since = 2)] $ty),*),
        }
    };
}
declared! { Declared DeclaredGrown DeclaredChoice: number u32, text String, pair (u8, Option<f64>) }

#[test]
fn types_of_fields_may_have_passed_through_other_macros() {
    let (number, text, pair) = (7, "text".to_owned(), (1, Some(2.5)));
    let one = std::sync::Arc::new(3);
    let shared = vec![std::sync::Arc::clone(&one), one];
    assert_travels(&Declared { number, text: text.clone(), pair, shared });
    assert_travels(&DeclaredGrown(number, text.clone(), pair));
    assert_travels(&DeclaredChoice::One { number, text: text.clone(), pair });
    assert_travels(&DeclaredChoice::Two(number, text, pair));
}
