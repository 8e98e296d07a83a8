//! Addresses, and what a bind finds there.

use super::*;

#[test]
fn a_unix_socket_with_a_file_works_and_a_stale_file_is_replaced() {
    let path = std::env::temp_dir().join(format!("stoop-test-{}.sock", std::process::id()));
    let uri = format!("unix:{}", path.display());
    // What a server that was killed leaves behind: a socket's file, and nobody behind it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let (server, _) = serve_at(&uri, Server::new());
    let client = LabClient::bind(&uri).unwrap();
    assert_eq!(client.next(1).unwrap(), 2);
    let taken = Server::new().export(LabServer::new(Bench::default())).listen(&uri).unwrap_err();
    assert!(taken.to_string().contains("another server"), "{taken}");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn where_nobody_listens_a_bind_says_so() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for uri in [format!("tcp://{free}"), unix_name(), "unix:/nonexistent/socket".into()] {
        let error = LabClient::bind(&uri).unwrap_err();
        assert!(matches!(error, BindError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("nobody listens"), "{error}");
    }
}

#[test]
fn where_something_else_listens_a_bind_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp://{}", listener.local_addr().unwrap());
    let other = thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        stream.write_all(b"220 mail.example.org ESMTP, at your service, whatever you may want\r\n").unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
        // Then one that says nothing.
        let mut silent = listener.accept().unwrap().0;
        let _ = silent.read_to_end(&mut Vec::new());
    });
    let error = LabClient::bind(&uri).unwrap_err();
    assert!(matches!(error, BindError::Protocol { .. }), "{error}");
    let options = BindOptions::new().bind_timeout(Duration::from_millis(50));
    let error = LabClient::bind_with(&uri, &options).unwrap_err();
    assert!(matches!(error, BindError::NoAnswer { .. }), "{error}");
    other.join().unwrap();
}

mod other_versions {
    #[stoop::interface]
    pub trait Lab {
        fn next(&self, number: u64) -> u32;
    }

    #[stoop::interface]
    pub trait Kitchen {
        fn cook(&self);
    }
}

#[test]
fn a_procedure_declared_differently_is_named_with_both_signatures() {
    let (server, _, _client) = lab();
    let error = other_versions::LabClient::bind(&server.uris()[0]).unwrap_err();
    let BindError::Mismatch { procedure, ours, theirs, .. } = &error else { panic!("{error}") };
    assert_eq!(*procedure, "next");
    assert!(ours.contains("u64") && theirs.contains("u32"), "{error}");
}

#[test]
fn an_interface_that_is_not_exported_is_answered_by_those_that_are() {
    let (server, _, _client) = lab();
    let error = other_versions::KitchenClient::bind(&server.uris()[0]).unwrap_err();
    assert!(matches!(error, BindError::NoSuchInterface { .. }), "{error}");
    assert!(error.to_string().contains("Lab"), "{error}");
}

#[test]
fn an_address_in_use_is_explained() {
    let (server, _, _client) = lab();
    let error = Server::new().export(LabServer::new(Bench::default())).listen(&server.uris()[0]).unwrap_err();
    assert!(error.to_string().contains("another server"), "{error}");
}

#[test]
fn a_binding_says_what_it_is() {
    let (_server, _, client) = lab();
    let description = client.binding().describe();
    assert!(description.contains("TCP") && description.contains("127.0.0.1"), "{description}");
}
