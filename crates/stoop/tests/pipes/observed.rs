//! Calls with pipes and what stands around calls: interceptors of the server, and metadata.

use super::*;
use std::thread;
use stoop::error::Refusal;
use stoop::intercept::{After, Before, CallInfo, Ended, Intercept};
use stoop::{AnswerMetadata, Metadata, Ran};

claims! { [
    a_call_with_pipes_passes_interceptors_that_decide_at_once_or_later
    a_call_with_pipes_that_is_refused_later_does_not_run
    a_call_with_pipes_carries_metadata_and_its_result_brings_some
] }

/// Decides later, by the name of the procedure, and notes how calls end.
struct Late(Bench);

impl Intercept for Late {
    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        let (reply, decision) = stoop::deferred();
        let is_denied = call.procedure() == "echo";
        let decide = move || match is_denied {
            true => reply.send(Before::Refuse(Refusal::denied("no echo"))),
            false => reply.send(Before::Go),
        };
        thread::spawn(decide);
        Before::Later(decision)
    }

    fn after(&self, call: &CallInfo<'_>, ended: &Ended<'_>) -> After {
        self.0.note((call.procedure(), ended.ran()));
        After::Return
    }
}

/// Lets all go on, and notes how calls end.
struct Log(Bench);

impl Intercept for Log {
    fn after(&self, call: &CallInfo<'_>, ended: &Ended<'_>) -> After {
        self.0.note(("log", call.procedure(), ended.ran()));
        After::Return
    }
}

fn observed(transport: &str) -> (RunningServer, Bench, WorksClient) {
    let bench = Bench::default();
    let server = Server::new().export(WorksServer::new(bench.clone()));
    let server = server.interceptor(Log(bench.clone())).interceptor(Late(bench.clone()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = WorksClient::bind(&server.uris()[0]).unwrap();
    (server, bench, client)
}

fn a_call_with_pipes_passes_interceptors_that_decide_at_once_or_later(transport: &str) {
    let (_server, bench, client) = observed(transport);
    let (call, numbers) = client.count(1, 4);
    assert_eq!(numbers.collect::<Result<Vec<_>, _>>().unwrap(), [1, 2, 3]);
    assert_eq!(call.wait().unwrap(), 3);
    let (call, parts) = client.put(1000);
    parts.send(&[7; 10]).unwrap();
    parts.finish();
    assert!(matches!(call.wait(), Ok(10)));
    let both =
        |procedure| [format!("{:?}", (procedure, Ran::Yes)), format!("{:?}", ("log", procedure, Ran::Yes))];
    assert_eq!(bench.noted(), [both("count"), both("put")].concat());
}

fn a_call_with_pipes_that_is_refused_later_does_not_run(transport: &str) {
    let (_server, _, client) = observed(transport);
    let (call, _texts, mut out) = client.echo();
    assert!(out.recv().is_err());
    let why = call.wait().unwrap_err();
    assert_eq!((why.ran(), why.to_string().contains("no echo")), (Ran::No, true), "{why}");
}

fn a_call_with_pipes_carries_metadata_and_its_result_brings_some(transport: &str) {
    let (_server, bench, client) = works(transport);
    let answer = AnswerMetadata::new();
    let client = client.with_metadata(Metadata::new().set("tenant", b"blue")).with_answer_metadata(&answer);
    let (call, mut numbers) = client.watch(7);
    assert_eq!(numbers.recv().unwrap(), Some(7));
    let (sender, reply) = bench.watcher();
    sender.finish();
    reply.set_answer_metadata(Metadata::new().set("shelf", b"north"));
    reply.send(Ok(1)).unwrap();
    assert!(matches!(call.wait(), Ok(1)));
    assert_eq!(answer.take().get("shelf"), Some(&b"north"[..]));
}
