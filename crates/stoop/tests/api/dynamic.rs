//! Interfaces that are known at run time only, beside those of emitted stubs: neither end can tell the difference.

use crate::harness::transports::{ListenThere, address, all, is_there};
use std::sync::atomic::{AtomicU32, Ordering};
use stoop::dynamic::{self, Exported, Interface, NoResult, Procedure, Reader, Writer};
use stoop::error::{Failure, Refusal};
use stoop::reflection::{self, AskError, Reflection, StoopReflectionClient};
use stoop::{
    BindError, BindOptions, CallError, Error, FailureCode, InPlace, ProcedureOptions, Ran, Receiver,
    RefusalCode, Sender, Server,
};

/// A value with documentation.
///
/// Its second paragraph is not told.
#[derive(stoop::Data, Clone, Debug, Default, PartialEq)]
struct Point {
    /// To the right.
    x: f64,
    y: f64,
}

/// Every kind of procedure.
#[stoop::interface]
trait Kinds {
    /// Does nothing.
    fn null(&self);
    #[idempotent]
    fn divide(&self, by: i32) -> Result<i32, String>;
    fn fill(
        &self,
        text: &mut String,
        #[out] words: &mut [u16],
        list: &mut Vec<u8>,
        #[out] point: &mut Point,
    ) -> u8;
    fn brighten(&self, frame: &mut InPlace<u16>, by: u16);
    #[one_way]
    fn note(&self, count: u32);
    fn noted(&self) -> u32;
}

#[derive(Default)]
struct Lab {
    noted: AtomicU32,
}

impl Kinds for Lab {
    fn null(&self) {}
    fn divide(&self, by: i32) -> Result<i32, String> {
        100_i32.checked_div(by).ok_or_else(|| "divided by 0".into())
    }
    fn fill(&self, text: &mut String, words: &mut [u16], list: &mut Vec<u8>, point: &mut Point) -> u8 {
        text.push('!');
        words.fill(7);
        list.push(3);
        *point = Point { x: 1.0, y: 2.0 };
        9
    }
    fn brighten(&self, frame: &mut InPlace<u16>, by: u16) {
        for index in 0..frame.len() {
            frame.set(index, frame.get(index) + by);
        }
    }
    fn note(&self, count: u32) {
        self.noted.fetch_add(count, Ordering::Relaxed);
    }
    fn noted(&self) -> u32 {
        self.noted.load(Ordering::Relaxed)
    }
}

fn interface() -> Interface {
    let procedures = KindsClient::interface().procedures.iter().map(|procedure| {
        let known = Procedure::new(procedure.signature());
        if procedure.idempotent { known.idempotent() } else { known }
    });
    Interface::new("Kinds", procedures).unwrap()
}

/// The bytes of a result that are left.
fn rest(result: &mut Reader<'_>) -> Result<Vec<u8>, dynamic::DecodeError> {
    result.chunk(1, result.remaining()).map(<[u8]>::to_vec)
}

fn check_typed(client: &KindsClient) {
    client.null().unwrap();
    assert_eq!(client.divide(7).unwrap(), 14);
    assert!(matches!(client.divide(0), Err(Error::Application(why)) if why == "divided by 0"));
    let (mut text, mut words, mut list, mut point) = ("a".to_owned(), [0; 3], vec![1, 2], Point::default());
    assert_eq!(client.fill(&mut text, &mut words, &mut list, &mut point).unwrap(), 9);
    assert_eq!((text.as_str(), words, list, point), ("a!", [7; 3], vec![1, 2, 3], Point { x: 1.0, y: 2.0 }));
    let mut frame = client.in_place(3).unwrap();
    frame.write(0, &[1, 2, 3]);
    client.brighten(&mut frame, 10).unwrap();
    assert_eq!([0, 1, 2].map(|index| frame.get(index)), [11, 12, 13]);
    let before = client.noted().unwrap();
    client.note(5).unwrap();
    assert_eq!(client.noted().unwrap(), before + 5);
}

