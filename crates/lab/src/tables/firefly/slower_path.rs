//! The slower path (Firefly §3.2): a call or a result that arrives while no thread waits for it.

use crate::args::{Processors, Program};
use crate::callers::{Calls, Measured, Window};
use crate::child::Child;
use crate::placement::pin;
use crate::samples::Samples;
use crate::tables::lab::{At, Lab, Way};
use crate::tables::model::{Figure, Group, Line, US};
use std::pin::pin as pinned;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use stoop::{BindOptions, CallError, RunningServer, Security, Server, Waiting};

/// Procedures that return at once or later.
#[stoop::interface]
pub(crate) trait Threads {
    fn null(&self);
    /// Sleeps so long. The server does not know it before it runs the procedure.
    fn sleep(&self, microseconds: u32);
}

struct Sleeper;

impl Threads for Sleeper {
    fn null(&self) {}

    fn sleep(&self, microseconds: u32) {
        if microseconds > 0 {
            thread::sleep(Duration::from_micros(microseconds.into()));
        }
    }
}

/// Exports the procedures at `address`.
pub(in crate::tables) fn serve(address: &str, waiting: Waiting) -> Result<RunningServer, String> {
    let server =
        Server::new().security(Security::none()).waiting(waiting).export(ThreadsServer::new(Sleeper));
    server.listen(address).and_then(Server::start).map_err(|error| error.to_string())
}

/// The paper's Null() when threads wait, and when call and result both take the slower path, in microseconds.
const PAPER: (f64, f64) = (2660.0, 4500.0);

/// Null() when threads wait, and when none waits for the result or for the call.
pub(super) fn compared(lab: &mut Lab<'_>) -> Result<Group, String> {
    lab.clear()?;
    lab.now("calls and results for which no thread waits");
    let (_server, client) = bind(lab)?;
    let [waits, on_handle, woken, behind] = [(); 4].map(|()| client.clone());
    let ways: Vec<Box<dyn Calls>> = vec![
        Way::boxed(move || waits.null().map_err(in_words)),
        Way::boxed(move || begun(&on_handle).wait().map_err(in_words)),
        Way::boxed(move || when_woken(begun(&woken)).map_err(in_words)),
        Box::new(Behind(behind)),
    ];
    let figures: [Figure; 4] = lab.in_turn(ways, US)?.try_into().expect("each way has a figure");
    let [waits, on_handle, woken, behind] = figures;
    let lines = vec![
        Line::new("threads wait for call and result").paper(PAPER.0).today(waits),
        Line::new("a begun call, the thread waits on its handle").today(on_handle),
        Line::new("no thread waits for the result").paper(PAPER.1).today(woken).remark(
            "a begun call as a future: the background thread receives the result and wakes the thread that polls; the paper's \
             figure is that of the slower path for call and result",
        ),
        Line::new("no thread waits for the call").paper(PAPER.1).today(behind).remark(
            "right behind a call whose procedure is usually short, and now sleeps: after a millisecond the server's background thread \
             takes the receive role, and gives it to another worker",
        ),
    ];
    Ok(Group::new("Null() on the slower path (§3.2), threads sleep", "µs", lines))
}

fn bind(lab: &mut Lab<'_>) -> Result<(Child, ThreadsClient), String> {
    let sides = lab.sides(Processors::Two)?;
    pin(sides.caller).map_err(|error| format!("pinning the caller: {error}"))?;
    let at = At { address: format!("udp://{}:0", lab.network.server), beside_caller: false };
    let (server, uri) = lab.serve(Program::Threads, sides.server, at, &[])?;
    let options = BindOptions::new().waiting(Waiting::Block);
    let client = ThreadsClient::bind_with(&uri, &options).map_err(|error| error.to_string())?;
    Ok((server, client))
}

fn begun(client: &ThreadsClient) -> stoop::Pending<Result<(), CallError>> {
    client.begin().null()
}

fn in_words(error: CallError) -> String {
    error.to_string()
}

/// Wakes the thread that polls a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls until the future is ready. The thread sleeps, but not on the endpoint.
fn when_woken<R>(future: impl Future<Output = R>) -> R {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pinned!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Calls of Null(), each right behind a call of `sleep` that is not known to take long.
struct Behind(ThreadsClient);

/// The time that the procedure sleeps, in microseconds: longer than the server waits for a worker that has the receive role.
const SLEEP_US: u32 = 5_000;
/// Calls after which the server takes `sleep` for short again.
const SHORT: u32 = 2;

impl Behind {
    fn call(&self) -> Result<Duration, CallError> {
        for _ in 0..SHORT {
            self.0.sleep(0)?;
        }
        let sleeping = self.0.begin().sleep(SLEEP_US);
        let began = Instant::now();
        self.0.null()?;
        let took = began.elapsed();
        sleeping.wait()?;
        Ok(took)
    }
}

impl Calls for Behind {
    fn run(&mut self, window: Window) -> Result<Measured, String> {
        let mut picoseconds = Vec::new();
        let began = Instant::now();
        loop {
            picoseconds.push(self.call().map_err(in_words)?.as_nanos() as u64 * 1000);
            let (calls, ended) = (picoseconds.len() as u64, Instant::now());
            if ended >= window.until || calls >= window.calls_max {
                return Ok(Measured { samples: Samples::new(picoseconds), calls, began, ended });
            }
        }
    }
}
