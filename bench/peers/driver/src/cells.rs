//! The cells in which each peer is measured: a procedure, a number of callers, and the processors of both processes.

/// Where client and server run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Both on processor 1.
    One,
    /// The client on processor 0, the server on processor 1.
    Two,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The name that the programs read on their standard input.
    pub(crate) procedure: &'static str,
    pub(crate) bytes: usize,
    pub(crate) callers: usize,
}

/// Bytes of the argument of MaxArg and of the result of MaxResult (Firefly §2): as many as one Ethernet packet holds.
const PACKET: usize = 1440;

const fn cell(procedure: &'static str, bytes: usize, callers: usize) -> Cell {
    Cell { procedure, bytes, callers }
}

/// Cells of which the time of one call is reported.
pub(crate) const LATENCY: [Cell; 3] = [cell("null", 0, 1), cell("put", PACKET, 1), cell("get", PACKET, 1)];

/// Null() by 1, 2, 4 and 8 callers at a time.
pub(crate) const CALLERS: [Cell; 4] =
    [LATENCY[0], cell("null", 0, 2), cell("null", 0, 4), cell("null", 0, 8)];

/// Long arguments and results.
pub(crate) const BULK: [Cell; 4] =
    [cell("put", 48_000, 1), cell("get", 48_000, 1), cell("put", 1 << 20, 1), cell("get", 1 << 20, 1)];

/// Items of a stream to one caller.
pub(crate) const STREAM: [Cell; 2] = [cell("stream", 64, 1), cell("stream", 1 << 16, 1)];

impl Placement {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Placement::One => "one processor",
            Placement::Two => "two processors",
        }
    }

    /// The processors of client and server.
    pub(crate) fn processors(self) -> (usize, usize) {
        match self {
            Placement::One => (1, 1),
            Placement::Two => (0, 1),
        }
    }

    /// The cells that are measured there, each once.
    pub(crate) fn cells(self) -> Vec<Cell> {
        match self {
            Placement::One => LATENCY.to_vec(),
            Placement::Two => [&LATENCY[..], &CALLERS[1..], &BULK, &STREAM].concat(),
        }
    }
}

impl Cell {
    pub(crate) fn name(&self) -> String {
        let procedure = match (self.procedure, self.bytes) {
            ("null", _) => "Null()".into(),
            ("put", PACKET) => "MaxArg".into(),
            ("get", PACKET) => "MaxResult".into(),
            ("stream", bytes) => format!("items of {}", size(bytes)),
            ("put", bytes) => format!("in {}", size(bytes)),
            (_, bytes) => format!("out {}", size(bytes)),
        };
        if self.callers == 1 { procedure } else { format!("{procedure} × {}", self.callers) }
    }
}

fn size(bytes: usize) -> String {
    match bytes {
        0x10_0000 => "1 MiB".into(),
        0x1_0000 => "64 KiB".into(),
        ..1000 => format!("{bytes} B"),
        bytes => format!("{} kB", bytes / 1000),
    }
}
