//! An endpoint, and a peer that writes by hand what it wants into the memory of its binding.

use crate::context::{Caller, Credentials, cancelled};
use crate::interface::{Exported, Interface, Procedure, Revisions, Signature};
use crate::later::unserved::Unserved;
use crate::options::Waiting;
use crate::serving::binder::Bound;
use crate::serving::dispatch::Exports;
use crate::serving::running::Setup;
use crate::serving::workers::Bounds;
use crate::transport::shm::options::ShmOptions;
use crate::transport::shm::server::binding::Binding;
use crate::transport::shm::server::pipes::BindingPipes;
use crate::transport::shm::server::worker::WorkerState;
use crate::transport::shm::server::{Endpoint, ShmEndpoint};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use stoop_marshal::{Reader, Writer};
use stoop_net::poller::Bell;
use stoop_net::stream::{Accepted, Stream, StreamAddress, StreamListener};
use stoop_shm::layout::{CHANNELS, SLOT};
use stoop_shm::{Request, RequestKind, Requests, Segment};
use stoop_wire::BindingId;

/// An interface with one procedure, which does nothing.
struct Idle;

static IDLE: Interface = Interface {
    name: "Idle",
    docs: "",
    procedures: &[Procedure {
        name: "rest",
        docs: "",
        signature: Signature::Text("()"),
        idempotent: false,
        one_way: false,
        in_place: None,
        buffers: false,
        since: 0,
    }],
    callback: None,
    revisions: Revisions::none(),
};

impl Exported for Idle {
    fn interface(&self) -> &'static Interface {
        &IDLE
    }

    fn dispatch(&self, _: u16, _: Reader<'_>, _: &mut Writer<'_>) -> Result<(), Unserved> {
        Ok(())
    }

    fn local(&self) -> Box<dyn Any + Send + Sync> {
        Box::new(())
    }
}

/// An endpoint with one binding, and the peer's end of that.
struct Scene {
    endpoint: ShmEndpoint,
    worker: WorkerState,
    binding: Arc<Binding>,
    segment: Segment,
    requests: Requests,
    _socket: Stream,
}

impl Scene {
    fn set() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("stoop-test-{}-{number}", std::process::id());
        let address = StreamAddress::UnixAbstract(name.into());
        let listener = StreamListener::bind(&address).unwrap();
        let socket = Stream::connect(&address, Duration::from_secs(60)).unwrap();
        let Ok(Accepted::Stream(stream)) = listener.accept() else { panic!("the peer has connected") };
        let exports = Arc::new(Exports::new(vec![Arc::new(Idle)], vec![Vec::new()], String::new()));
        let setup = Setup {
            exports,
            programs: Arc::default(),
            waiting: Waiting::Block,
            bounds: Bounds { workers: 1, queue: 1 },
            max_message: 1 << 20,
            limits: crate::limits::Limits::new(),
        };
        let endpoint = ShmEndpoint::new(listener, &setup, ShmOptions::new().in_place(0), 1).unwrap();
        let (segment, file) = Segment::create().unwrap();
        let caller = Caller::Process(Credentials { uid: 0, gid: 0, pid: 0 });
        // Binding numbers of other tests in this process are others.
        let bound = Bound { binding: BindingId(u64::MAX - number), interface: 0, together: true };
        let memory = (Segment::attach(&file).unwrap(), None);
        let share = endpoint.shares.take(&caller).unwrap();
        let pipes = BindingPipes::new(&endpoint.attended);
        let binding = Binding::new(
            4,
            stream,
            Bell::new().unwrap(),
            memory,
            (&endpoint.memory, share, pipes),
            caller,
            bound,
        );
        let mut bindings = endpoint.bindings();
        bindings.add(&endpoint.acceptor.poller, binding).unwrap();
        let binding = Arc::clone(&bindings.all[&4]);
        bindings.start_polling(Arc::clone(&binding), 0);
        drop(bindings);
        let worker = endpoint.worker();
        Self { endpoint, worker, binding, segment, requests: Requests::default(), _socket: socket }
    }

    fn publish(&self, request: &Request) {
        self.requests.publish(&self.segment, request, &[0; 8][..request.len.min(8) as usize]);
    }

    /// Has the endpoint look at the binding until there is nothing more to take. Returns how many calls it took.
    fn look(&mut self) -> usize {
        let mut calls = 0;
        while self.binding.has_request() && !self.binding.is_closed() {
            let call = self.endpoint.look(&mut self.endpoint.bindings(), &mut self.worker);
            calls += usize::from(call.is_some());
        }
        calls
    }
}

fn call(lane: u16, len: usize) -> Request {
    Request {
        kind: RequestKind::Call,
        lane,
        number: 1,
        procedure: 0,
        cpu: u16::MAX,
        len: len as u32,
        deadline_ns: u64::MAX,
        channel: 0,
        base: 0,
    }
}

#[test]
fn a_binding_that_ends_for_an_impossible_call_leaves_no_cancelled_call_behind() {
    let long = call(0, SLOT + 1);
    let impossible: [&[Request]; 4] = [
        &[Request { channel: CHANNELS as u8, ..long }],
        &[Request { channel: u8::MAX, ..long }],
        // The channel is in use.
        &[long, call(1, SLOT + 1)],
        // The number is not the next.
        &[Request { number: 7, ..call(0, 8) }],
    ];
    for requests in impossible {
        let mut scene = Scene::set();
        requests.iter().for_each(|request| scene.publish(request));
        assert_eq!(scene.look(), 0);
        assert!(scene.binding.is_closed(), "{requests:?}");
        assert_eq!(scene.endpoint.counters().malformed, 1, "{requests:?}");
        assert_eq!(cancelled::count_of(scene.binding.id), 0, "{requests:?}");
    }
}