#[test]
fn calls_by_bytes_reach_stubs_and_calls_by_stubs_reach_bytes_over_every_transport() {
    for transport in all().filter(|transport| is_there(transport)) {
        let start = |server: Server| server.listen_there(&address(transport)).unwrap().start().unwrap();
        let lab = start(Server::new().export(KindsServer::new(Lab::default())));
        let client = dynamic::Client::bind(&lab.uris()[0], interface(), &BindOptions::new()).unwrap();
        let asked = Interface::ask(&lab.uris()[0], "Kinds", &BindOptions::new()).unwrap();
        assert!(asked.procedures().eq(interface().procedures()), "{transport}");

        client.call(0, |_| {}, |_| Ok(())).unwrap();
        let divided = |by: i32| {
            client
                .call(1, |arguments| arguments.value(&by), |result| result.value::<Result<i32, String>>())
                .unwrap()
        };
        assert_eq!((divided(7), divided(0)), (Ok(14), Err("divided by 0".into())));
        let begun = client.begin();
        let pending: Vec<_> = (1..5)
            .map(|by: i32| {
                begun.call(
                    1,
                    |arguments| arguments.value(&by),
                    |result| result.value::<Result<i32, String>>(),
                )
            })
            .collect();
        drop(begun);
        let results: Vec<_> = pending.into_iter().map(|call| call.wait().unwrap().unwrap()).collect();
        assert_eq!(results, [100, 50, 33, 25]);
        client.tell(4, |arguments| arguments.value(&2_u32)).unwrap();
        assert_eq!(client.call(5, |_| {}, |result| result.value::<u32>()).unwrap(), 2);
        let unread = client.call(5, |_| {}, |_| Ok(())).unwrap_err();
        assert!(matches!(unread, CallError::Peer(..)), "{unread}");
        let bad = client.call(1, |_| {}, rest).unwrap_err();
        assert!(
            matches!(&bad, CallError::Refused(why, ..) if why.code == RefusalCode::BadArguments),
            "{bad}"
        );

        // A proxy: it knows no type.
        let proxy = move |procedure: u16, arguments: &[u8], result: &mut Writer<'_>| {
            let write = |writer: &mut Writer<'_>| writer.scalars(arguments);
            if procedure == 4 {
                // The caller's next call may come to another thread of the proxy: it returns when this one has run.
                client.begin().call(procedure, write, |_| Ok(())).wait().expect("the server is there");
                return Ok(());
            }
            let bytes = client
                .call(procedure, write, rest)
                .map_err(|why| NoResult::Refused(Refusal::denied(why.to_string())))?;
            result.scalars(&bytes);
            Ok(())
        };
        let proxy = start(Server::new().export(dynamic::Exported::new(interface(), proxy)));
        check_typed(&KindsClient::bind(&proxy.uris()[0]).unwrap());
        check_typed(&KindsClient::bind(&lab.uris()[0]).unwrap());
    }
}

/// A procedure with a pipe each way.
#[stoop::interface]
trait Totals {
    /// Sends the sum so far for each number.
    fn sums(&self, start: u32, numbers: Receiver<u32>, sums: Sender<u32>) -> Result<u32, String>;
}

struct Sums;

impl Totals for Sums {
    fn sums(&self, start: u32, numbers: Receiver<u32>, sums: Sender<u32>) -> Result<u32, String> {
        let mut sum = start;
        for number in numbers {
            sum += number.map_err(|why| why.to_string())?;
            sums.send(&sum).map_err(|why| why.to_string())?;
        }
        Ok(sum)
    }
}

fn check_pipes(client: &TotalsClient) {
    let (call, numbers, mut sums) = client.sums(100);
    for (number, sum) in [(1, 101), (2, 103), (3, 106)] {
        numbers.send(&number).unwrap();
        assert_eq!(sums.recv().unwrap(), Some(sum));
    }
    numbers.finish();
    assert_eq!(sums.recv().unwrap(), None);
    assert_eq!(call.wait().unwrap(), 106);
    // A proxy passes the abort on to the procedure.
    let (call, numbers, _sums) = client.sums(7);
    drop(numbers);
    assert!(matches!(call.wait().unwrap_err(), Error::Application(_)));
}

