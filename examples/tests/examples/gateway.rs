//! Runs the gateway before its backend, as a browser sees it.

use crate::programs::{Server, example};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::thread;

struct Gateway {
    process: Child,
    address: String,
}

impl Gateway {
    fn start(backend: &str) -> Self {
        let mut command = example("gateway");
        let mut process = command
            .args([backend, "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("it prints text");
        let address = line.trim_end().strip_prefix("listening at http://").expect("it listens").to_owned();
        Self { process, address }
    }

    /// The status and the text of the answer to a request.
    fn ask(&self, method: &str, target: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(stream, "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head[9..12].parse().expect("a status"), text.to_owned())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.process.kill().expect("our own process can be stopped");
        self.process.wait().expect("and waited for");
    }
}

#[test]
fn a_request_waits_in_the_backend_for_the_next_bid() {
    let backend = Server::start("gateway-backend", &["tcp://127.0.0.1:0"]);
    let gateway = Gateway::start(&backend.uris[0]);
    assert_eq!(gateway.ask("POST", "/lamp?bidder=Ada&amount=300"), (201, "bid 1\n".into()));
    assert_eq!(gateway.ask("GET", "/lamp?after=0"), (200, "1 300 Ada\n".into()));
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..20).map(|_| scope.spawn(|| gateway.ask("GET", "/lamp?after=1"))).collect();
        assert_eq!(
            gateway.ask("POST", "/lamp?bidder=Bob&amount=200"),
            (409, "300 is offered already\n".into())
        );
        assert_eq!(gateway.ask("POST", "/lamp?bidder=Bob&amount=400"), (201, "bid 2\n".into()));
        for request in waiting {
            assert_eq!(request.join().expect("it is answered"), (200, "2 400 Bob\n".into()));
        }
    });
}

#[test]
fn a_request_for_a_backend_that_is_not_there_may_come_again() {
    let gateway = Gateway::start("udp://127.0.0.1:1");
    let (status, text) = gateway.ask("GET", "/lamp?after=0");
    assert_eq!(status, 503);
    assert!(text.contains("is the server running"), "{text}");
}
