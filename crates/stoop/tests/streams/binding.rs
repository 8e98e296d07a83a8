//! Addresses, and what a bind finds there.

use super::*;

#[test]
fn a_bind_to_an_address_without_listener_says_so() {
    let free = TcpListener::bind(format!("{}:0", loopback::address())).unwrap().local_addr().unwrap();
    for uri in [format!("tcp://{free}"), unix_name(), "unix:/nonexistent/socket".into()] {
        let error = LabClient::bind(&uri).unwrap_err();
        assert!(matches!(error, BindError::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("no server listens"), "{error}");
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
