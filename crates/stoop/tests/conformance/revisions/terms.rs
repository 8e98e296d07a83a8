//! What a server says of a procedure holds for all of its forms together.

use super::*;
use stoop::account::AccountOptions;
use stoop::{Priority, ProcedureOptions};

claims! { remote: [
    limits_accounts_and_lists_of_callers_count_all_forms_of_a_procedure
] }

mod old {
    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Ticket {
        pub number: u32,
    }

    #[stoop::interface]
    pub(crate) trait Office {
        fn wait(&self, ticket: Ticket) -> u32;
        fn denied(&self, ticket: Ticket);
        fn ping(&self);
    }
}

mod new {
    #[derive(Clone, Debug, PartialEq, stoop::Data)]
    pub(crate) struct Ticket {
        pub number: u32,
        #[stoop(since = 1)]
        pub urgent: bool,
    }

    #[stoop::interface(revision = 1)]
    pub(crate) trait Office {
        fn wait(&self, ticket: Ticket) -> u32;
        fn denied(&self, ticket: Ticket);
        fn ping(&self);
    }
}

struct Desk(Gate);

impl new::Office for Desk {
    fn wait(&self, ticket: new::Ticket) -> u32 {
        self.0.pass();
        ticket.number
    }
    fn denied(&self, _: new::Ticket) {}
    fn ping(&self) {}
}

fn limits_accounts_and_lists_of_callers_count_all_forms_of_a_procedure(transport: &str) {
    let gate = Gate::default();
    let _open = gate.open_on_drop();
    let server = Server::new()
        .export(new::OfficeServer::new(Desk(gate.clone())))
        .procedure("Office", "wait", ProcedureOptions::new().at_once(1).priority(Priority::Low))
        .callers("Office.denied", ["nobody of that name"])
        .account(AccountOptions::new())
        .listen_there(&address(transport))
        .unwrap()
        .start()
        .unwrap();
    let uri = &server.uris()[0];
    let older = old::OfficeClient::bind_with(uri, &patient(transport)).unwrap();
    let newer = new::OfficeClient::bind_with(uri, &patient(transport)).unwrap();

    // One of both runs, whichever form its caller speaks.
    let first = older.begin().wait(old::Ticket { number: 1 });
    gate.await_inside(1);
    let second = newer.begin().wait(new::Ticket { number: 2, urgent: true });
    eventually(|| server.counters().queue.waiting == 1);
    let third = older.begin().wait(old::Ticket { number: 3 });
    eventually(|| server.counters().queue.waiting == 2);
    // Calls of another procedure pass them.
    older.ping().unwrap();
    newer.ping().unwrap();
    assert_eq!((gate.inside(), server.counters().queue.waiting), (1, 2));
    gate.open();
    assert_eq!((first.wait().unwrap(), second.wait().unwrap(), third.wait().unwrap()), (1, 2, 3));

    let account = server.account();
    let waits: Vec<_> = account.procedures.iter().filter(|each| each.name == "wait").collect();
    let counted = waits.iter().map(|each| (each.calls, each.older.as_slice())).collect::<Vec<_>>();
    assert_eq!(counted, [(3, &[(0, 2)][..])]);

    for denied in
        [older.denied(old::Ticket { number: 4 }), newer.denied(new::Ticket { number: 4, urgent: false })]
    {
        let error = denied.unwrap_err();
        let CallError::Refused(refusal, ..) = &error else { panic!("{error}") };
        assert_eq!((refusal.code, error.ran()), (RefusalCode::Denied, Ran::No));
    }
    server.shut_down();
}