#[test]
fn a_proxy_by_bytes_forwards_items_of_pipes_over_every_transport() {
    for transport in all().filter(|transport| is_there(transport)) {
        let start = |server: Server| server.listen_there(&address(transport)).unwrap().start().unwrap();
        let totals = start(Server::new().export(TotalsServer::new(Sums)));
        let asked = Interface::ask(&totals.uris()[0], "Totals", &BindOptions::new()).unwrap();
        let client = dynamic::Client::bind(&totals.uris()[0], asked, &BindOptions::new()).unwrap();
        let refused = |_: u16, _: &[u8], _: &mut Writer<'_>| -> Result<(), NoResult> {
            Err(NoResult::Refused(Refusal::denied("it has none without pipes")))
        };
        let forward = move |procedure: u16, arguments: &[u8], mut ends: dynamic::ServedEnds| {
            let (start, window) = {
                let mut arguments = Reader::new(arguments);
                (arguments.value::<u32>()?, arguments.value::<u64>()?)
            };
            let call = client.begin().call_with_pipes(
                procedure,
                |arguments, window| {
                    arguments.value(&start);
                    arguments.value(&window);
                },
                rest,
            );
            let (numbers, sums) = (ends.receiver::<[u8]>(), ends.sender::<[u8]>(window));
            let (to, from) = (call.sender.unwrap(), call.receiver.unwrap());
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for number in numbers {
                        // An abort here is one there.
                        let Ok(number) = number else { return };
                        if to.send(&number).is_err() {
                            return;
                        }
                    }
                    to.finish();
                });
                for sum in from.flatten() {
                    let _ = sums.send(&sum);
                }
            });
            call.pending.wait().map_err(|why| NoResult::Refused(Refusal::denied(why.to_string())))
        };
        let proxy = start(Server::new().export(Exported::new(asked, refused).with_pipes(forward)));
        check_pipes(&TotalsClient::bind(&totals.uris()[0]).unwrap());
        check_pipes(&TotalsClient::bind(&proxy.uris()[0]).unwrap());

        let without = start(Server::new().export(Exported::new(asked, refused)));
        let (call, ..) = TotalsClient::bind(&without.uris()[0]).unwrap().sums(1);
        let why = call.wait().unwrap_err();
        assert_eq!(why.ran(), Ran::No);
        assert!(why.to_string().contains("with_pipes"), "{why}");
    }
}

#[test]
fn an_export_by_bytes_says_whether_its_procedure_ran() {
    let interface = Interface::new("Outcomes", ["a()", "b()", "c()"].map(Procedure::new)).unwrap();
    let serve = |procedure: u16, arguments: &[u8], _: &mut Writer<'_>| match procedure {
        0 => Ok(Reader::new(arguments).value::<u8>().map(drop)?),
        1 => Err(NoResult::Refused(Refusal::denied("not now"))),
        _ => Err(NoResult::Failed(Failure {
            code: FailureCode::Abandoned,
            detail: "the other end is gone".into(),
        })),
    };
    for transport in ["local", "shm", "tcp", "udp"] {
        let server = Server::new().export(dynamic::Exported::new(interface, serve));
        let server = server.listen(&address(transport)).unwrap().start().unwrap();
        let client = dynamic::Client::bind(&server.uris()[0], interface, &BindOptions::new()).unwrap();
        let end = |procedure| client.call(procedure, |_| {}, |_| Ok(())).unwrap_err();
        assert_eq!([0, 1, 2].map(|number| end(number).ran()), [Ran::No, Ran::No, Ran::Yes], "{transport}");
        assert!(matches!(end(0), CallError::Refused(why, ..) if why.code == RefusalCode::BadArguments));
        assert!(end(1).to_string().contains("not now"));
        assert!(matches!(end(2), CallError::Failed(why, ..) if why.code == FailureCode::Abandoned));
    }
}

#[test]
fn an_interface_that_does_not_fit_is_not_bound() {
    let server = Server::new().export(KindsServer::new(Lab::default()));
    let server = server.listen(&address("local")).unwrap().listen(&address("tcp")).unwrap().start().unwrap();
    let other = Interface::new("Kinds", [Procedure::new("null(a: u8)")]).unwrap();
    for uri in server.uris() {
        let why = dynamic::Client::bind(uri, other, &BindOptions::new()).unwrap_err();
        assert!(matches!(why, BindError::Mismatch { procedure: "null", .. }), "{why}");
    }
}

#[test]
fn sequences_that_come_back_with_and_without_their_count_have_different_signatures() {
    let interface = KindsClient::interface();
    assert_eq!(
        interface.procedures[2].signature(),
        "fill(text: inout String, words: out [u16], list: inout whole [u8], point: out Point{x: f64, y: f64}) -> u8"
    );
}

