//! The Test interface over a transport of Stoop: `peer-stoop serve URI`, `peer-stoop call ADDRESS`. With `block` behind them both ends
//! sleep while they wait; with `sealed` calls are encrypted, and both ends know each other by a key.

use end::{MARK, Procedure, Role, Slice, Times, repeat, slices_and_streams, threads};
use std::error::Error;
use stoop::{BindOptions, CallError, Security, Sender, Server, Waiting};

#[stoop::interface]
trait Test {
    fn null(&self);
    fn put(&self, bytes: &[u8]);
    fn get(&self, #[out] bytes: &mut [u8]);
    fn stream(&self, length: u32, items: Sender<[u8]>);
}

struct Exerciser;

impl Test for Exerciser {
    fn null(&self) {}
    fn put(&self, _bytes: &[u8]) {}
    fn get(&self, bytes: &mut [u8]) {
        bytes.fill(MARK);
    }
    fn stream(&self, length: u32, items: Sender<[u8]>) {
        let item = vec![MARK; length as usize];
        while items.send(&item).is_ok() {}
    }
}

/// Of both ends: the server makes the key.
fn security(is_sealed: bool) -> Result<Security, Box<dyn Error>> {
    if !is_sealed {
        return Ok(Security::none());
    }
    let path = std::env::temp_dir().join("peer-stoop-key");
    if !path.exists() {
        Security::generate_key(&path)?;
    }
    Ok(Security::key_file(&path)?)
}

fn serve(uri: &str, waiting: Waiting, security: Security) -> Result<(), Box<dyn Error>> {
    let server = Server::new().export(TestServer::new(Exerciser)).waiting(waiting).security(security);
    let server = server.listen(uri)?.start()?;
    end::ready(&server.uris()[0].to_string());
    Ok(())
}

fn call(test: &TestClient, procedure: Procedure, bytes: &mut [u8]) -> Result<(), CallError> {
    match procedure {
        Procedure::Null => test.null(),
        Procedure::Put(_) => test.put(bytes),
        Procedure::Get(_) => test.get(bytes),
    }
}

fn receive(test: &TestClient, slice: Slice) -> Times {
    let length = slice.bytes().len();
    let (_call, mut items) = test.stream(length as u32);
    repeat(slice, || {
        let item = items.recv_with(|item| assert_eq!(item.len(), length));
        item.expect("the server answers").expect("it sends without an end");
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let (role, words) = end::role();
    let blocks = words.last().is_some_and(|word| word == "block");
    let waiting = if blocks { Waiting::Block } else { Waiting::Adaptive };
    let security = security(words.last().is_some_and(|word| word == "sealed"))?;
    match role {
        Role::Serve => serve(&words[0], waiting, security)?,
        Role::Call(uri) => {
            let options = BindOptions::new().waiting(waiting).security(security);
            let test = TestClient::bind_with(&*uri, &options)?;
            let calls = |slice: Slice| {
                threads(slice, || {
                    let (test, mut bytes) = (&test, slice.bytes());
                    move || call(test, slice.procedure, &mut bytes).expect("the server answers")
                })
            };
            slices_and_streams(calls, |slice| receive(&test, slice));
        }
    }
    Ok(())
}
