//! The Test interface over a transport of Stoop: `peer-stoop serve URI`, `peer-stoop call ADDRESS`. With `block` behind them both ends
//! sleep while they wait.

use end::{MARK, Procedure, Role, slices, threads};
use std::error::Error;
use stoop::{BindOptions, CallError, Server, Waiting};

#[stoop::interface]
trait Test {
    fn null(&self);
    fn put(&self, bytes: &[u8]);
    fn get(&self, #[out] bytes: &mut [u8]);
}

struct Exerciser;

impl Test for Exerciser {
    fn null(&self) {}
    fn put(&self, _bytes: &[u8]) {}
    fn get(&self, bytes: &mut [u8]) {
        bytes.fill(MARK);
    }
}

fn serve(uri: &str, waiting: Waiting) -> Result<(), Box<dyn Error>> {
    let server = Server::new().export(TestServer::new(Exerciser)).waiting(waiting).listen(uri)?.start()?;
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

fn main() -> Result<(), Box<dyn Error>> {
    let (role, words) = end::role();
    let blocks = words.last().is_some_and(|word| word == "block");
    let waiting = if blocks { Waiting::Block } else { Waiting::Adaptive };
    match role {
        Role::Serve => serve(&words[0], waiting)?,
        Role::Call(uri) => {
            let test = TestClient::bind_with(&*uri, &BindOptions::new().waiting(waiting))?;
            slices(|slice| {
                threads(slice, || {
                    let (test, mut bytes) = (&test, slice.bytes());
                    move || call(test, slice.procedure, &mut bytes).expect("the server answers")
                })
            });
        }
    }
    Ok(())
}
