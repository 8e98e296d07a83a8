//! The sections of `bench` without options: what a reader looks at first, in under a minute.

use super::{Cell, IN_FLIGHT_DEFAULT, Section, Shape, chosen};
use crate::args::{BenchArgs, Procedure, Transport};

/// Table I of the paper for UDP, a line for each transport, many outstanding calls, long messages.
pub(super) fn sections() -> Vec<Section> {
    vec![
        Section {
            title: "Table I of the Firefly paper, over UDP: calls by 1 to 8 caller threads",
            shape: Shape::TableOne,
            lines: table_one(),
        },
        Section { title: "One caller over each transport", shape: Shape::Transports, lines: transports() },
        Section {
            title: "Many outstanding calls of Null() from one thread",
            shape: Shape::InFlight,
            lines: in_flight(),
        },
        Section { title: "Long arguments (in) and results (out)", shape: Shape::Bulk, lines: bulk() },
    ]
}

const NULL_AND_MAX_RESULT: [Procedure; 2] = [Procedure::Null, Procedure::MaxResult];

fn table_one() -> Vec<Vec<Cell>> {
    let line = |callers| {
        chosen(&BenchArgs {
            transport: vec![Transport::Udp],
            procedure: NULL_AND_MAX_RESULT.to_vec(),
            callers: vec![callers],
            ..BenchArgs::default()
        })
    };
    (1..=8).map(line).collect()
}

fn transports() -> Vec<Vec<Cell>> {
    let line = |transport: &Transport| {
        chosen(&BenchArgs {
            transport: vec![*transport],
            procedure: NULL_AND_MAX_RESULT.to_vec(),
            callers: vec![1],
            ..BenchArgs::default()
        })
    };
    Transport::OF_OVERVIEW.iter().map(line).collect()
}

fn in_flight() -> Vec<Vec<Cell>> {
    let of = |transport| {
        let in_flight = IN_FLIGHT_DEFAULT.to_vec();
        chosen(&BenchArgs { transport: vec![transport], in_flight, ..BenchArgs::default() })
    };
    [Transport::Udp, Transport::Shm].into_iter().flat_map(of).map(|cell| vec![cell]).collect()
}

fn bulk() -> Vec<Vec<Cell>> {
    let line = |(transport, bytes)| {
        chosen(&BenchArgs {
            transport: vec![transport],
            procedure: vec![Procedure::BulkIn, Procedure::BulkOut],
            bytes: vec![bytes],
            ..BenchArgs::default()
        })
    };
    let sizes = [(Transport::Udp, 48_000), (Transport::Udp, 1 << 20), (Transport::Shm, 1 << 20)];
    sizes.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overview_has_a_line_for_each_caller_count_and_each_transport() {
        let sections = sections();
        let lines: Vec<usize> = sections.iter().map(|section| section.lines.len()).collect();
        assert_eq!(lines, [8, Transport::OF_OVERVIEW.len(), 4, 3]);
        let of_two = |section: &Section| section.lines.iter().all(|line| line.len() == 2);
        assert!([0, 1, 3].iter().all(|&index| of_two(&sections[index])));
    }
}
