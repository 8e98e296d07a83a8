//! An interface that is a program of Sun RPC, too: its server half decodes and encodes XDR.

#![cfg(feature = "onc")]

use stoop::stub::{Exported, NotServed, ProgramResult};
use stoop::xdr::{Encode, Reader, Writer, to_vec};

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

fn serve(procedure: u32, arguments: &[u8]) -> Result<Vec<u8>, NotServed> {
    let server = DrawingServer::new(Plain);
    let program = server.program().expect("it is a program");
    let mut packet = Vec::new();
    let mut result = ProgramResult::new(&mut packet, 0, 10_000);
    program.dispatch(procedure, &mut Reader::new(arguments), &mut result)?;
    let end = result.finish().expect("the result has a form");
    packet.truncate(end);
    Ok(packet)
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
    let description = server.program().expect("it is a program").description();
    assert_eq!((description.program, description.version), (0x2000_0001, 2));
    let numbers: Vec<_> = description.procedures.iter().map(|each| (each.number, each.name)).collect();
    assert_eq!(numbers, [(1, "add"), (2, "name"), (7, "shapes"), (8, "change"), (9, "check"), (20, "last")]);
    assert!(description.procedures[4].idempotent && !description.procedures[0].idempotent);
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
    assert_eq!(serve(3, &[]), Err(NotServed::UnknownProcedure));
    assert!(matches!(serve(1, &[0; 8]), Err(NotServed::BadArguments(_))));
    // Longer than declared.
    assert!(matches!(serve(9, &bytes(&[0; 5])), Err(NotServed::BadArguments(_))));
    // No colour.
    assert!(matches!(serve(7, &form(&[&0_u32, &0_u32, &9_i32])), Err(NotServed::BadArguments(_))));
}

#[test]
fn a_result_longer_than_declared_is_an_error_of_the_server() {
    let server = DrawingServer::new(Plain);
    let program = server.program().expect("it is a program");
    let mut packet = Vec::new();
    let mut result = ProgramResult::new(&mut packet, 0, 100);
    program.dispatch(20, &mut Reader::new(&[]), &mut result).expect("it ran");
    assert!(result.finish().is_err());
}
