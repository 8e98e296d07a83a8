//! Messages that are longer than one side takes.

use super::*;

#[test]
fn arguments_too_large_are_not_sent() {
    let (_server, _) = serve_at("tcp://127.0.0.1:0", Server::new());
    let options = BindOptions::new().max_message(100_000);
    let client = LabClient::bind_with(&_server.uris()[0], &options).unwrap();
    let error = client.sum(&[0; 100_001]).unwrap_err();
    assert!(matches!(error, CallError::NotSent(SendError::Arguments(_))), "{error}");
    assert!(error.to_string().contains("100000"), "{error}");
    assert_eq!(client.sum(&[1; 99_000]).unwrap(), 99_000);
}

#[test]
fn a_call_larger_than_the_server_takes_is_refused_and_the_connection_lives_on() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new().max_message(100_000));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let refused = client.sum(&vec![0; 5_000_000]).unwrap_err();
    let CallError::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.code, RefusalCode::MessageTooLarge);
    assert!(refusal.detail.contains("100000"), "{refusal}");
    assert_eq!(client.sum(&[1; 99_000]).unwrap(), 99_000);
    let counters = server.counters();
    assert_eq!((counters.calls, counters.refused, counters.bindings), (1, 1, 1));
}

#[test]
fn a_result_larger_than_the_server_sends_is_a_failure_that_names_the_limit() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new().max_message(100_000));
    let client = LabClient::bind(&server.uris()[0]).unwrap();
    let error = client.bytes(200_000, 1).unwrap_err();
    let CallError::Failed(failure) = &error else { panic!("{error}") };
    assert_eq!(failure.code, FailureCode::ResultTooLarge);
    assert!(error.to_string().contains("100000"), "{error}");
    assert_eq!(client.bytes(90_000, 1).unwrap().len(), 90_000);
}

#[test]
fn a_result_larger_than_the_caller_takes_is_a_failure_and_the_connection_lives_on() {
    let (server, _) = serve_at("tcp://127.0.0.1:0", Server::new());
    let options = BindOptions::new().max_message(100_000);
    let client = LabClient::bind_with(&server.uris()[0], &options).unwrap();
    let error = client.bytes(3_000_000, 1).unwrap_err();
    let CallError::Failed(failure) = &error else { panic!("{error}") };
    assert_eq!(failure.code, FailureCode::ResultTooLarge);
    assert_eq!(client.bytes(90_000, 1).unwrap().len(), 90_000);
    assert_eq!(server.counters().bindings, 1);
}
