//! Which cells are measured, and in which order.

mod overview;

use crate::args::{
    BYTES_DEFAULT, BenchArgs, LinkRate, Procedure, Processors, Results, Silence, Transport, Waiting, name_of,
};
use clap::ValueEnum;

/// One figure with its floor: what is called, how, and by how many callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) transport: Transport,
    pub(crate) procedure: Procedure,
    /// Of data, for bulk procedures; 0 for others, whose size is fixed.
    pub(crate) bytes: u32,
    /// Calls of each caller.
    pub(crate) in_flight: u16,
    /// How a caller takes the results of outstanding calls.
    pub(crate) results: Results,
    /// Of the link, where it is limited.
    pub(crate) link_rate: Option<LinkRate>,
    pub(crate) callers: u16,
    /// Bound at the same time. All callers call through the first of them; the others are idle.
    pub(crate) clients: u16,
    /// Before each call, where callers are silent.
    pub(crate) silence: Option<Silence>,
    pub(crate) waiting: Waiting,
    pub(crate) processors: Processors,
    /// A process that has nothing to do with any call keeps the callers' processor busy.
    pub(crate) busy: bool,
    /// All callers over UDP share one socket.
    pub(crate) share_endpoints: bool,
    /// Frames of an Ethernet carry no CRC-32C.
    pub(crate) no_checksum: bool,
    /// The bulk data of the floor are records of small items.
    pub(crate) records: bool,
}

impl Cell {
    /// Null() over UDP by one caller, as everything else is unless it is asked for.
    pub(crate) const NULL: Cell = Cell {
        transport: Transport::Udp,
        procedure: Procedure::Null,
        bytes: 0,
        in_flight: 1,
        results: Results::Wait,
        link_rate: None,
        callers: 1,
        clients: 1,
        silence: None,
        waiting: Waiting::Adaptive,
        processors: Processors::Two,
        busy: false,
        share_endpoints: false,
        no_checksum: false,
        records: false,
    };

    /// The cell in words.
    pub(crate) fn describe(&self) -> String {
        let (transport, procedure, waiting) =
            (name_of(self.transport), name_of(self.procedure), name_of(self.waiting));
        let clients = if self.clients > 1 { format!(" of {} clients", self.clients) } else { String::new() };
        let silence = self.silence.map_or_else(String::new, |silence| format!(" after {silence} of silence"));
        let busy = if self.busy { " beside a busy process" } else { "" };
        let shared = if self.share_endpoints { ", one socket" } else { "" };
        let unchecked = if self.no_checksum { ", no checksum" } else { "" };
        let bytes = if self.bytes > 0 { format!(" of {} bytes", self.bytes) } else { String::new() };
        let in_flight =
            if self.in_flight > 1 { format!(", {} in flight", self.in_flight) } else { String::new() };
        let results = match self.results {
            Results::Wait => String::new(),
            other => format!(", results by {}", name_of(other)),
        };
        let rate = self.link_rate.map_or_else(String::new, |rate| format!(" at {rate}"));
        let callers = if self.callers == 1 { "1 caller".into() } else { format!("{} callers", self.callers) };
        let processors = if self.processors.number() == 1 { "one processor" } else { "two processors" };
        let what = format!("{transport}{rate} {procedure}{bytes}{in_flight}{results}{silence}");
        format!("{what}, {callers}{clients}, {waiting}, {processors}{shared}{unchecked}{busy}")
    }

    /// The figure at which the reader looks first: the time of one call, or the throughput.
    pub(crate) fn shape(&self) -> Shape {
        if self.procedure.is_bulk() || self.begins_calls() { Shape::Rates } else { Shape::Times }
    }

    /// Whether its callers begin calls and take their results later.
    pub(crate) fn begins_calls(&self) -> bool {
        self.in_flight > 1 || self.results != Results::Wait
    }

    /// Bytes of data in the call and in the result.
    pub(crate) fn data_lens(&self) -> (usize, usize) {
        self.procedure.data_lens(self.bytes as usize)
    }

    /// Bytes of data that a call moves, both ways together.
    pub(crate) fn data_len(&self) -> usize {
        let (argument, result) = self.data_lens();
        argument + result
    }
}

/// Which columns a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Every column about the time of a call.
    Times,
    /// Every column about the rate of calls and of data.
    Rates,
    /// Of the overview: Null() and MaxResult() by a number of callers.
    TableOne,
    /// Of the overview: Null() and MaxResult() over a transport.
    Transports,
    /// Of the overview: a number of outstanding calls.
    InFlight,
    /// Of the overview: arguments and results of a size.
    Bulk,
}

