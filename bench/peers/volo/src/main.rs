//! The Test interface by volo-thrift: `peer-volo serve tcp|unix`, `peer-volo call ADDRESS`.

use end::{Calls, MARK, Procedure, Role, Slice, Times};
use generated::test::{Test, TestClient, TestClientBuilder, TestServer};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Runtime;
use volo::net::Address;
use volo::net::incoming::DefaultIncoming;
use volo_thrift::{Bytes, ServerError};

mod generated {
    include!(concat!(env!("OUT_DIR"), "/volo_gen.rs"));
    pub use volo_gen::*;
}

struct Exerciser;

impl Test for Exerciser {
    async fn null(&self) -> Result<(), ServerError> {
        Ok(())
    }
    async fn put(&self, _bytes: Bytes) -> Result<(), ServerError> {
        Ok(())
    }
    async fn get(&self, length: i32) -> Result<Bytes, ServerError> {
        Ok(vec![MARK; length as usize].into())
    }
}

/// A listener of this kind and its address.
async fn listen(transport: &str) -> Result<(DefaultIncoming, String), Box<dyn Error>> {
    if transport == "unix" {
        let path = std::env::temp_dir().join(format!("peer-volo-{}", std::process::id()));
        return Ok((UnixListener::bind(&path)?.into(), path.display().to_string()));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    Ok((listener.into(), address))
}

fn parsed(address: &str) -> Result<Address, Box<dyn Error>> {
    if address.starts_with('/') {
        return Ok(Address::from(std::os::unix::net::SocketAddr::from_pathname(address)?));
    }
    Ok(Address::from(address.parse::<SocketAddr>()?))
}

async fn caller(test: TestClient, slice: Slice) -> Times {
    let bytes = Bytes::from(slice.bytes());
    let mut calls = Calls::begin(slice);
    while calls.go_on() {
        match slice.procedure {
            Procedure::Null => test.null().await,
            Procedure::Put(_) => test.put(bytes.clone()).await,
            Procedure::Get(length) => test.get(length as i32).await.map(|got| assert_eq!(got.len(), length)),
        }
        .expect("the server answers");
    }
    calls.times
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    match end::role() {
        (Role::Serve, words) => {
            let (listener, address) = runtime.block_on(listen(&words[0]))?;
            runtime.spawn(async { TestServer::new(Exerciser).run(listener).await });
            end::ready(&address);
        }
        (Role::Call(address), _) => {
            let _inside = runtime.enter();
            let test = TestClientBuilder::new("test")
                .address(parsed(&address)?)
                .rpc_timeout(Some(Duration::from_secs(10)))
                .build();
            end::slices(|slice| {
                runtime.block_on(end::tasks(slice, || tokio::spawn(caller(test.clone(), slice))))
            });
        }
    }
    Ok(())
}
