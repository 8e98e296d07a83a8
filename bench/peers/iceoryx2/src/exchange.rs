//! Both ends of a call through iceoryx2: its request-response, and for sleepers its events.

use crate::cell::Waiting;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::request_response::PortFactory;
use std::error::Error;
use std::fmt::Debug;
use std::hint::{black_box, spin_loop};
use std::io::{Read, Write};
use std::thread::yield_now;
use std::time::{Duration, Instant};

pub(crate) type Anyhow<T> = Result<T, Box<dyn Error>>;

/// What a call or a result carries. The caller's last call carries [`END`].
pub(crate) trait Message: ZeroCopySend + Debug + Copy + 'static {
    fn marked(mark: u8) -> Self;
    fn mark(&self) -> u8;
}

const END: u8 = 0xff;
const MARK: u8 = 0x5a;

impl Message for u64 {
    fn marked(mark: u8) -> Self {
        mark.into()
    }
    fn mark(&self) -> u8 {
        *self as u8
    }
}

impl Message for [u8; 1440] {
    fn marked(mark: u8) -> Self {
        [mark; 1440]
    }
    fn mark(&self) -> u8 {
        self[0]
    }
}

type Service<Call, Answer> = PortFactory<ipc::Service, Call, (), Answer, ()>;

fn service<C: Message, R: Message>(node: &Node<ipc::Service>, name: &str) -> Anyhow<Service<C, R>> {
    Ok(node.service_builder(&name.try_into()?).request_response::<C, R>().open_or_create()?)
}

/// What one end of a call needs to sleep, and to wake the other.
struct Bells {
    waiting: Waiting,
    own: Option<Listener<ipc::Service>>,
    other: Option<Notifier<ipc::Service>>,
}

impl Bells {
    fn new(node: &Node<ipc::Service>, waiting: Waiting, own: &str, other: &str) -> Anyhow<Self> {
        if waiting != Waiting::Event {
            return Ok(Bells { waiting, own: None, other: None });
        }
        let event = |name: &str| -> Anyhow<_> {
            Ok(node.service_builder(&name.try_into()?).event().open_or_create()?)
        };
        let own = event(own)?.listener_builder().create()?;
        Ok(Bells { waiting, own: Some(own), other: Some(event(other)?.notifier_builder().create()?) })
    }

    #[inline(always)]
    fn wait(&self) -> Anyhow<()> {
        match self.waiting {
            Waiting::Spin => spin_loop(),
            Waiting::Yield => yield_now(),
            Waiting::Event => {
                self.own.as_ref().expect("made for this wait").blocking_wait(|_| ())?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn ring(&self) -> Anyhow<()> {
        if let Some(other) = &self.other {
            other.notify()?;
        }
        Ok(())
    }
}

/// Serves calls until the last. Says on standard output when it is ready.
pub(crate) fn serve<C: Message, R: Message>(name: &str, waiting: Waiting) -> Anyhow<()> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let service = service::<C, R>(&node, name)?;
    let server = service.server_builder().create()?;
    let bells = Bells::new(&node, waiting, &format!("{name}/calls"), &format!("{name}/answers"))?;
    println!("ready");
    // The caller has opened its own ports when it answers.
    std::io::stdin().read_exact(&mut [0])?;
    loop {
        let Some(call) = server.receive()? else {
            bells.wait()?;
            continue;
        };
        let mark = black_box(call.payload()).mark();
        call.loan_uninit()?.write_payload(R::marked(MARK)).send()?;
        bells.ring()?;
        if mark == END {
            return Ok(());
        }
    }
}

/// Calls `calls` times after a twentieth as many that do not count, and returns the nanoseconds of each.
pub(crate) fn call<C: Message, R: Message>(
    name: &str,
    waiting: Waiting,
    calls: usize,
    ready: &mut impl Write,
) -> Anyhow<Vec<u64>> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let service = service::<C, R>(&node, name)?;
    let client = service.client_builder().create()?;
    let bells = Bells::new(&node, waiting, &format!("{name}/answers"), &format!("{name}/calls"))?;
    ready.write_all(b"\n")?;
    let argument = black_box(C::marked(MARK));
    let mut result = R::marked(0);
    let mut once = |argument: C| -> Anyhow<()> {
        let answers = client.loan_uninit()?.write_payload(argument).send()?;
        bells.ring()?;
        loop {
            if let Some(answer) = answers.receive()? {
                // Into the caller's own memory, where a result belongs.
                result = *answer.payload();
                black_box(&result);
                return Ok(());
            }
            bells.wait()?;
        }
    };
    let warm_until = Instant::now() + Duration::from_millis(20);
    while Instant::now() < warm_until {
        once(argument)?;
    }
    let mut times = Vec::with_capacity(calls);
    let mut before = Instant::now();
    for _ in 0..calls {
        once(argument)?;
        let after = Instant::now();
        times.push((after - before).as_nanos() as u64);
        before = after;
    }
    once(C::marked(END))?;
    Ok(times)
}
