//! The health that every server tells, whatever it exports.

use super::*;
use stoop::health::{Health, StoopHealthClient};

claims! { all: [
    every_server_tells_its_health
    a_server_that_shuts_down_tells_so_or_refuses
] }

fn every_server_tells_its_health(transport: &str) {
    let (server, _) = serve_at(&address(transport), Server::new());
    let client = StoopHealthClient::bind_with(&server.uris()[0], &patient(transport)).unwrap();
    client.ping().unwrap();
    assert_eq!(client.check("").unwrap(), Some(Health::Serving));
    server.health().set("Lab", Health::NotServing);
    assert_eq!(client.check("Lab").unwrap(), Some(Health::NotServing));
    assert_eq!(client.check("Other").unwrap(), None);
    let about = client.about().unwrap();
    assert_eq!((about.health, about.interfaces), (Health::Serving, vec![("Lab".into(), Health::NotServing)]));
    let (another, _) = serve_at(&address(transport), Server::new());
    let other = StoopHealthClient::bind_with(&another.uris()[0], &patient(transport)).unwrap();
    assert_ne!(other.about().unwrap().incarnation, about.incarnation);
    assert!(client.about().unwrap().up >= about.up);
}

fn a_server_that_shuts_down_tells_so_or_refuses(transport: &str) {
    let (server, gate, client) = lab(transport);
    let health = StoopHealthClient::bind_with(&server.uris()[0], &patient(transport)).unwrap();
    thread::scope(|scope| {
        let running = scope.spawn(|| client.wait());
        gate.await_inside(1);
        let stopped = scope.spawn(|| server.shut_down());
        eventually(|| match health.check("") {
            Ok(health) => health == Some(Health::ShuttingDown),
            Err(CallError::Refused(refusal, ..)) => refusal.code == RefusalCode::ShuttingDown,
            Err(CallError::NotSent(SendError::Closed, ..)) => transport == "local",
            Err(other) => panic!("{other}"),
        });
        gate.open();
        assert_eq!(running.join().unwrap().unwrap(), 7);
        stopped.join().unwrap();
    });
}
