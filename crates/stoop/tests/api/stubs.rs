//! Every argument mode and every type of argument, through real stubs, over every transport.

#![allow(clippy::too_many_arguments, reason = "every kind of argument at once")]

mod values;

use crate::harness::transports;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use values::{EchoServer, Echoing};

use stoop::{Data, Error, Ran, RunningServer, Server};

#[derive(Data, Clone, Copy, Debug, Default, PartialEq)]
struct Point {
    x: f64,
    y: f32,
}

#[derive(Data, Clone, Debug, PartialEq)]
struct Pair<A, B>(A, B);

#[derive(Data, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Colour {
    Red,
    Green,
}

#[derive(Data, Clone, Debug, PartialEq)]
enum Shape {
    Nothing,
    Circle(Point, f64),
    Polygon { corners: Vec<Point>, colour: Colour },
    Group(Vec<Shape>),
}

#[derive(Data, Clone, Debug, PartialEq)]
struct List {
    value: u32,
    next: Option<Box<List>>,
}

#[derive(Data, Clone, Debug, PartialEq)]
struct Tree {
    left: Option<Box<Tree>>,
    right: Option<Box<Tree>>,
}

#[derive(Data, Clone, Debug, PartialEq)]
struct Graph {
    #[stoop(shared)]
    nodes: Vec<Arc<String>>,
}

#[derive(Data, Clone, Debug, PartialEq, Eq)]
enum Refusal {
    DividedByZero,
    Other { why: String },
}

