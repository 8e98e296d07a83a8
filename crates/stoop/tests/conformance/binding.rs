//! Bindings: the interfaces that a bind finds, and the errors that it gives.

use super::*;

claims! { remote: [
    a_server_may_have_more_procedures_than_its_caller_knows
    a_procedure_declared_differently_is_named_with_both_signatures
    an_interface_that_is_not_exported_is_answered_by_those_that_are
    an_address_in_use_is_explained
    a_binding_says_what_it_is
] }

mod where_ports_answer {
    use super::*;
    claims! { answering: [a_bind_to_an_address_without_listener_says_so] }
}

fn a_bind_to_an_address_without_listener_says_so(transport: &str) {
    let (server, _) = serve_at(&address(transport), Server::new());
    let uri = server.uris()[0].clone();
    drop(server);
    let error = LabClient::bind(&uri).unwrap_err();
    assert!(matches!(error, BindError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("is the server running"), "{error}");
}

mod newer {
    /// The same interface some time later: one procedure more, and one changed.
    #[stoop::interface]
    pub(super) trait Lab {
        fn added(&self);
        fn next(&self, number: u32) -> u32;
        fn sum(&self, bytes: &[u8]) -> u32;
    }
    pub(super) struct Bench;
    impl Lab for Bench {
        fn added(&self) {}
        fn next(&self, number: u32) -> u32 {
            number + 100
        }
        fn sum(&self, _bytes: &[u8]) -> u32 {
            0
        }
    }
    pub(super) mod bound {
        /// What an older caller knows of it.
        #[stoop::interface]
        pub(crate) trait Lab {
            fn next(&self, number: u32) -> u32;
        }
    }
}

fn newer_lab(transport: &str) -> RunningServer {
    let server = Server::new().export(newer::LabServer::new(newer::Bench));
    server.listen_there(&address(transport)).unwrap().start().unwrap()
}

fn a_server_may_have_more_procedures_than_its_caller_knows(transport: &str) {
    let server = newer_lab(transport);
    let client = newer::bound::LabClient::bind(&server.uris()[0]).unwrap();
    assert_eq!(client.next(1).unwrap(), 101);
}

fn a_procedure_declared_differently_is_named_with_both_signatures(transport: &str) {
    mod narrow {
        #[stoop::interface]
        pub(super) trait Lab {
            fn next(&self, number: u64) -> u32;
        }
    }
    let (server, _, _client) = lab(transport);
    let error = narrow::LabClient::bind(&server.uris()[0]).unwrap_err();
    let BindError::Mismatch { procedure, ours, theirs, .. } = &error else { panic!("{error}") };
    assert_eq!(*procedure, "next");
    assert!(ours.contains("u64") && theirs.contains("u32"), "{error}");

    // And one that the server does not have.
    let error = newer::LabClient::bind(&server.uris()[0]).unwrap_err();
    let BindError::Mismatch { procedure: "added", theirs, .. } = &error else { panic!("{error}") };
    assert!(theirs.is_empty(), "{error}");
}

fn an_interface_that_is_not_exported_is_answered_by_those_that_are(transport: &str) {
    #[stoop::interface]
    trait Kitchen {
        fn cook(&self);
    }
    let (server, _, _client) = lab(transport);
    let error = KitchenClient::bind(&server.uris()[0]).unwrap_err();
    assert!(matches!(error, BindError::NoSuchInterface { .. }), "{error}");
    assert!(error.to_string().contains("it exports Lab"), "{error}");
}

fn an_address_in_use_is_explained(transport: &str) {
    let (server, _, _client) = lab(transport);
    let error =
        Server::new().export(LabServer::new(Bench::default())).listen_there(&server.uris()[0]).unwrap_err();
    assert!(error.to_string().contains("another server"), "{error}");
}

fn a_binding_says_what_it_is(transport: &str) {
    let (server, _, client) = lab(transport);
    let description = client.binding().describe();
    let words = match transport {
        "udp" | "udp_shared" | "udp_sealed" => "packet exchange over UDP",
        "tcp" | "tcp_sealed" => "TCP",
        "unix" => "Unix",
        "ether" | "ether_sealed" => {
            "packet exchange over Ethernet (packet socket with a receive ring, with a checksum in each frame)"
        }
        "ether_xdp" => {
            "packet exchange over Ethernet (AF_XDP in native mode, copying, for one thread and begun calls, and packet sockets for further"
        }
        "ether_xdp_generic" => {
            "packet exchange over Ethernet (AF_XDP in generic mode, copying, for one thread and begun calls, and packet sockets for further"
        }
        "memory" => "packet exchange over memory",
        _ => "shared memory",
    };
    assert!(description.contains(words), "{description}");
    let place = server.uris()[0].trim_start_matches(|letter: char| letter.is_alphabetic());
    let place = place.trim_start_matches([':', '/', '@']);
    assert!(description.contains(place), "{description} does not tell {place}");
    assert!(!description.contains('\n'));
}