impl Shape {
    /// Whether it belongs to the overview, whose columns a newcomer reads.
    pub(crate) fn is_overview(self) -> bool {
        !matches!(self, Self::Times | Self::Rates)
    }
}

/// Lines with one title above them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) shape: Shape,
    /// The cells of each line.
    pub(crate) lines: Vec<Vec<Cell>>,
}

impl Section {
    fn of_single_cells(title: &'static str, shape: Shape, cells: Vec<Cell>) -> Self {
        Self { title, shape, lines: cells.into_iter().map(|cell| vec![cell]).collect() }
    }

    /// The cells of all lines, in the order in which they are measured.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.lines.iter().flatten()
    }
}

/// The sections for what was asked: the overview, all default tables, or every combination of what was chosen.
pub(crate) fn sections(args: &BenchArgs) -> Vec<Section> {
    let sections = match () {
        () if args.any_choice() => sections_of_choice(args),
        () if args.full => full_sections(),
        () => overview::sections(),
    };
    sections.into_iter().filter(|section| !section.lines.is_empty()).collect()
}

fn sections_of_choice(args: &BenchArgs) -> Vec<Section> {
    let (times, rates) = chosen(args).into_iter().partition(|cell| cell.shape() == Shape::Times);
    vec![
        Section::of_single_cells("The chosen calls: times", Shape::Times, times),
        Section::of_single_cells("The chosen calls: rates", Shape::Rates, rates),
    ]
}

fn full_sections() -> Vec<Section> {
    vec![
        Section::of_single_cells(
            "Table I: calls by 1 to 8 caller threads, adaptive wait, caller and server on a processor each",
            Shape::Times,
            chosen(&BenchArgs { transport: Transport::OF_OVERVIEW.to_vec(), ..BenchArgs::default() }),
        ),
        Section::of_single_cells(
            "Waiting: Null() by one caller, the three ways to wait, on two processors and sharing one",
            Shape::Times,
            chosen(&BenchArgs {
                transport: vec![Transport::Udp, Transport::Tcp, Transport::Unix, Transport::Shm],
                procedure: vec![Procedure::Null],
                callers: vec![1],
                waiting: Waiting::value_variants().to_vec(),
                processors: vec![Processors::Two, Processors::One],
                ..BenchArgs::default()
            }),
        ),
        Section::of_single_cells(
            "Shared memory: Null() by one of 1, 64 and 1000 clients, the others idle, adaptive wait, a processor each",
            Shape::Times,
            chosen(&BenchArgs {
                transport: vec![Transport::Shm],
                procedure: vec![Procedure::Null],
                clients: vec![1, 64, 1000],
                ..BenchArgs::default()
            }),
        ),
        Section::of_single_cells(
            "Bulk: long arguments and results, one caller, adaptive wait, a processor each",
            Shape::Rates,
            chosen(&BenchArgs {
                transport: vec![Transport::Udp, Transport::Shm],
                procedure: Procedure::BULK.to_vec(),
                ..BenchArgs::default()
            }),
        ),
        Section::of_single_cells(
            "Peregrine Table 6: calls between two address spaces of one machine. There Null() took 149 µs, 4 bytes IN 150, \
                    1024 bytes IN 310, IN-OUT 468",
            Shape::Rates,
            table_six(),
        ),
        Section::of_single_cells(
            "In flight: many outstanding calls of Null() from one thread, and each way to take their results, adaptive wait, a \
                    processor each",
            Shape::Rates,
            in_flight(),
        ),
        Section::of_single_cells(
            "Directly on the Ethernet: one caller, adaptive wait, caller and server on a processor each",
            Shape::Times,
            chosen(&BenchArgs {
                transport: vec![Transport::Ether, Transport::EtherXdpGeneric],
                procedure: vec![Procedure::Null, Procedure::MaxResult],
                callers: vec![1],
                ..BenchArgs::default()
            }),
        ),
    ]
}

/// Null() over UDP with each way to take results, and the ways to take none with the larger number of outstanding calls.
fn in_flight() -> Vec<Cell> {
    let taken = |results: &[Results], in_flight: &[u16]| {
        chosen(&BenchArgs {
            transport: vec![Transport::Udp],
            in_flight: in_flight.to_vec(),
            results: results.to_vec(),
            ..BenchArgs::default()
        })
    };
    let mut cells = taken(&[Results::Wait, Results::Await, Results::WaitAny], &IN_FLIGHT_DEFAULT);
    cells.extend(taken(&[Results::Detach, Results::OneWay], &IN_FLIGHT_DEFAULT[1..]));
    cells
}

