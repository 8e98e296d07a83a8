//! Calls of a program that are taken apart into their steps, at the caller and at the server.

#[path = "harness/mod.rs"]
mod harness;

use crate::harness::transports;
use std::time::{Duration, Instant};
use stoop::account::{AccountOptions, ProcedureSteps, StoopAccountClient};
use stoop::{BindOptions, Data, RunningServer, Server};
use stoop_marshal::{DecodeError, Description, Layout, Reader, Writer};

#[stoop::interface]
trait Work {
    fn echo(&self, number: u64) -> u64;
    fn last_for(&self, us: u64);
    /// The result is written and read as the argument says.
    fn turn(&self, slow: &Slow) -> Slow;
}

/// Microseconds that it takes to write it and to read it, and then those of the result.
struct Slow([u64; 4]);

impl Data for Slow {
    const LAYOUT: Layout = Vec::<u64>::LAYOUT;

    fn encode(&self, writer: &mut Writer<'_>) {
        spin(self.0[0]);
        self.0.to_vec().encode(writer);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let us: [u64; 4] = Vec::decode(reader)?.try_into().expect("this program writes four");
        spin(us[1]);
        Ok(Self(us))
    }

    fn describe(description: &mut Description) {
        Vec::<u64>::describe(description);
    }
}

fn spin(us: u64) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(us) {
        std::hint::spin_loop();
    }
}

struct Worker;

impl Work for Worker {
    fn echo(&self, number: u64) -> u64 {
        number
    }

    fn last_for(&self, us: u64) {
        spin(us);
    }

    fn turn(&self, slow: &Slow) -> Slow {
        let [_, _, write, read] = slow.0;
        Slow([write, read, 0, 0])
    }
}

const TRANSPORTS: [&str; 4] = ["udp", "tcp", "unix", "shm"];

fn serve(transport: &str, options: AccountOptions) -> (RunningServer, String) {
    let server = Server::new().export(WorkServer::new(Worker)).account(options);
    let server = server.listen(&transports::address(transport)).unwrap().start().unwrap();
    let uri = server.uris()[0].clone();
    (server, uri)
}

fn bind(uri: &str, options: AccountOptions) -> WorkClient {
    WorkClient::bind_with(uri, &BindOptions::new().account(options)).unwrap()
}

fn of(steps: &[ProcedureSteps], procedure: &str) -> ProcedureSteps {
    let found = steps.iter().find(|steps| steps.procedure == procedure);
    found.unwrap_or_else(|| panic!("{procedure} is not among {steps:?}")).clone()
}

#[test]
fn the_steps_of_a_call_are_told_by_caller_and_server_over_each_transport() {
    for transport in TRANSPORTS {
        let all = AccountOptions::new().steps_share(1);
        let (_server, uri) = serve(transport, all.clone());
        let client = bind(&uri, all);
        (0..200).for_each(|number| assert_eq!(client.echo(number).unwrap(), number));
        (0..5).for_each(|_| client.last_for(3_000).unwrap());
        client.echo(1).unwrap();
        let (own, told) = (client.binding().account().steps, StoopAccountClient::bind(&uri).unwrap());
        let servers = told.steps().unwrap();
        for steps in [of(&own, "echo"), of(&servers, "echo")] {
            assert!(steps.calls() >= 100, "{transport}: {steps}");
            let in_sum = steps.steps.iter().filter(|step| !step.is_beside);
            let sum: Duration = in_sum.map(|step| step.time.sum()).sum();
            assert_eq!(sum, steps.sum.sum(), "{transport}: {steps}");
        }
        let (own, servers) = (of(&own, "last_for"), of(&servers, "last_for"));
        let at_server = own.step("the server: from the call's arrival to its result").unwrap();
        let procedure = servers.step("the procedure").unwrap();
        for step in [at_server, procedure] {
            let median = step.time.quantile(0.5).unwrap();
            assert!(median >= Duration::from_micros(2_700), "{transport}: {step:?}\n{own}\n{servers}");
        }
        assert!(own.to_string().contains("Work.last_for"), "{own}");
    }
}

#[test]
fn the_time_that_a_stub_takes_is_in_the_step_of_that_stub() {
    let stubs = [
        "calling stub: store the arguments",
        "server stub: read the arguments",
        "server stub: write the result",
        "calling stub: read the result",
    ];
    for transport in TRANSPORTS {
        for (number, name) in stubs.into_iter().enumerate() {
            let all = AccountOptions::new().steps_share(1);
            let (_server, uri) = serve(transport, all.clone());
            let client = bind(&uri, all);
            let slow = Slow(std::array::from_fn(|each| if each == number { 3_000 } else { 0 }));
            for _ in 0..5 {
                client.turn(&slow).unwrap();
            }
            let mut steps = client.binding().account().steps;
            steps.extend(StoopAccountClient::bind(&uri).unwrap().steps().unwrap());
            let of_stub = steps.iter().filter(|steps| steps.procedure == "turn").find_map(|s| s.step(name));
            let median = of_stub.unwrap().time.quantile(0.5).unwrap();
            assert!(median >= Duration::from_micros(2_700), "{transport}, {name}: {steps:#?}");
        }
    }
}

#[test]
fn one_call_in_so_many_is_taken_apart() {
    for transport in TRANSPORTS {
        let (_server, uri) = serve(transport, AccountOptions::new());
        let client = bind(&uri, AccountOptions::new().steps_share(10));
        (0..1000).for_each(|number| assert_eq!(client.echo(number).unwrap(), number));
        let calls = of(&client.binding().account().steps, "echo").calls();
        // Tests of this process that run at the same time may ask for more.
        assert!((99..=1000).contains(&calls), "{transport}: {calls}");
        assert_eq!(
            StoopAccountClient::bind(&uri).unwrap().steps().unwrap(),
            [],
            "the server was not asked to"
        );
    }
}

#[test]
fn threads_of_one_binding_are_taken_apart_each_for_itself() {
    let all = AccountOptions::new().steps_share(2);
    let (_server, uri) = serve("udp", all.clone());
    let client = bind(&uri, all);
    std::thread::scope(|scope| {
        (0..4).for_each(|_| {
            scope.spawn(|| (0..200).for_each(|number| assert_eq!(client.echo(number).unwrap(), number)));
        });
    });
    let steps = of(&client.binding().account().steps, "echo");
    assert!(steps.calls() >= 4 * 99, "{steps}");
    let longest = steps.sum.quantile(1.0).unwrap();
    assert!(longest < Duration::from_secs(60), "no step mixes two calls: {longest:?}");
}

#[test]
fn a_binding_that_was_not_asked_to_takes_no_call_apart() {
    let (_server, uri) = serve("udp", AccountOptions::new());
    let client = bind(&uri, AccountOptions::new());
    (0..10).for_each(|number| assert_eq!(client.echo(number).unwrap(), number));
    assert_eq!(client.binding().account().steps, []);
}
