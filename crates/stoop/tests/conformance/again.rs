//! Clients of a server of their own process that is shut down, and started again under its name.

use super::*;

claims! { local name: [
    a_client_calls_the_server_that_took_the_name_of_one_that_ended
    a_client_whose_server_has_ended_is_told_that_its_call_did_not_run
    a_client_does_not_call_a_server_of_another_interface_that_took_the_name
    threads_find_the_next_server_while_another_still_runs_in_the_last
] }

fn a_client_calls_the_server_that_took_the_name_of_one_that_ended(transport: &str) {
    let uri = address(transport);
    let (mut server, mut gate) = serve_at(&uri, Server::new());
    let client = LabClient::bind_with(&uri, &patient(transport)).unwrap();
    for _ in 0..3 {
        gate.open();
        assert_eq!((client.wait().unwrap(), client.begin().wait().wait().unwrap()), (7, 7));
        assert_eq!(gate.inside(), 2);
        drop(server);
        (server, gate) = serve_at(&uri, Server::new());
    }
    drop(server);
}

fn a_client_whose_server_has_ended_is_told_that_its_call_did_not_run(transport: &str) {
    let uri = address(transport);
    let (server, _) = serve_at(&uri, Server::new());
    let client = LabClient::bind_with(&uri, &patient(transport)).unwrap();
    assert_eq!(client.begin().next(1).wait().unwrap(), 2);
    drop(server);
    for error in [client.next(1).unwrap_err(), client.begin().next(1).wait().unwrap_err()] {
        assert!(matches!(error, CallError::NotSent(SendError::Closed, ..)), "{error}");
    }
}

fn a_client_does_not_call_a_server_of_another_interface_that_took_the_name(transport: &str) {
    #[stoop::interface]
    trait Kitchen {
        fn cook(&self);
    }
    struct Cold;
    impl Kitchen for Cold {
        fn cook(&self) {}
    }
    let uri = address(transport);
    let (server, _) = serve_at(&uri, Server::new());
    let client = LabClient::bind_with(&uri, &patient(transport)).unwrap();
    assert_eq!(client.begin().next(1).wait().unwrap(), 2);
    drop(server);
    loopback::await_free(&uri);
    let _kitchen =
        Server::new().export(KitchenServer::new(Cold)).listen_there(&uri).unwrap().start().unwrap();
    for error in [client.next(1).unwrap_err(), client.begin().next(1).wait().unwrap_err()] {
        let CallError::NotSent(SendError::Bind(why), ..) = error else { panic!("{error}") };
        assert!(matches!(*why, BindError::NoSuchInterface { .. }), "{why}");
    }
}

fn threads_find_the_next_server_while_another_still_runs_in_the_last(transport: &str) {
    let uri = address(transport);
    let (first, _) = serve_at(&uri, Server::new());
    let client = LabClient::bind_with(&uri, &patient(transport)).unwrap();
    drop(first);
    let (second, gate) = serve_at(&uri, Server::new());
    thread::scope(|scope| {
        let held = scope.spawn(|| client.wait());
        let opens = gate.open_on_drop();
        eventually(|| gate.inside() == 1 || held.is_finished());
        drop(second);
        let (_third, _) = serve_at(&uri, Server::new());
        let client = &client;
        let others = [1, 2, 3, 4, 5].map(|number| scope.spawn(move || client.next(number).unwrap()));
        assert_eq!(others.map(|other| other.join().unwrap()), [2, 3, 4, 5, 6]);
        drop(opens);
        assert_eq!(held.join().unwrap().unwrap(), 7);
    });
}