/// The procedures of Peregrine's table of local calls, over shared memory.
fn table_six() -> Vec<Cell> {
    let by_size = |procedure: &[Procedure], bytes: &[u32]| {
        chosen(&BenchArgs {
            transport: vec![Transport::Shm],
            procedure: procedure.to_vec(),
            bytes: bytes.to_vec(),
            callers: vec![1],
            processors: vec![Processors::Two, Processors::One],
            ..BenchArgs::default()
        })
    };
    let mut cells = by_size(&[Procedure::Null, Procedure::BulkIn], &[4]);
    cells.extend(by_size(&[Procedure::BulkIn, Procedure::BulkInOut], &[1024]));
    cells.sort_by_key(|cell| std::cmp::Reverse(cell.processors));
    cells
}

/// Every combination, each choice left open being as in the default tables. Cells that share a server stand together.
fn chosen(args: &BenchArgs) -> Vec<Cell> {
    let mut cells = Vec::new();
    for server in servers(args) {
        for procedure in procedures(args) {
            for bytes in sizes(args, procedure) {
                for results in or(&args.results, &[Results::Wait]) {
                    for in_flight in or(&args.in_flight, default_in_flight(args)) {
                        for silence in some_or_none(&args.silence) {
                            for callers in or(&args.callers, default_callers(args, procedure)) {
                                let cell = Cell { procedure, bytes, in_flight, results, ..server };
                                cells.push(Cell { silence, callers, ..cell });
                            }
                        }
                    }
                }
            }
        }
    }
    cells
}

/// The parts that cells of the same server share, once for each server.
fn servers(args: &BenchArgs) -> Vec<Cell> {
    let mut servers = Vec::new();
    for transport in or(&args.transport, default_transports(args)) {
        for processors in or(&args.processors, default_processors(args)) {
            for waiting in or(&args.waiting, &[Waiting::Adaptive]) {
                for link_rate in some_or_none(&args.rate) {
                    for clients in or(&args.clients, &[1]) {
                        servers.push(Cell {
                            transport,
                            link_rate,
                            clients,
                            waiting,
                            processors,
                            busy: args.busy,
                            share_endpoints: args.share_endpoints,
                            no_checksum: args.no_checksum,
                            ..Cell::NULL
                        });
                    }
                }
            }
        }
    }
    servers
}

/// A link is between two machines; what is said of rates is said of UDP first.
fn default_transports(args: &BenchArgs) -> &'static [Transport] {
    match () {
        () if !args.rate.is_empty() => &[Transport::Udp],
        () if begins_calls(args) => &[Transport::Udp],
        () if !args.bytes.is_empty() => &[Transport::Udp, Transport::Tcp, Transport::Unix, Transport::Shm],
        () => &Transport::SCHEMES,
    }
}

/// Whether outstanding calls were asked for.
fn begins_calls(args: &BenchArgs) -> bool {
    !(args.in_flight.is_empty() && args.results.is_empty())
}

/// Outstanding calls of the default tables.
const IN_FLIGHT_DEFAULT: [u16; 2] = [32, 256];

/// How results are taken matters where many calls are outstanding.
fn default_in_flight(args: &BenchArgs) -> &'static [u16] {
    if args.results.is_empty() { &[1] } else { &IN_FLIGHT_DEFAULT }
}

/// Busy threads beside caller and server matter where both share a processor.
fn default_processors(args: &BenchArgs) -> &'static [Processors] {
    if args.busy { &[Processors::One] } else { &[Processors::Two] }
}

/// Each of what was given, or none.
fn some_or_none<T: Copy + PartialEq>(given: &[T]) -> Vec<Option<T>> {
    if given.is_empty() { vec![None] } else { or(given, &[]).into_iter().map(Some).collect() }
}

fn procedures(args: &BenchArgs) -> Vec<Procedure> {
    let otherwise: &[Procedure] = match () {
        () if !args.bytes.is_empty() => &Procedure::BULK,
        () if !args.rate.is_empty() => &[Procedure::BulkIn],
        () if begins_calls(args) => &[Procedure::Null],
        () => &Procedure::PAPER,
    };
    if args.bytes.is_empty() {
        return or(&args.procedure, otherwise);
    }
    let of_any_size: Vec<Procedure> =
        args.procedure.iter().map(|procedure| procedure.of_any_size()).collect();
    or(&of_any_size, otherwise)
}

fn sizes(args: &BenchArgs, procedure: Procedure) -> Vec<u32> {
    match procedure.is_bulk() {
        true if args.rate.is_empty() => or(&args.bytes, &BYTES_DEFAULT),
        true => or(&args.bytes, &BYTES_DEFAULT[..1]),
        false => vec![0],
    }
}