fn lab(reflection: Reflection) -> Server {
    let limited = ProcedureOptions::new().at_once(3);
    Server::new()
        .export(KindsServer::new(Lab::default()))
        .procedure("Kinds", "divide", limited)
        .max_message(10_000)
        .reflection(reflection)
}

#[test]
fn a_server_tells_its_interfaces_and_documentation_within_the_machine_only() {
    for (transport, reflection, has_docs) in [
        ("unix", Reflection::Full, true),
        ("shm", Reflection::Full, true),
        ("local", Reflection::Full, true),
        ("tcp", Reflection::Full, false),
        ("udp", Reflection::Full, false),
        ("unix", Reflection::WithoutDocs, false),
    ] {
        let server = lab(reflection).listen(&address(transport)).unwrap().start().unwrap();
        let options = BindOptions::new();
        assert_eq!(reflection::interfaces(&server.uris()[0], &options).unwrap(), ["Kinds"]);
        let told = reflection::ask(&server.uris()[0], "Kinds", &options).unwrap();
        assert_eq!((told.max_message, told.total as usize), (10_000, told.procedures.len()));
        assert_eq!(told.procedures[1].signature, "divide(by: i32) -> Result<i32, String>");
        let marks: Vec<_> = told.procedures.iter().map(|each| (each.idempotent, each.at_once)).collect();
        assert_eq!(marks[..2], [(false, None), (true, Some(3))]);
        let docs = (told.docs.as_str(), told.procedures[0].docs.as_str());
        let types: Vec<_> = told.types.iter().map(|(item, docs)| (item.as_str(), docs.as_str())).collect();
        match has_docs {
            true => {
                assert_eq!(docs, ("Every kind of procedure.", "Does nothing."));
                assert_eq!(types, [("Point", "A value with documentation."), ("Point.x", "To the right.")]);
            }
            false => assert_eq!((docs, types.len()), (("", ""), 0), "{transport}"),
        }
        let unknown = reflection::ask(&server.uris()[0], "Other", &options).unwrap_err();
        assert!(matches!(&unknown, AskError::NoSuchInterface(all) if *all == ["Kinds"]), "{unknown}");
    }
}

#[test]
fn a_server_whose_reflection_is_off_tells_nothing() {
    for transport in ["udp", "tcp", "shm"] {
        let server = lab(Reflection::Off).listen(&address(transport)).unwrap().start().unwrap();
        let uri = &server.uris()[0];
        let why = reflection::interfaces(uri, &BindOptions::new()).unwrap_err();
        assert!(
            matches!(&why, AskError::Bind(BindError::NoSuchInterface { exported, .. }) if exported.is_empty())
        );
        assert!(why.to_string().contains("does not tell its interfaces"), "{why}");
        let other = Interface::new("Kinds", [Procedure::new("null(a: u8)")]).unwrap();
        let why = dynamic::Client::bind(uri, other, &BindOptions::new()).unwrap_err();
        assert!(matches!(why, BindError::Mismatch { theirs, .. } if theirs.is_empty()));
        check_typed(&KindsClient::bind(uri).unwrap());
    }
}

#[test]
fn an_interface_of_any_size_is_told_in_answers_of_a_bounded_size() {
    let long = "x".repeat(2000);
    let procedures = (0..600).map(|number| Procedure::new(format!("p{number}(a: {long})")));
    let interface = Interface::new("Long", procedures).unwrap();
    let server = Server::new().export(dynamic::Exported::new(interface, |_, _, _| Ok(())));
    let server = server.listen(&address("tcp")).unwrap().start().unwrap();
    let client = StoopReflectionClient::bind(&server.uris()[0]).unwrap();
    let page = client.describe("Long", 0).unwrap().unwrap();
    assert!(page.procedures.len() < 200 && page.total == 600);
    assert_eq!(client.describe("Long", u32::MAX).unwrap().unwrap().procedures, []);
    assert_eq!(client.describe(&long.repeat(500), 7).unwrap(), None);
    let all = reflection::ask(&server.uris()[0], "Long", &BindOptions::new()).unwrap();
    assert_eq!(all.procedures.len(), 600);
    assert!(Interface::ask(&server.uris()[0], "Long", &BindOptions::new()).is_ok());
}
