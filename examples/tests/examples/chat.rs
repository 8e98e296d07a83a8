//! The chat: three clients, and a server that is killed and started again.

use crate::programs::{Server, example};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Stdio};

struct Client {
    process: Child,
    heard: BufReader<ChildStdout>,
}

impl Client {
    fn start(name: &str, uri: &str) -> Self {
        let mut command = example("chat-client");
        let command = command.args([name, uri]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the example starts");
        let heard = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, heard }
    }

    fn say(&mut self, text: &str) {
        writeln!(self.process.stdin.as_mut().expect("piped"), "{text}").expect("the client reads");
    }

    /// Reads what it has heard until that line.
    fn hears(&mut self, expected: &str) {
        let mut line = String::new();
        while line.trim_end() != expected {
            line.clear();
            let len = self.heard.read_line(&mut line).expect("it prints text");
            assert!(len > 0, "the client has ended before it heard {expected:?}");
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.process.kill().expect("our own process can be stopped");
        self.process.wait().expect("and waited for");
    }
}

#[test]
fn three_clients_join_again_when_their_server_was_killed_and_started_again() {
    for address in [
        "tcp://127.0.0.1:0".to_owned(),
        format!("unix:@chat-{}", std::process::id()),
        format!("shm:chat-{}", std::process::id()),
    ] {
        let server = Server::start("chat-server", &[&address]);
        let uri = server.uris[0].clone();
        let names = ["ann", "bob", "cid"];
        let mut clients = names.map(|name| Client::start(name, &uri));
        let mut chat = |text: &str| {
            for (client, name) in clients.iter_mut().zip(names) {
                client.hears(&format!("hall: {name} has come"));
            }
            for speaker in 0..3 {
                clients[speaker].say(text);
                clients.iter_mut().for_each(|client| client.hears(&format!("{}: {text}", names[speaker])));
            }
        };
        chat("before");
        drop(server); // by a signal that it cannot catch
        let _again = Server::start("chat-server", &[&uri]);
        chat("after");
    }
}
