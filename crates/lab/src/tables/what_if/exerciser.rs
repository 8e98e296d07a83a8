//! The RPC Exerciser (Firefly §5): stubs made by hand, which marshal nothing.
//!
//! They call the run time as the emitted stubs do. A result has as many bytes as MaxResult(b) has, but the procedure does not write
//! them, and the caller does not copy them out of the packet.

use super::paper::Call;
use super::setting::PAIRS;
use crate::args::{Procedure, Processors, Program};
use crate::ours::{self, TestClient, TestServer};
use crate::placement::pin;
use crate::tables::lab::{At, Lab, Way};
use crate::tables::model::{Figure, US};
use std::any::Any;
use std::sync::Arc;
use stoop::stub::{Client, Exported, Interface, Reader, Revisions, Route, Unserved, Writer};
use stoop::{BindOptions, CallError, RunningServer, Security, Server};

/// The caller's stubs: a procedure for each of the two calls.
trait ByHand: Send + Sync {}

/// The server's stubs.
struct Stubs;

impl ByHand for Stubs {}

const NULL: u16 = 0;
const RESULT: u16 = 1;
const RESULT_LEN: usize = 1440;

const fn procedure(name: &'static str, signature: &'static str) -> stoop::stub::Procedure {
    stoop::stub::Procedure {
        name,
        docs: "",
        signature: stoop::stub::Signature::Text(signature),
        idempotent: false,
        one_way: false,
        in_place: None,
        buffers: false,
        since: 0,
    }
}

static INTERFACE: Interface = Interface {
    name: "ByHand",
    docs: "",
    procedures: &[procedure("null", "null()"), procedure("result", "result() -> [u8; 1440]")],
    callback: None,
    revisions: Revisions::none(),
};

impl Exported for Stubs {
    fn interface(&self) -> &'static Interface {
        &INTERFACE
    }

    fn dispatch(&self, procedure: u16, _call: Reader<'_>, result: &mut Writer<'_>) -> Result<(), Unserved> {
        match procedure {
            NULL => Ok(()),
            // The bytes of the packet leave as they are.
            RESULT => result.chunk(1, RESULT_LEN).map(drop).ok_or(Unserved::ResultTooLarge),
            _ => Err(Unserved::UnknownProcedure),
        }
    }

    fn local(&self) -> Box<dyn Any + Send + Sync> {
        let implementation: Arc<dyn ByHand> = Arc::new(Stubs);
        Box::new(implementation)
    }
}

/// A caller with stubs made by hand.
#[derive(Clone)]
pub(in crate::tables) struct HandMade(Client<dyn ByHand>);

impl HandMade {
    pub(in crate::tables) fn bind(uri: &str, waiting: stoop::Waiting) -> Result<Self, String> {
        let client = Client::bind(&INTERFACE, uri, &BindOptions::new().waiting(waiting));
        client.map(Self).map_err(|error| error.to_string())
    }

    /// Calls of Null() or of MaxResult(b) by one thread.
    pub(in crate::tables) fn calls(&self, of: Procedure) -> Box<dyn crate::callers::Calls> {
        let (client, number) = (self.clone(), if of == Procedure::MaxResult { RESULT } else { NULL });
        way(move || client.call(number))
    }

    fn call(&self, procedure: u16) -> Result<(), CallError> {
        let Route::Remote(route) = self.0.route(procedure)? else {
            unreachable!("the server is another process");
        };
        let mut call = route.start(procedure)?;
        let arguments = call.arguments().finish();
        call.transport(arguments)?;
        call.end(Ok(()))
    }
}

/// Serves the Test interface by the emitted stubs, and the one with stubs made by hand, at `uri`.
pub(in crate::tables) fn serve(uri: &str, waiting: stoop::Waiting) -> Result<RunningServer, String> {
    let server =
        Server::new().security(Security::none()).waiting(waiting).export(TestServer::new(ours::Exerciser));
    server.export(Stubs).listen(uri).and_then(Server::start).map_err(|error| error.to_string())
}

/// The call by the emitted stubs, then by those made by hand.
pub(super) fn tried(lab: &mut Lab<'_>, paper: &Call) -> Result<[Figure; 2], String> {
    let sides = lab.sides(Processors::Two)?;
    pin(sides.caller).map_err(|error| format!("pinning the caller: {error}"))?;
    let at = At { address: format!("udp://{}:0", lab.network.server), beside_caller: false };
    let (_server, uri) = lab.serve(Program::Exerciser, sides.server, at, &["--waiting=spin"])?;
    let options = BindOptions::new().waiting(stoop::Waiting::Spin);
    let procedure = paper.procedure;
    let pair = |_| {
        let usual = TestClient::bind_with(&uri, &options).map_err(|error| error.to_string())?;
        let by_hand = HandMade::bind(&uri, stoop::Waiting::Spin)?.calls(procedure);
        let mut result = [0; RESULT_LEN];
        Ok(match procedure {
            Procedure::MaxResult => [way(move || usual.max_result(&mut result)), by_hand],
            _ => [way(move || usual.null()), by_hand],
        })
    };
    let pairs = (0..PAIRS).map(pair).collect::<Result<Vec<_>, String>>();
    lab.pairs_in_short_turns(pairs?, US)
}

fn way(mut call: impl FnMut() -> Result<(), CallError> + Send + 'static) -> Box<dyn crate::callers::Calls> {
    Way::boxed(move || call().map_err(|error| error.to_string()))
}