/// Every way in which an argument can travel.
#[stoop::interface]
trait Modes {
    fn null(&self);
    fn max_result(&self, #[out] buf: &mut [u8; 1440]);
    fn max_arg(&self, buf: &[u8; 1440]);
    fn one_integer(&self, a: i32) -> i32;
    fn two_integers(&self, a: i32, b: i32) -> i32;
    fn four_integers(&self, a: i32, b: i32, c: i32, d: i32) -> i32;
    fn array_4(&self, bytes: [u8; 4]) -> u32;
    fn array_400(&self, bytes: &[u8; 400]) -> u32;
    fn text(&self, text: Option<&str>) -> Option<String>;
    /// Lends everything that can be lent.
    fn lent(
        &self,
        text: &str,
        bytes: &[u8],
        words: &[u64],
        longs: &[u128; 2],
        points: &[Point],
        pair: &[Point; 2],
        names: &[String],
        list: &List,
        flags: &[bool],
    ) -> String;
    fn perhaps(
        &self,
        words: Option<&[u32]>,
        array: Option<&[u64; 2]>,
        names: Option<&[String]>,
        list: Option<&List>,
    ) -> u32;
    fn both_ways(
        &self,
        count: &mut u32,
        text: &mut String,
        words: &mut [u64],
        array: &mut [i16; 3],
        names: &mut [String],
        points: &mut [Point; 2],
        list: &mut List,
    ) -> u32;
    fn out(
        &self,
        #[out] count: &mut u32,
        #[out] bytes: &mut [u8],
        #[out] text: &mut String,
        #[out] words: &mut [u64],
        #[out] array: &mut [u16; 3],
        #[out] names: &mut [String],
        #[out] points: &mut [Point; 2],
        #[out] some: &mut Option<Point>,
        #[out] empty: &mut [u32],
    ) -> char;
    /// Divides 100.
    #[idempotent]
    fn divide(&self, by: i32) -> Result<i32, Refusal>;
    fn check(&self, n: u32) -> Result<(), String>;
    fn shared(&self, graph: &Graph) -> Graph;
    fn with_default(&self) -> u32 {
        7
    }
    fn runs(&self) -> u32;
}

#[derive(Default)]
struct Serving {
    runs: AtomicU32,
}

impl Modes for Serving {
    fn null(&self) {}
    fn max_result(&self, buf: &mut [u8; 1440]) {
        for (index, byte) in buf.iter_mut().enumerate() {
            *byte = index as u8;
        }
    }
    fn max_arg(&self, buf: &[u8; 1440]) {
        assert!(buf.iter().enumerate().all(|(index, &byte)| byte == index as u8));
    }
    fn one_integer(&self, a: i32) -> i32 {
        a
    }
    fn two_integers(&self, a: i32, b: i32) -> i32 {
        a * 10 + b
    }
    fn four_integers(&self, a: i32, b: i32, c: i32, d: i32) -> i32 {
        a * 1000 + b * 100 + c * 10 + d
    }
    fn array_4(&self, bytes: [u8; 4]) -> u32 {
        u32::from_be_bytes(bytes)
    }
    fn array_400(&self, bytes: &[u8; 400]) -> u32 {
        bytes.iter().map(|&byte| u32::from(byte)).sum()
    }
    fn text(&self, text: Option<&str>) -> Option<String> {
        text.map(str::to_uppercase)
    }
    fn lent(
        &self,
        text: &str,
        bytes: &[u8],
        words: &[u64],
        longs: &[u128; 2],
        points: &[Point],
        pair: &[Point; 2],
        names: &[String],
        list: &List,
        flags: &[bool],
    ) -> String {
        let (points, pair) = (points.len(), pair[1].y);
        format!("{text} {bytes:?} {words:?} {longs:?} {points} {pair} {names:?} {} {flags:?}", list.value)
    }
    fn perhaps(
        &self,
        words: Option<&[u32]>,
        array: Option<&[u64; 2]>,
        names: Option<&[String]>,
        list: Option<&List>,
    ) -> u32 {
        let words = words.map_or(1000, |words| words.iter().sum());
        let array = array.map_or(2000, |array| array[1] as u32);
        words + array + names.map_or(4000, |names| names.len() as u32) + list.map_or(8000, |list| list.value)
    }
    fn both_ways(
        &self,
        count: &mut u32,
        text: &mut String,
        words: &mut [u64],
        array: &mut [i16; 3],
        names: &mut [String],
        points: &mut [Point; 2],
        list: &mut List,
    ) -> u32 {
        *count += 1;
        text.push('!');
        words.reverse();
        array.reverse();
        names.reverse();
        points.reverse();
        list.next = Some(Box::new(List { value: 2, next: None }));
        words.len() as u32
    }
    fn out(
        &self,
        count: &mut u32,
        bytes: &mut [u8],
        text: &mut String,
        words: &mut [u64],
        array: &mut [u16; 3],
        names: &mut [String],
        points: &mut [Point; 2],
        some: &mut Option<Point>,
        empty: &mut [u32],
    ) -> char {
        self.runs.fetch_add(1, Ordering::Relaxed);
        assert!(text.is_empty() && some.is_none() && names.iter().all(String::is_empty));
        *count = 5;
        bytes.fill(9);
        text.push_str("text");
        words.fill(u64::MAX);
        *array = [1, 2, 3];
        names.fill("name".to_owned());
        points[1].x = 3.0;
        *some = Some(points[1]);
        assert!(empty.is_empty());
        '✓'
    }
    fn divide(&self, by: i32) -> Result<i32, Refusal> {
        match by {
            0 => Err(Refusal::DividedByZero),
            by if 100 % by != 0 => Err(Refusal::Other { why: format!("{by} does not divide 100") }),
            by => Ok(100 / by),
        }
    }
    fn check(&self, n: u32) -> Result<(), String> {
        if n == 0 { Err("nothing".to_owned()) } else { Ok(()) }
    }
    fn shared(&self, graph: &Graph) -> Graph {
        assert!(Arc::ptr_eq(&graph.nodes[0], &graph.nodes[2]));
        graph.clone()
    }
    fn runs(&self) -> u32 {
        self.runs.load(Ordering::Relaxed)
    }
}

/// A server that listens on every transport, and its addresses.
fn served() -> (RunningServer, Vec<String>) {
    served_by(Server::new())
}

fn served_by(server: Server) -> (RunningServer, Vec<String>) {
    let server =
        server.export(EchoServer::new(Echoing)).export(ModesServer::new(Arc::new(Serving::default())));
    let server = transports::without_network()
        .fold(server, |server, transport| server.listen(&transports::address(transport)).unwrap())
        .start()
        .unwrap();
    let uris = server.uris().to_vec();
    (server, uris)
}

/// Checks something over every transport.
fn over_every_transport(check: impl Fn(&ModesClient)) {
    let (_server, uris) = served();
    for uri in uris {
        check(&ModesClient::bind(&uri).unwrap());
    }
}

#[test]
fn the_papers_test_interface_works() {
    over_every_transport(|client| {
        client.null().unwrap();
        let mut buf = [0; 1440];
        client.max_result(&mut buf).unwrap();
        client.max_arg(&buf).unwrap();
        assert_eq!(client.one_integer(-1).unwrap(), -1);
        assert_eq!(client.two_integers(4, 2).unwrap(), 42);
        assert_eq!(client.four_integers(1, 2, 3, 4).unwrap(), 1234);
        assert_eq!(client.array_4([0, 0, 1, 2]).unwrap(), 258);
        assert_eq!(client.array_400(&[1; 400]).unwrap(), 400);
        assert_eq!(client.text(None).unwrap(), None);
        assert_eq!(client.text(Some("nil")).unwrap().as_deref(), Some("NIL"));
        assert_eq!(client.text(Some("")).unwrap().as_deref(), Some(""));
        assert_eq!(client.with_default().unwrap(), 7);
    });
}

#[test]
fn lent_arguments_arrive() {
    let point = Point { x: 1.5, y: 2.5 };
    let names = ["a".to_owned(), "b".to_owned()];
    let list = List { value: 8, next: None };
    over_every_transport(|client| {
        // Lengths that leave what follows misaligned unless it is aligned on purpose.
        for bytes in [&b""[..], b"1", b"123", b"1234567"] {
            let said = client
                .lent(
                    "text",
                    bytes,
                    &[1, 2],
                    &[3, 4],
                    &[point; 3],
                    &[point; 2],
                    &names,
                    &list,
                    &[true, false],
                )
                .unwrap();
            let expected = format!("text {bytes:?} [1, 2] [3, 4] 3 2.5 [\"a\", \"b\"] 8 [true, false]");
            assert_eq!(said, expected);
        }
    });
}

#[test]
fn optional_arguments_may_be_missing() {
    let names = ["a".to_owned(), "b".to_owned()];
    let list = List { value: 8, next: None };
    over_every_transport(|client| {
        assert_eq!(client.perhaps(None, None, None, None).unwrap(), 15_000);
        assert_eq!(
            client.perhaps(Some(&[1, 2]), Some(&[0, 5]), Some(&names), Some(&list)).unwrap(),
            3 + 5 + 2 + 8
        );
        assert_eq!(client.perhaps(Some(&[]), None, Some(&[]), None).unwrap(), 10_000);
    });
}

#[test]
fn in_out_arguments_come_back_changed() {
    over_every_transport(|client| {
        let (mut count, mut text, mut words, mut array) = (1, "text".to_owned(), [1, 2, 3], [1, 2, 3]);
        let mut names = ["a".to_owned(), "b".to_owned()];
        let mut points = [Point { x: 1.0, y: 0.0 }, Point::default()];
        let mut list = List { value: 1, next: None };
        let returned = client
            .both_ways(&mut count, &mut text, &mut words, &mut array, &mut names, &mut points, &mut list)
            .unwrap();
        assert_eq!((returned, count, text.as_str(), words, array), (3, 2, "text!", [3, 2, 1], [3, 2, 1]));
        assert_eq!((names[0].as_str(), points[1].x, list.next.unwrap().value), ("b", 1.0, 2));
    });
}

#[test]
fn several_out_arguments_come_back_together() {
    over_every_transport(|client| {
        let (mut count, mut bytes, mut text, mut words) = (0, [0; 3], "old".to_owned(), [0; 2]);
        let (mut array, mut names, mut points) =
            ([0; 3], [const { String::new() }; 2], [Point::default(); 2]);
        names[1].push_str("old");
        let mut some = Some(Point::default());
        let returned = client
            .out(
                &mut count,
                &mut bytes,
                &mut text,
                &mut words,
                &mut array,
                &mut names,
                &mut points,
                &mut some,
                &mut [],
            )
            .unwrap();
        assert_eq!((returned, count, bytes, text.as_str(), words), ('✓', 5, [9; 3], "text", [u64::MAX; 2]));
        assert_eq!((array, names[1].as_str(), points[1].x, some), ([1, 2, 3], "name", 3.0, Some(points[1])));
    });
}

#[test]
fn application_errors_are_apart_from_call_errors() {
    over_every_transport(|client| {
        assert_eq!(client.divide(4).unwrap(), 25);
        client.check(1).unwrap();
        assert!(matches!(client.check(0), Err(Error::Application(why)) if why == "nothing"));
        assert!(matches!(client.divide(0), Err(Error::Application(Refusal::DividedByZero))));
        let Err(Error::Application(Refusal::Other { why })) = client.divide(3) else {
            panic!("3 divides 100")
        };
        assert_eq!(why, "3 does not divide 100");
    });
}

#[test]
fn shared_values_stay_shared() {
    let (first, second) = (Arc::new("first".to_owned()), Arc::new("second".to_owned()));
    let graph = Graph { nodes: vec![first.clone(), second, first] };
    over_every_transport(|client| {
        let back = client.shared(&graph).unwrap();
        assert_eq!(back, graph);
        assert!(Arc::ptr_eq(&back.nodes[0], &back.nodes[2]));
        assert!(!Arc::ptr_eq(&back.nodes[0], &back.nodes[1]));
    });
}

#[test]
fn what_does_not_fit_is_refused_before_the_procedure_runs() {
    let (_server, uris) = served_by(Server::new().max_message(1999));
    // Within a process nothing is sent, and no length is a limit.
    for uri in uris.iter().filter(|uri| !uri.starts_with("local:")) {
        refuses_what_is_too_long(&ModesClient::bind(uri).unwrap());
    }
}

fn refuses_what_is_too_long(client: &ModesClient) {
    let too_long = "x".repeat(2000);
    let error = client.text(Some(&too_long)).unwrap_err();
    assert_eq!(error.ran(), Ran::No, "{error}");
    let mut bytes = vec![0; 2000];
    let error = client
        .out(
            &mut 0,
            &mut bytes,
            &mut String::new(),
            &mut [],
            &mut [0; 3],
            &mut [],
            &mut Default::default(),
            &mut None,
            &mut [],
        )
        .unwrap_err();
    assert_eq!(error.ran(), Ran::No, "{error}");
    assert_eq!(client.runs().unwrap(), 0);
}
