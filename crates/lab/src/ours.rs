//! Our side: the Test interface of the paper, through the same public API that everyone uses.

mod awaited;
mod begun;
mod detached;
mod timed;

use crate::args::{DATA_LEN, Procedure, Transport, Waiting};
use crate::callers::{Calls, LOCAL_BATCH, Measured, Window, call_repeatedly};
use crate::plan::Cell;
use begun::Begun;
use std::hint::black_box;
use std::time::Duration;
use stoop::{
    BindOptions, CallError, InPlace, PacketOptions, Pending, RunningServer, Security, Server, ShmOptions,
};

/// The handle of an outstanding call.
type Handle<R> = Pending<Result<R, CallError>>;

/// The interface that the paper measures with (Firefly §2).
#[stoop::interface]
pub(crate) trait Test {
    /// No argument, no result: the base latency.
    fn null(&self);
    /// As Null(), and the caller does not wait for it. Unordered, so that no other procedure waits for it, either.
    #[one_way(unordered)]
    fn null_one_way(&self);
    /// A result that fills one Ethernet packet; the procedure writes it into the packet itself.
    fn max_result(&self, #[out] buf: &mut [u8; 1440]);
    /// An argument that fills one Ethernet packet; the procedure reads it in the packet itself.
    fn max_arg(&self, buf: &[u8; 1440]);
    /// An argument of any length (IN); the procedure sees it where it was received.
    fn bulk_in(&self, data: &[u8]);
    /// A result of any length (OUT); the procedure writes it where it is sent from.
    fn bulk_out(&self, #[out] data: &mut [u8]);
    /// Data of any length that come back changed (IN-OUT).
    fn bulk_in_out(&self, data: &mut [u8]);
    /// An argument of any length in a buffer that the procedure sees where the caller has filled it.
    fn bulk_in_place(&self, data: &InPlace<u8>);
    /// The same, and the procedure reads all of it.
    fn bulk_in_place_read(&self, data: &InPlace<u8>);
}

/// Does nothing, as fast as possible.
pub(crate) struct Exerciser;

impl Test for Exerciser {
    fn null(&self) {}

    fn null_one_way(&self) {}

    fn max_result(&self, buf: &mut [u8; DATA_LEN]) {
        (buf[0], buf[DATA_LEN - 1]) = MARKS;
    }

    fn max_arg(&self, _buf: &[u8; DATA_LEN]) {}

    // No procedure but the last looks at all of its data: what it would do with them is no part of the call.

    fn bulk_in(&self, _data: &[u8]) {}

    fn bulk_out(&self, data: &mut [u8]) {
        mark(data);
    }

    fn bulk_in_out(&self, data: &mut [u8]) {
        mark(data);
    }

    fn bulk_in_place(&self, _data: &InPlace<u8>) {}

    fn bulk_in_place_read(&self, data: &InPlace<u8>) {
        let mut part = [0; READ_AT_ONCE];
        for at in (0..data.len()).step_by(READ_AT_ONCE) {
            let part = &mut part[..READ_AT_ONCE.min(data.len() - at)];
            data.read(at, part);
            black_box(part);
        }
    }
}

/// Bytes that a procedure takes out of a buffer at a time: they stay in the nearest cache.
const READ_AT_ONCE: usize = 16 << 10;
/// Bytes of buffers that a client can have: address space.
const BUFFERS_MAX: usize = 1 << 30;

/// Writes the marks at both ends.
fn mark(data: &mut [u8]) {
    if let [first, .., last] = data {
        (*first, *last) = MARKS;
    }
}

/// The mark that a procedure with a result leaves at both ends of its buffer, to show that it has run.
const MARKS: (u8, u8) = (0x57, 0x0b);

/// Exports the Test interface at `uri`, as long as what this returns is held, on threads that inherit this one's processor.
pub(crate) fn serve(uri: &str, waiting: Waiting) -> Result<RunningServer, String> {
    let server = match uri.starts_with("shm:") {
        true => Server::new().with(ShmOptions::new().in_place(BUFFERS_MAX)),
        false => Server::new(),
    };
    let server = server.security(Security::none()).waiting(wait(waiting)).export(TestServer::new(Exerciser));
    server.listen(uri).and_then(Server::start).map_err(|error| error.to_string())
}

/// A client bound to the Test interface.
#[derive(Clone)]
pub(crate) struct Binding {
    client: TestClient,
    transport: Transport,
}

/// A call that takes this long has met with something other than a slow machine.
const TIMEOUT: Duration = Duration::from_secs(5);

impl Binding {
    /// Binds to the server at `uri`, and makes one call of each procedure to see that it works.
    pub(crate) fn bind(uri: &str, cell: &Cell) -> Result<Self, String> {
        let Cell { transport, waiting, .. } = *cell;
        let mut options = BindOptions::new().waiting(wait(waiting)).timeout(TIMEOUT);
        // The other transports have no endpoints to share.
        if cell.share_endpoints && (uri.starts_with("udp:") || uri.starts_with("ether:")) {
            options = options.with(PacketOptions::new().share_endpoints());
        }
        let client = TestClient::bind_with(uri, &options).map_err(|error| error.to_string())?;
        try_out(&client).map_err(|error| format!("the first calls: {error}"))?;
        Ok(Binding { client, transport })
    }

    /// Calls of the procedure of `cell` for one caller thread.
    pub(crate) fn calls(&self, cell: &Cell) -> Box<dyn Calls> {
        if cell.begins_calls() {
            let (client, data) = (self.client.clone(), data_for(cell));
            let Cell { procedure, in_flight, results, .. } = *cell;
            return Box::new(Begun { client, procedure, data, in_flight, results });
        }
        let batch = if self.transport == Transport::Local { LOCAL_BATCH } else { 1 };
        let data = data_for(cell);
        let len = if Procedure::IN_PLACE.contains(&cell.procedure) { data.len() } else { 0 };
        let buffer = self.client.in_place(len).map_err(|error| error.to_string());
        Box::new(Ours { client: self.client.clone(), procedure: cell.procedure, data, buffer, batch })
    }

    /// The counters of this binding's calls.
    pub(crate) fn counts(&self) -> Counts {
        let counters = self.client.binding().counters();
        Counts { calls: counters.calls, fast: counters.fast }
    }
}

fn try_out(client: &TestClient) -> Result<(), CallError> {
    let mut data = [0; DATA_LEN];
    client.null()?;
    client.max_arg(&data)?;
    client.max_result(&mut data)?;
    assert_eq!((data[0], data[DATA_LEN - 1]), MARKS, "MaxResult() brought back what the procedure wrote");
    Ok(())
}

pub(crate) fn wait(waiting: Waiting) -> stoop::Waiting {
    match waiting {
        Waiting::Spin => stoop::Waiting::Spin,
        Waiting::Block => stoop::Waiting::Block,
        Waiting::Adaptive => stoop::Waiting::Adaptive,
    }
}

/// Counters of a binding at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    calls: u64,
    fast: u64,
}

impl Counts {
    /// Of the calls made since `before`, the share that took the fast path.
    ///
    /// `local:` calls are not counted, because that would cost more than the call; none of them takes any other path.
    pub(crate) fn fast_path_share_since(self, before: Counts) -> f64 {
        let (calls, fast) = (self.calls - before.calls, self.fast - before.fast);
        if calls == 0 { 1.0 } else { fast as f64 / calls as f64 }
    }
}

/// Data for the calls of `cell`, every page of them there.
pub(crate) fn data_for(cell: &Cell) -> Vec<u8> {
    let (argument, result) = cell.data_lens();
    vec![0x5a; argument.max(result)]
}

/// Data that fill one packet.
pub(crate) fn one_packet(data: &mut [u8]) -> &mut [u8; DATA_LEN] {
    data.try_into().expect("the data of MaxArg(1440) and MaxResult(1440) are 1440 bytes")
}

struct Ours {
    client: TestClient,
    procedure: Procedure,
    data: Vec<u8>,
    buffer: Result<InPlace<u8>, String>,
    batch: u64,
}

impl Calls for Ours {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        let Ours { client, procedure, data, buffer, batch } = self;
        let buffer = buffer.as_mut().map_err(|error| error.clone())?;
        match procedure {
            Procedure::Null => each(window, *batch, || client.null()),
            Procedure::MaxArg => each(window, *batch, || client.max_arg(one_packet(data))),
            Procedure::MaxResult => each(window, *batch, || client.max_result(one_packet(data))),
            Procedure::BulkIn => each(window, *batch, || client.bulk_in(data)),
            Procedure::BulkOut => each(window, *batch, || client.bulk_out(data)),
            Procedure::BulkInOut => each(window, *batch, || client.bulk_in_out(data)),
            Procedure::BulkInPlace => each(window, *batch, || {
                buffer.write(0, data);
                client.bulk_in_place(buffer)
            }),
            Procedure::BulkInPlaceRead => each(window, *batch, || {
                buffer.write(0, data);
                client.bulk_in_place_read(buffer)
            }),
        }
    }
}

#[inline(always)]
fn each(
    window: Window,
    batch: u64,
    mut call: impl FnMut() -> Result<(), CallError>,
) -> Result<Measured, String> {
    call_repeatedly(window, batch, || call().map_err(in_words))
}

#[cold]
fn in_words(error: CallError) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_are_not_counted_are_all_on_the_fast_path() {
        let counts = Counts { calls: 10, fast: 9 };
        assert_eq!(counts.fast_path_share_since(counts), 1.0);
        assert_eq!(Counts { calls: 110, fast: 59 }.fast_path_share_since(counts), 0.5);
    }
}
