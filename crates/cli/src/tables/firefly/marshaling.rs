//! Firefly Tables II to V: the time that arguments and results of several types add to Null().

use crate::args::{Processors, Program};
use crate::callers::Calls;
use crate::child::Child;
use crate::placement::pin;
use crate::tables::lab::{At, Lab, Way};
use crate::tables::model::{Group, Line, US};
use stoop::{BindOptions, CallError, RunningServer, Server, Waiting};

/// The procedures of the four tables.
#[stoop::interface]
pub(crate) trait Marshaling {
    fn null(&self);
    fn one(&self, first: i32);
    fn two(&self, first: i32, second: i32);
    fn four(&self, first: i32, second: i32, third: i32, fourth: i32);
    fn fixed_4(&self, #[out] array: &mut [u8; 4]);
    fn fixed_400(&self, #[out] array: &mut [u8; 400]);
    fn open(&self, #[out] array: &mut [u8]);
    fn text(&self, text: Option<String>);
}

struct Idle;

impl Marshaling for Idle {
    fn null(&self) {}
    fn one(&self, _first: i32) {}
    fn two(&self, _first: i32, _second: i32) {}
    fn four(&self, _first: i32, _second: i32, _third: i32, _fourth: i32) {}
    fn fixed_4(&self, array: &mut [u8; 4]) {
        array[0] = MARK;
    }
    fn fixed_400(&self, array: &mut [u8; 400]) {
        array[0] = MARK;
    }
    fn open(&self, array: &mut [u8]) {
        array[0] = MARK;
    }
    // A Text.T is a new object in garbage-collected storage at the server: here a String.
    fn text(&self, _text: Option<String>) {}
}

/// The byte that a procedure writes into its result.
const MARK: u8 = 0x57;

/// Exports the procedures at `address`.
pub(in crate::tables) fn serve(address: &str) -> Result<RunningServer, String> {
    let server = Server::new().waiting(Waiting::Spin).export(MarshalingServer::new(Idle));
    server.listen(address).and_then(Server::start).map_err(|error| error.to_string())
}

pub(super) fn table_2(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    compare(lab, "More than Null()", |client| {
        let [one, two, four] = [(); 3].map(|()| client.clone());
        vec![
            ("1 argument", 8.0, way(move || one.one(1))),
            ("2 arguments", 16.0, way(move || two.two(1, 2))),
            ("4 arguments", 32.0, way(move || four.four(1, 2, 3, 4))),
        ]
    })
}

pub(super) fn table_3(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    compare(lab, "More than Null()", |client| {
        let (short, long) = (client.clone(), client.clone());
        let (mut four, mut more) = ([0; 4], [0; 400]);
        vec![
            ("4 bytes", 20.0, way(move || short.fixed_4(&mut four))),
            ("400 bytes", 140.0, way(move || long.fixed_400(&mut more))),
        ]
    })
}

pub(super) fn table_4(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    compare(lab, "More than Null()", |client| {
        let (short, long) = (client.clone(), client.clone());
        let (mut one, mut full) = ([0; 1], [0; 1440]);
        vec![
            ("1 byte", 115.0, way(move || short.open(&mut one))),
            ("1440 bytes", 550.0, way(move || long.open(&mut full))),
        ]
    })
}

pub(super) fn table_5(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    compare(lab, "More than Null()", |client| {
        let text = |text: Option<String>| {
            let client = client.clone();
            way(move || client.text(text.clone()))
        };
        vec![
            ("NIL", 89.0, text(None)),
            ("1 byte", 378.0, text(Some("x".into()))),
            ("128 bytes", 659.0, text(Some("x".repeat(128)))),
        ]
    })
}

fn way(mut call: impl FnMut() -> Result<(), CallError> + Send + 'static) -> Box<dyn Calls> {
    Way::in_batches(move || call().map_err(|error| error.to_string()))
}

/// A call, the paper's microseconds, and how to make it.
type Case = (&'static str, f64, Box<dyn Calls>);

/// Measures Null() and the calls of `cases` in turn.
fn compare(
    lab: &mut Lab<'_>,
    title: &str,
    cases: impl FnOnce(&MarshalingClient) -> Vec<Case>,
) -> Result<Vec<Group>, String> {
    let (_server, client) = bind(lab)?;
    let null = client.clone();
    let mut ways = vec![way(move || null.null())];
    let mut lines = Vec::new();
    for (label, paper, way) in cases(&client) {
        lines.push(Line::new(label).paper(paper));
        ways.push(way);
    }
    let mut figures = lab.in_short_turns(ways, US)?;
    let null = figures.remove(0);
    for (line, figure) in lines.iter_mut().zip(&figures) {
        line.today = Some(figure.minus(&null));
    }
    let lines = lines.into_iter().chain([Line::new("Null() itself").paper(937.0).today(null)]);
    Ok(vec![Group::new(title, "µs", lines.collect())])
}

fn bind(lab: &mut Lab<'_>) -> Result<(Child, MarshalingClient), String> {
    let sides = lab.sides(Processors::Two)?;
    pin(sides.caller).map_err(|error| format!("pinning the caller: {error}"))?;
    let address = format!("shm:tables-{}", std::process::id());
    // Only processes of the same network namespace see a name of shared memory.
    let at = At { address, beside_caller: true };
    let (server, uri) = lab.serve(Program::Marshaling, sides.server, at, &[])?;
    let options = BindOptions::new().waiting(Waiting::Spin);
    let client = MarshalingClient::bind_with(&uri, &options).map_err(|error| error.to_string())?;
    try_out(&client).map_err(|error| error.to_string())?;
    Ok((server, client))
}

/// Makes calls whose results are checked.
fn try_out(client: &MarshalingClient) -> Result<(), CallError> {
    let (mut fixed, mut open) = ([0; 400], [0; 1440]);
    client.fixed_400(&mut fixed)?;
    client.open(&mut open)?;
    assert_eq!((fixed[0], open[0]), (MARK, MARK), "a result brings back what the procedure wrote");
    client.text(Some("text".into()))
}
