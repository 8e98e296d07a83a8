//! Values of every type, as arguments and as results.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, LinkedList, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZero;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Colour, List, Pair, Point, Shape, Tree, served};

/// Declares an interface of procedures that return their argument, and a check of each with some values.
macro_rules! echoes {
    ($($name:ident: $ty:ty = $value:expr;)*) => {
        /// Procedures that return their argument.
        #[stoop::interface]
        pub(crate) trait Echo {
            $(fn $name(&self, value: $ty) -> $ty;)*
        }

        pub(crate) struct Echoing;

        impl Echo for Echoing {
            $(fn $name(&self, value: $ty) -> $ty { value })*
        }

        fn every_value_comes_back(client: &EchoClient) {
            $({
                let value: $ty = $value;
                assert_eq!(client.$name(value.clone()).unwrap(), value);
            })*
        }
    };
}

echoes! {
    echo_bool: bool = true;
    echo_char: char = 'ß';
    echo_u8: u8 = 200;
    echo_u16: u16 = 60_000;
    echo_u32: u32 = 4_000_000_000;
    echo_u64: u64 = u64::MAX - 1;
    echo_u128: u128 = u128::MAX - 1;
    echo_usize: usize = 77;
    echo_i8: i8 = -100;
    echo_i16: i16 = -30_000;
    echo_i32: i32 = i32::MIN;
    echo_i64: i64 = i64::MIN;
    echo_i128: i128 = i128::MIN;
    echo_isize: isize = -77;
    echo_f32: f32 = 1.5;
    echo_f64: f64 = -2.25;
    echo_unit: () = ();
    echo_array: [u16; 7] = [1, 2, 3, 4, 5, 6, 7];
    echo_array_of_structs: [Point; 2] = [Point { x: 1.0, y: 2.0 }; 2];
    echo_tuple: (u8, u64, String, [char; 2]) = (1, 2, "drei".to_owned(), ['v', 'i']);
    echo_string: String = "a text".to_owned();
    echo_boxed_str: Box<str> = "another".into();
    echo_vec: Vec<u64> = vec![1, 2, 3];
    echo_vec_of_strings: Vec<String> = vec!["a".to_owned(), String::new()];
    echo_boxed_slice: Box<[i16]> = vec![-1, 1].into();
    echo_deque: VecDeque<u8> = VecDeque::from([1, 2, 3]);
    echo_linked_list: LinkedList<u32> = LinkedList::from([1, 2]);
    echo_option: Option<u128> = Some(1);
    echo_nested_option: Option<Option<String>> = Some(None);
    echo_tree_map: BTreeMap<String, Vec<u8>> = BTreeMap::from([("a".to_owned(), vec![1]), ("b".to_owned(), vec![])]);
    echo_hash_map: HashMap<u16, String> = HashMap::from([(1, "one".to_owned()), (2, "two".to_owned())]);
    echo_tree_set: BTreeSet<Colour> = BTreeSet::from([Colour::Green]);
    echo_hash_set: HashSet<i8> = HashSet::from([-1, 0, 1]);
    echo_boxed: Box<u32> = Box::new(5);
    echo_arc: Arc<String> = Arc::new("shared".to_owned());
    echo_duration: Duration = Duration::new(3, 999_999_999);
    echo_time: SystemTime = SystemTime::UNIX_EPOCH - Duration::from_nanos(1);
    echo_address: IpAddr = Ipv6Addr::LOCALHOST.into();
    echo_socket_address: SocketAddr = (Ipv4Addr::LOCALHOST, 7400).into();
    echo_non_zero: NonZero<u32> = NonZero::new(1).unwrap();
    echo_struct: Point = Point { x: f64::MAX, y: f32::MIN };
    echo_generic: Pair<u8, Pair<String, Option<Point>>> = Pair(1, Pair("two".to_owned(), None));
    echo_enum: Colour = Colour::Red;
    echo_shape: Shape = Shape::Group(vec![
        Shape::Nothing,
        Shape::Circle(Point::default(), 1.0),
        Shape::Polygon { corners: vec![Point::default(); 3], colour: Colour::Green },
    ]);
    echo_list: List = List { value: 1, next: Some(Box::new(List { value: 2, next: None })) };
    echo_tree: Tree = Tree { left: Some(Box::new(Tree { left: None, right: None })), right: None };
}

#[test]
fn values_of_every_type_come_back() {
    let (_server, uris) = served();
    for uri in uris {
        every_value_comes_back(&EchoClient::bind(&uri).unwrap());
    }
}

#[test]
fn large_values_come_back_over_every_transport() {
    let (_server, uris) = served();
    for uri in &uris {
        let client = EchoClient::bind(uri).unwrap();
        let words: Vec<u64> = (0..300_000).collect();
        assert_eq!(client.echo_vec(words.clone()).unwrap(), words);
        let names: Vec<String> = (0..10_000).map(|number| format!("name {number}")).collect();
        assert_eq!(client.echo_vec_of_strings(names.clone()).unwrap(), names);
    }
}
