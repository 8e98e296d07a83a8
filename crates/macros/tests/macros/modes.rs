//! Every argument mode arrives, over packets and directly.

#![allow(clippy::too_many_arguments, reason = "every kind of argument at once")]

use crate::mock;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use crate::mock::{BindOptions, CallError, Error, stub};
use stoop_macros::{Data, interface};

#[derive(Data, Clone, Copy, Debug, Default, PartialEq)]
#[stoop(crate = crate::mock)]
struct Point {
    x: f64,
    y: f32,
}

/// Everything that an argument can be.
#[interface(crate = crate::mock)]
trait Modes {
    /// Does nothing.
    fn null(&self);
    fn max_result(&self, #[out] buf: &mut [u8; 1440]);
    fn max_arg(&self, buf: &[u8; 1440]) -> u32;
    fn integers(&self, a: i32, b: i32, c: i32, d: i32) -> i64;
    fn array4(&self, words: [u8; 4]) -> [u8; 4];
    fn text(&self, text: Option<&str>) -> Option<String>;
    fn borrowed(
        &self,
        text: &str,
        numbers: &[u16],
        points: &[Point],
        point: &Point,
        pair: &[Point; 2],
    ) -> String;
    fn optional(
        &self,
        numbers: Option<&[u32]>,
        points: Option<&[Point]>,
        point: Option<&Point>,
        array: Option<&[u64; 2]>,
        pair: Option<&[Point; 2]>,
    ) -> u32;
    fn both_ways(
        &self,
        count: &mut u32,
        text: &mut String,
        numbers: &mut [u64],
        array: &mut [i16; 3],
        points: &mut [Point],
        pair: &mut [Point; 2],
    );
    fn results(
        &self,
        #[out] count: &mut u32,
        #[out] bytes: &mut [u8],
        #[out] text: &mut String,
        #[out] words: &mut [u64],
        #[out] triple: &mut [u16; 3],
        #[out] points: &mut [Point],
        #[out] pair: &mut [Point; 2],
    ) -> u8;
    #[idempotent]
    fn divide(&self, by: i32) -> Result<i32, String>;
    fn divide_all(&self, by: &mut [i32], #[out] rest: &mut i32) -> Result<(), String>;
    fn defaulted(&self, n: u8) -> u8 {
        n + 1
    }
    /// A one-way procedure.
    #[one_way]
    fn told(&self, text: &str, numbers: &[u16], point: Option<&Point>, count: u64);
    #[idempotent]
    #[one_way(unordered)]
    fn told_again(&self);
    fn r#type(&self, r#match: u8, call: u8, result: u8, arguments: u8, server: u8) -> u8;
}

struct Server;

thread_local! {
    /// The latest argument of the one-way procedures. The mock runs them in the calling thread.
    static TOLD: RefCell<String> = RefCell::default();
    /// Where the latest argument of 1440 bytes, or the slice of `results`, was in the procedure's memory.
    static SEEN: Cell<*const u8> = const { Cell::new(std::ptr::null()) };
}

impl Modes for Server {
    fn null(&self) {}
    fn max_result(&self, buf: &mut [u8; 1440]) {
        SEEN.set(buf.as_ptr());
        buf.fill(7);
    }
    fn max_arg(&self, buf: &[u8; 1440]) -> u32 {
        SEEN.set(buf.as_ptr());
        buf.iter().map(|&byte| u32::from(byte)).sum()
    }
    fn integers(&self, a: i32, b: i32, c: i32, d: i32) -> i64 {
        i64::from(a) * 1000 + i64::from(b) * 100 + i64::from(c) * 10 + i64::from(d)
    }
    fn array4(&self, words: [u8; 4]) -> [u8; 4] {
        words.map(|word| word + 1)
    }
    fn text(&self, text: Option<&str>) -> Option<String> {
        text.map(str::to_uppercase)
    }
    fn borrowed(
        &self,
        text: &str,
        numbers: &[u16],
        points: &[Point],
        point: &Point,
        pair: &[Point; 2],
    ) -> String {
        format!("{text} {numbers:?} {} {} {}", points.len(), point.x, pair[1].y)
    }
    fn optional(
        &self,
        numbers: Option<&[u32]>,
        points: Option<&[Point]>,
        point: Option<&Point>,
        array: Option<&[u64; 2]>,
        pair: Option<&[Point; 2]>,
    ) -> u32 {
        let there = [numbers.is_some(), points.is_some(), point.is_some(), array.is_some(), pair.is_some()];
        there.iter().fold(0, |bits, &bit| bits * 2 + u32::from(bit))
    }
    fn both_ways(
        &self,
        count: &mut u32,
        text: &mut String,
        numbers: &mut [u64],
        array: &mut [i16; 3],
        points: &mut [Point],
        pair: &mut [Point; 2],
    ) {
        *count += 1;
        text.push('!');
        numbers.reverse();
        array.reverse();
        points.reverse();
        pair.reverse();
    }
    fn results(
        &self,
        count: &mut u32,
        bytes: &mut [u8],
        text: &mut String,
        words: &mut [u64],
        triple: &mut [u16; 3],
        points: &mut [Point],
        pair: &mut [Point; 2],
    ) -> u8 {
        assert_eq!((*count, text.as_str()), (0, ""));
        *count = 5;
        SEEN.set(bytes.as_ptr());
        bytes.fill(9);
        text.push_str("text");
        words.fill(u64::MAX);
        *triple = [1, 2, 3];
        points.fill(Point { x: 1.0, y: 2.0 });
        pair[1].x = 3.0;
        42
    }
    fn told(&self, text: &str, numbers: &[u16], point: Option<&Point>, count: u64) {
        let told = format!("{text} {numbers:?} {} {count}", point.is_some());
        TOLD.set(told);
    }
    fn told_again(&self) {
        TOLD.set("again".into());
    }
    fn divide(&self, by: i32) -> Result<i32, String> {
        100i32.checked_div(by).ok_or_else(|| format!("divided by {by}"))
    }
    fn divide_all(&self, by: &mut [i32], rest: &mut i32) -> Result<(), String> {
        for each in by.iter_mut() {
            *each = self.divide(*each)?;
        }
        *rest = 1;
        Ok(())
    }
    fn r#type(&self, r#match: u8, call: u8, result: u8, arguments: u8, server: u8) -> u8 {
        r#match + call + result + arguments + server
    }
}

/// A client over packets, and one that calls directly.
fn clients() -> [ModesClient; 2] {
    [false, true].map(|is_local| {
        let options = BindOptions { is_local, ..mock::to(ModesServer::new(Server)) };
        ModesClient::bind_with("", &options).unwrap()
    })
}

#[test]
fn values_arrive() {
    for client in clients() {
        client.null().unwrap();
        assert_eq!(client.integers(1, 2, 3, -4), Ok(1226));
        assert_eq!(client.array4([1, 2, 3, 4]), Ok([2, 3, 4, 5]));
        assert_eq!(client.defaulted(1), Ok(2));
        assert_eq!(client.r#type(1, 2, 3, 4, 5), Ok(15));
    }
}

#[test]
fn borrowed_arguments_arrive() {
    let point = Point { x: 1.5, y: 2.5 };
    for client in clients() {
        assert_eq!(client.max_arg(&[1; 1440]), Ok(1440));
        assert_eq!(client.text(Some("nil")), Ok(Some("NIL".to_owned())));
        assert_eq!(client.text(None), Ok(None));
        let text = client.borrowed("text", &[1, 2, 3], &[point; 4], &point, &[point; 2]);
        assert_eq!(text.as_deref(), Ok("text [1, 2, 3] 4 1.5 2.5"));
        let some = (Some(&[1u32, 2][..]), Some(&[point][..]), Some(&point), Some(&[1, 2]), Some(&[point; 2]));
        assert_eq!(client.optional(some.0, some.1, some.2, some.3, some.4), Ok(0b11111));
        assert_eq!(client.optional(some.0, None, some.2, None, some.4), Ok(0b10101));
        assert_eq!(client.optional(None, None, None, None, None), Ok(0));
    }
}

#[test]
fn in_out_arguments_come_back_changed() {
    let (p, q) = (Point { x: 1.0, y: 1.0 }, Point { x: 2.0, y: 2.0 });
    for client in clients() {
        let (mut count, mut text, mut numbers, mut array) = (1, "text".to_owned(), [1, 2, 3], [1, 2, 3]);
        let (mut points, mut pair) = (vec![p, q, q], [p, q]);
        client.both_ways(&mut count, &mut text, &mut numbers, &mut array, &mut points, &mut pair).unwrap();
        assert_eq!((count, text.as_str(), numbers, array), (2, "text!", [3, 2, 1], [3, 2, 1]));
        assert_eq!((points, pair), (vec![q, q, p], [q, p]));
    }
}

#[test]
fn several_out_arguments_are_written_side_by_side() {
    for client in clients() {
        let (mut count, mut bytes, mut text, mut words) = (0, [0; 3], String::new(), [0; 2]);
        let (mut triple, mut points, mut pair) = ([0; 3], [Point::default(); 2], [Point::default(); 2]);
        let returned = client.results(
            &mut count,
            &mut bytes,
            &mut text,
            &mut words,
            &mut triple,
            &mut points,
            &mut pair,
        );
        assert_eq!(returned, Ok(42));
        assert_eq!((count, bytes, text.as_str(), words), (5, [9; 3], "text", [u64::MAX; 2]));
        assert_eq!((triple, points, pair[1].x), ([1, 2, 3], [Point { x: 1.0, y: 2.0 }; 2], 3.0));
    }
}

#[test]
fn max_result_is_its_1440_bytes_and_nothing_travels_with_the_call() {
    let [client, _] = clients();
    let mut buf = [0; 1440];
    client.max_result(&mut buf).unwrap();
    assert_eq!((buf, stub::last_call().len(), stub::last_result().len()), ([7; 1440], 0, 1440));
    client.max_arg(&buf).unwrap();
    assert_eq!((stub::last_call().len(), stub::last_result().len()), (1440, 4));
}

#[test]
fn procedures_write_out_arguments_into_the_result_packet_and_read_arguments_in_the_call_packet() {
    let [client, _] = clients();
    let mut buf = [0; 1440];
    client.max_result(&mut buf).unwrap();
    let [_, result] = stub::last_packets();
    assert_eq!(SEEN.get(), result.start);

    client.max_arg(&buf).unwrap();
    let [call, _] = stub::last_packets();
    assert_eq!(SEEN.get(), call.start);

    let (mut count, mut text) = (0, String::new());
    let (mut points, mut pair) = ([Point::default(); 2], [Point::default(); 2]);
    client
        .results(&mut count, &mut buf[..3], &mut text, &mut [0; 2], &mut [0; 3], &mut points, &mut pair)
        .unwrap();
    let [_, result] = stub::last_packets();
    assert!(result.contains(&SEEN.get()));
}

#[test]
fn an_application_error_is_apart_from_call_errors() {
    for client in clients() {
        assert_eq!(client.divide(5), Ok(20));
        assert_eq!(client.divide(0), Err(Error::Application("divided by 0".to_owned())));
    }
}

#[test]
fn begun_calls_give_what_the_blocking_ones_return() {
    let point = Point { x: 1.5, y: 2.5 };
    for client in clients() {
        let calls = client.begin();
        let null: Result<(), CallError> = calls.null().wait();
        let divided: Result<i32, Error<String>> = calls.divide(5).wait();
        assert_eq!((null, divided), (Ok(()), Ok(20)));
        assert_eq!(calls.divide(0).wait(), Err(Error::Application("divided by 0".to_owned())));
        assert_eq!(calls.integers(1, 2, 3, -4).wait(), Ok(1226));
        assert_eq!(calls.text(None).wait(), Ok(None));
        assert_eq!(calls.r#type(1, 2, 3, 4, 5).wait(), Ok(15));
        let text = calls.borrowed("text", &[1, 2, 3], &[point; 4], &point, &[point; 2]).wait();
        assert_eq!(text.as_deref(), Ok("text [1, 2, 3] 4 1.5 2.5"));
        assert_eq!(calls.optional(None, Some(&[point]), None, None, None).wait(), Ok(0b01000));
        calls.told("b", &[], None, 8).wait().unwrap();
        assert_eq!(TOLD.take(), "b [] false 8");
    }
}

#[test]
fn what_a_begun_call_fills_or_changes_comes_back_owned_behind_the_value_returned() {
    let (p, q) = (Point { x: 1.0, y: 1.0 }, Point { x: 2.0, y: 2.0 });
    for client in clients() {
        let calls = client.begin();
        let filled: Result<[u8; 1440], CallError> = calls.max_result().wait();
        assert_eq!(filled, Ok([7; 1440]));
        let changed = calls.both_ways(&1, &"text".into(), &[1, 2, 3], &[1, 2, 3], &[p, q, q], &[p, q]);
        let (count, text, numbers, array, points, pair) = changed.wait().unwrap();
        assert_eq!((count, text.as_str(), numbers, array), (2, "text!", vec![3, 2, 1], [3, 2, 1]));
        assert_eq!((points, pair), (vec![q, q, p], [q, p]));
        let (returned, count, bytes, text, words, triple, points, pair) =
            calls.results(3, 2, 2).wait().unwrap();
        assert_eq!((returned, count, bytes, text.as_str()), (42, 5, vec![9; 3], "text"));
        assert_eq!(
            (words, triple, points, pair[1].x),
            (vec![u64::MAX; 2], [1, 2, 3], vec![Point { x: 1.0, y: 2.0 }; 2], 3.0)
        );
        let (divided, rest): (Vec<i32>, i32) = calls.divide_all(&[1, 2]).wait().unwrap();
        assert_eq!((divided, rest), (vec![100, 50], 1));
        assert_eq!(calls.divide_all(&[0]).wait(), Err(Error::Application("divided by 0".to_owned())));
    }
}

#[test]
fn a_begun_call_with_arguments_that_are_too_large_fails_by_itself() {
    let [client, _] = clients();
    let error = client.begin().text(Some(&"x".repeat(1500))).wait().unwrap_err();
    let needed = stub::EncodeError::TooLarge { needed_at_least: 1508, limit: 1440 };
    assert_eq!(error, CallError::NotSent(needed));
}

#[test]
fn one_way_procedures_are_told_their_arguments() {
    for client in clients() {
        client.told("a", &[1, 2], Some(&Point::default()), 7).unwrap();
        assert_eq!((TOLD.take().as_str(), mock::IN_ORDER.take()), ("a [1, 2] true 7", 1));
        client.told_again().unwrap();
        assert_eq!((TOLD.take().as_str(), mock::IN_ORDER.take()), ("again", 0));
        client.close(Duration::ZERO).unwrap();
    }
}

#[test]
fn an_argument_that_is_too_large_is_not_sent() {
    let [client, _] = clients();
    let error = client.text(Some(&"x".repeat(1500))).unwrap_err();
    let needed = stub::EncodeError::TooLarge { needed_at_least: 1508, limit: 1440 };
    assert_eq!(error, CallError::NotSent(needed));
}

#[test]
fn an_out_slice_that_does_not_fit_is_refused_before_the_procedure_runs() {
    let [client, _] = clients();
    let error = client.results(
        &mut 0,
        &mut [0; 2000],
        &mut String::new(),
        &mut [],
        &mut [0; 3],
        &mut [],
        &mut Default::default(),
    );
    assert_eq!(error, Err(CallError::Refused(stub::Unserved::ResultTooLarge)));
}

#[test]
fn an_arc_of_an_implementation_is_exported_too() {
    let server = Arc::new(Server);
    let client = ModesClient::bind_with("", &mock::to(ModesServer::new(Arc::clone(&server)))).unwrap();
    assert_eq!(client.clone().integers(0, 0, 0, 1), Ok(1));
}

#[test]
fn signatures_spell_out_the_types_of_the_user() {
    let interface = ModesClient::interface();
    let signature = |name: &str| {
        let procedure = interface.procedures.iter().find(|procedure| procedure.name == name).unwrap();
        procedure.signature()
    };
    assert_eq!(interface.name, "Modes");
    assert_eq!(signature("null"), "null()");
    assert_eq!(signature("max_result"), "max_result(buf: out [u8; 1440])");
    assert_eq!(
        signature("borrowed"),
        "borrowed(text: String, numbers: [u16], points: [Point{x: f64, y: f32}], point: Point, pair: [Point; 2]) -> String"
    );
    assert_eq!(signature("divide"), "divide(by: i32) -> Result<i32, String>");
    assert_eq!(
        signature("told"),
        "one_way told(text: String, numbers: [u16], point: Option<Point{x: f64, y: f32}>, count: u64)"
    );
    assert_eq!(signature("told_again"), "one_way told_again()");
    assert_eq!(signature("type"), "type(match: u8, call: u8, result: u8, arguments: u8, server: u8) -> u8");
    let marked = |is_marked: fn(&stub::Procedure) -> bool| -> Vec<&str> {
        interface
            .procedures
            .iter()
            .filter(|procedure| is_marked(procedure))
            .map(|procedure| procedure.name)
            .collect()
    };
    assert_eq!(marked(|procedure| procedure.idempotent), ["divide", "told_again"]);
    assert_eq!(marked(|procedure| procedure.one_way), ["told", "told_again"]);
}