fn default_callers(args: &BenchArgs, procedure: Procedure) -> &'static [u16] {
    let one = begins_calls(args) || !(args.clients.is_empty() && args.silence.is_empty());
    if procedure.is_bulk() || one || args.busy { &[1] } else { &[1, 2, 3, 4, 5, 6, 7, 8] }
}

/// The given values, once each and in the order given, or else `otherwise`.
fn or<T: Copy + PartialEq>(given: &[T], otherwise: &[T]) -> Vec<T> {
    let mut values = Vec::new();
    for &value in if given.is_empty() { otherwise } else { given } {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Vec<Section> {
        sections(&BenchArgs { full: true, ..BenchArgs::default() })
    }

    fn cells(section: &Section) -> Vec<Cell> {
        section.cells().copied().collect()
    }

    #[test]
    fn full_run_begins_with_table_one_and_the_waiting_table() {
        let sections = full();
        assert_eq!(sections[0].lines.len(), 5 * 3 * 8);
        assert_eq!(sections[1].lines.len(), 4 * 3 * 2);
        assert!(sections[..2].iter().flat_map(Section::cells).all(|cell| cell.shape() == Shape::Times));
    }

    #[test]
    fn full_run_ends_with_bulk_and_with_outstanding_calls() {
        let sections = full();
        assert_eq!(sections[3].lines.len(), 2 * 3 * 3);
        assert_eq!(sections[5].lines.len(), 3 * 2 + 2);
        let is_measured = |way: &Results| sections[5].cells().any(|cell| cell.results == *way);
        assert!(Results::value_variants().iter().all(is_measured));
        assert!(sections[3..].iter().flat_map(Section::cells).all(|cell| cell.callers == 1));
    }

    #[test]
    fn full_run_has_the_calls_of_peregrines_table_six() {
        let cells = cells(&full()[4]);
        let of_two: Vec<_> = cells[..4].iter().map(|cell| (cell.procedure, cell.bytes)).collect();
        let table = [
            (Procedure::Null, 0),
            (Procedure::BulkIn, 4),
            (Procedure::BulkIn, 1024),
            (Procedure::BulkInOut, 1024),
        ];
        assert_eq!(of_two, table);
        assert!(cells[4..].iter().all(|cell| cell.processors == Processors::One));
    }

    #[test]
    fn a_choice_is_multiplied_out_and_the_rest_is_as_in_table_one() {
        let args = BenchArgs {
            transport: vec![Transport::Udp, Transport::Udp],
            callers: vec![1, 4],
            waiting: vec![Waiting::Spin, Waiting::Block],
            ..BenchArgs::default()
        };
        let cells = cells(&sections(&args)[0]);
        assert_eq!(cells.len(), 2 * 2 * 3);
        assert!(cells.iter().all(|cell| cell.processors == Processors::Two));
    }

    #[test]
    fn sizes_make_procedures_bulk_and_leave_null_as_it_is() {
        let args = BenchArgs {
            transport: vec![Transport::Udp],
            procedure: vec![Procedure::Null, Procedure::MaxArg, Procedure::BulkIn],
            bytes: vec![48_000, 96_000],
            callers: vec![1],
            ..BenchArgs::default()
        };
        let sections = sections(&args);
        assert_eq!(sections[0].cells().map(|cell| cell.bytes).collect::<Vec<_>>(), [0]);
        let bulk = |cell: &Cell| (cell.procedure, cell.bytes);
        let expected = [(Procedure::BulkIn, 48_000), (Procedure::BulkIn, 96_000)];
        assert_eq!(sections[1].cells().map(bulk).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_number_in_flight_means_null_by_one_caller() {
        let args = BenchArgs { in_flight: vec![32, 256], ..BenchArgs::default() };
        let cells = cells(&sections(&args)[0]);
        assert_eq!(cells.iter().map(|cell| cell.in_flight).collect::<Vec<_>>(), [32, 256]);
        assert!(cells.iter().all(|cell| (cell.procedure, cell.callers) == (Procedure::Null, 1)));
    }

    #[test]
    fn a_way_to_take_results_means_many_outstanding_calls() {
        let args = BenchArgs { results: vec![Results::Await, Results::OneWay], ..BenchArgs::default() };
        let cells = cells(&sections(&args)[0]);
        let of = |cell: &Cell| (cell.results, cell.in_flight);
        let (awaited, one_way) = (Results::Await, Results::OneWay);
        let expected = [(awaited, 32), (awaited, 256), (one_way, 32), (one_way, 256)];
        assert_eq!(cells.iter().map(of).collect::<Vec<_>>(), expected);
        assert!(cells.iter().all(|cell| cell.shape() == Shape::Rates && cell.callers == 1));
    }
}
