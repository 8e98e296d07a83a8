//! An interface that is a program of Sun RPC, too: its server half decodes and encodes XDR.

#![cfg(feature = "onc")]

use stoop::onc::VersionId;
use stoop::onc::stub::{NoResult, run};
use stoop::stub::Exported;
use stoop::xdr::{Encode, Writer, to_vec};

#[derive(Clone, Debug, Default, PartialEq, stoop::Data, stoop::Xdr)]
struct Point {
    x: i32,
    y: i32,
}

#[derive(Clone, Debug, PartialEq, stoop::Data, stoop::Xdr)]
enum Shape {
    Nothing,
    Dot(Point),
    Line { from: Point, to: Point },
    Group(Vec<Shape>),
}

#[derive(Clone, Copy, Debug, PartialEq, stoop::Data, stoop::Xdr)]
enum Colour {
    Red = 1,
    Green,
    Blue = -5,
}

#[derive(Clone, Debug, PartialEq, stoop::Data, stoop::Xdr)]
struct Refused {
    #[xdr(max = 20)]
    why: String,
}

const LAST: u32 = 20;

#[stoop::interface(program = 0x2000_0001, version = LAST - 18)]
trait Drawing {
    fn add(&self, left: i32, right: i64) -> i64;
    fn name(&self, name: &str, data: &[u8], key: &[u8; 3]) -> String;
    #[procedure(7)]
    fn shapes(&self, shapes: &[Shape], first: Option<&Shape>, colour: Colour) -> Vec<Shape>;
    fn change(
        &self,
        data: &mut [u8],
        by: Option<&[u32]>,
        #[out] point: &mut Point,
        #[out] all: &mut [u16; 2],
    );
    #[idempotent]
    fn check(&self, #[xdr(max = 4)] data: Vec<u8>, #[xdr(chars)] letters: &[u8]) -> Result<Vec<u8>, Refused>;
    #[one_way(unordered)]
    fn log(&self, number: u32);
    #[procedure(LAST)]
    #[xdr(max = 2)]
    fn last(&self) -> Vec<u8>;
}

struct Plain;

impl Drawing for Plain {
    fn add(&self, left: i32, right: i64) -> i64 {
        i64::from(left) + right
    }

    fn name(&self, name: &str, data: &[u8], key: &[u8; 3]) -> String {
        format!("{name} {data:?} {key:?}")
    }

    fn shapes(&self, shapes: &[Shape], first: Option<&Shape>, colour: Colour) -> Vec<Shape> {
        assert_eq!(colour, Colour::Blue);
        first.into_iter().chain(shapes).cloned().collect()
    }

    fn change(&self, data: &mut [u8], by: Option<&[u32]>, point: &mut Point, all: &mut [u16; 2]) {
        data.reverse();
        *point = Point { x: by.map_or(-1, |by| by.len() as i32), y: 2 };
        *all = [3, 4];
    }

    fn check(&self, data: Vec<u8>, letters: &[u8]) -> Result<Vec<u8>, Refused> {
        if letters.is_empty() { Err(Refused { why: "empty".into() }) } else { Ok([&data, letters].concat()) }
    }

    fn log(&self, number: u32) {
        assert_eq!(number, 7);
    }

    fn last(&self) -> Vec<u8> {
        vec![0; 3]
    }
}

/// Values one after the other.
fn form(values: &[&dyn Form]) -> Vec<u8> {
    values.iter().flat_map(|value| value.form()).collect()
}

trait Form {
    fn form(&self) -> Vec<u8>;
}

impl<T: Encode> Form for T {
    fn form(&self) -> Vec<u8> {
        to_vec(self).expect("it has a form")
    }
}

fn serve(procedure: u32, arguments: &[u8]) -> Result<Vec<u8>, NoResult> {
    let server = DrawingServer::new(Plain);
    run(server.program().expect("it is a program"), procedure, arguments)
}

fn bytes(value: &[u8]) -> Vec<u8> {
    let mut room = [0; 100];
    let mut writer = Writer::new(&mut room);
    writer.opaque(value, 100);
    let len = writer.finish().expect("there is room");
    room[..len].to_vec()
}

#[test]
fn procedures_have_declared_numbers_or_one_more_than_the_one_before() {
    let server = DrawingServer::new(Plain);
    let program = server.program().expect("it is a program");
    assert_eq!(program.version(), VersionId { program: 0x2000_0001, version: 2 });
    let runs = |number: &u32| serve(*number, &[]) != Err(NoResult::ProcedureUnavailable);
    assert_eq!((0..30).filter(runs).collect::<Vec<_>>(), [1, 2, 7, 8, 9, 10, 20]);
    assert_eq!((0..30).filter(|number| program.is_idempotent(*number)).collect::<Vec<_>>(), [0, 9]);
}

#[test]
fn arguments_and_results_of_every_kind_have_the_form_of_rfc_4506() {
    assert_eq!(serve(1, &form(&[&2_i32, &3_i64])), Ok(form(&[&5_i64])));
    let arguments = [form(&[&"hi".to_owned()]), bytes(&[1, 2]), vec![7, 8, 9, 0]].concat();
    assert_eq!(serve(2, &arguments), Ok(form(&[&"hi [1, 2] [7, 8, 9]".to_owned()])));

    let line = Shape::Line { from: Point { x: 1, y: 2 }, to: Point { x: 3, y: 4 } };
    assert_eq!(line.form(), form(&[&2_i32, &1_i32, &2_i32, &3_i32, &4_i32]));
    let group = Shape::Group(vec![Shape::Nothing, Shape::Dot(Point { x: 5, y: 6 })]);
    let arguments = form(&[&vec![line.clone()], &true, &group, &-5_i32]);
    assert_eq!(serve(7, &arguments), Ok(form(&[&vec![group, line]])));
}

#[test]
fn arguments_that_come_back_follow_the_value_returned() {
    let arguments = [bytes(&[1, 2, 3]), form(&[&true, &vec![7_u32; 9]])].concat();
    let result = [bytes(&[3, 2, 1]), form(&[&9_i32, &2_i32, &3_u32, &4_u32])].concat();
    assert_eq!(serve(8, &arguments), Ok(result));
}

#[test]
fn a_result_is_a_union_of_value_and_error() {
    let letters = form(&[&2_u32, &65_u32, &66_u32]);
    assert_eq!(
        serve(9, &[bytes(&[1]), letters].concat()),
        Ok([form(&[&0_i32]), bytes(&[1, 65, 66])].concat())
    );
    let refused = form(&[&1_i32, &"empty".to_owned()]);
    assert_eq!(serve(9, &[bytes(&[]), form(&[&0_u32])].concat()), Ok(refused));
}

#[test]
fn unknown_procedures_and_bad_arguments_do_not_run() {
    assert_eq!(serve(3, &[]), Err(NoResult::ProcedureUnavailable));
    assert!(matches!(serve(1, &[0; 8]), Err(NoResult::BadArguments(_))));
    // Longer than declared.
    assert!(matches!(serve(9, &bytes(&[0; 5])), Err(NoResult::BadArguments(_))));
    // No colour.
    assert!(matches!(serve(7, &form(&[&0_u32, &0_u32, &9_i32])), Err(NoResult::BadArguments(_))));
}

#[test]
fn a_result_longer_than_declared_is_an_error_of_the_server() {
    assert_eq!(serve(20, &[]), Err(NoResult::Failed));
}

#[test]
fn a_one_way_call_has_no_reply() {
    assert_eq!(serve(10, &form(&[&7_u32])), Err(NoResult::NoReply));
}
