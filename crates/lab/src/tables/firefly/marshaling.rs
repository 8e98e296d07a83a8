//! Firefly Tables II to V: the time that arguments and results of several types add to Null().

use super::in_memory;
use super::procedures::{Case, alone, whole};
use crate::args::{Processors, Program};
use crate::callers::{Calls, LOCAL_BATCH};
use crate::child::Child;
use crate::placement::pin;
use crate::tables::lab::{At, Lab};
use crate::tables::model::{Figure, Group, Line, US};
use stoop::{BindOptions, RunningServer, Security, Server, Waiting};

/// Calls to another process that are timed together.
const WHOLE_BATCH: u64 = 10;

/// A line: its name, the microseconds of the paper, and the call.
type Row = (&'static str, f64, Case);

const TABLE_2: [Row; 3] =
    [("1 argument", 8.0, Case::One), ("2 arguments", 16.0, Case::Two), ("4 arguments", 32.0, Case::Four)];
const TABLE_3: [Row; 2] = [("4 bytes", 20.0, Case::Fixed4), ("400 bytes", 140.0, Case::Fixed400)];
const TABLE_4: [Row; 2] = [("1 byte", 115.0, Case::Open(1)), ("1440 bytes", 550.0, Case::Open(1440))];
const TABLE_5: [Row; 3] =
    [("NIL", 89.0, Case::Nil), ("1 byte", 378.0, Case::Text(1)), ("128 bytes", 659.0, Case::Text(128))];

pub(super) fn table_2(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    compare(lab, &TABLE_2)
}

pub(super) fn table_3(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    compare(lab, &TABLE_3)
}

pub(super) fn table_4(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    compare(lab, &TABLE_4)
}

pub(super) fn table_5(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    compare(lab, &TABLE_5)
}

/// Measures Null() and the calls of `rows` in turn: the stubs alone, and calls to another process.
fn compare(lab: &mut Lab<'_>, rows: &[Row]) -> Result<Vec<Group>, String> {
    let (_server, client) = bind(lab)?;
    let stubs = bind_alone()?;
    let alone = added(lab, rows, |case| alone::calls(&stubs, case, LOCAL_BATCH))?;
    let whole = added(lab, rows, |case| whole::calls(&client, case, WHOLE_BATCH))?;
    let mut groups = vec![
        Group::new("Both stubs alone, more than Null()", "µs", alone.lines),
        Group::new("A whole call, more than Null()", "µs", whole.lines),
    ];
    groups.push(Group::new(
        "Null() itself",
        "µs",
        vec![
            Line::new("both stubs alone").today(alone.null),
            Line::new("a whole call").paper(937.0).today(whole.null),
        ],
    ));
    Ok(groups)
}

/// The time of Null(), and the lines of what the other calls take more.
struct Added {
    null: Figure,
    lines: Vec<Line>,
}

fn added(lab: &Lab<'_>, rows: &[Row], calls: impl Fn(Case) -> Box<dyn Calls>) -> Result<Added, String> {
    let cases = std::iter::once(Case::Null).chain(rows.iter().map(|row| row.2));
    let mut figures = lab.in_short_turns(cases.map(calls).collect(), US)?;
    let null = figures.remove(0);
    let line = |(row, figure): (&Row, &Figure)| Line::new(row.0).paper(row.1).today(figure.minus(&null));
    let lines = rows.iter().zip(&figures).map(line).collect();
    Ok(Added { null, lines })
}

/// Exports the procedures at `address`.
pub(in crate::tables) fn serve(address: &str) -> Result<RunningServer, String> {
    let server = Server::new()
        .security(Security::none())
        .waiting(Waiting::Spin)
        .export(whole::MarshalingServer::new(whole::Idle));
    server.listen(address).and_then(Server::start).map_err(|error| error.to_string())
}

fn bind(lab: &mut Lab<'_>) -> Result<(Child, whole::MarshalingClient), String> {
    let sides = lab.sides(Processors::Two)?;
    pin(sides.caller).map_err(|error| format!("pinning the caller: {error}"))?;
    let address = format!("shm:tables-{}", std::process::id());
    // Only processes of the same network namespace see a name of shared memory.
    let at = At { address, beside_caller: true };
    let (server, uri) = lab.serve(Program::Marshaling, sides.server, at, &[])?;
    let options = BindOptions::new().waiting(Waiting::Spin);
    let client = whole::MarshalingClient::bind_with(&uri, &options).map_err(|error| error.to_string())?;
    whole::try_out(&client).map_err(|error| error.to_string())?;
    Ok((server, client))
}

fn bind_alone() -> Result<alone::MarshalingClient, String> {
    let options = in_memory::BindOptions::to(alone::MarshalingServer::new(alone::Idle));
    let client = alone::MarshalingClient::bind_with("", &options).map_err(|error| format!("{error:?}"))?;
    alone::try_out(&client).map_err(|error| error.to_string())?;
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callers::Window;
    use crate::effort::Effort;
    use std::time::Duration;

    #[test]
    fn stubs_without_a_transport_bring_back_what_the_procedure_wrote() {
        bind_alone().expect("the results are checked there");
    }

    #[test]
    fn each_call_of_the_tables_can_be_made_without_a_transport() {
        let client = bind_alone().expect("it has a server");
        let once = Effort { slice: Duration::ZERO, ..Effort::for_calls(1) };
        for (_, _, case) in TABLE_2.iter().chain(&TABLE_3).chain(&TABLE_4).chain(&TABLE_5) {
            // A clone has packets of its own: its first call is that of the case.
            let measured = alone::calls(&client, *case, 1).run(Window::of(once));
            assert!(measured.is_ok_and(|measured| measured.calls > 0), "{case:?}");
        }
    }
}
