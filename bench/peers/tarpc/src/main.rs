//! The Test interface by tarpc: `peer-tarpc serve tcp|unix`, `peer-tarpc call ADDRESS`.

use end::{Calls, MARK, Procedure, Role, Slice, Times};
use futures::StreamExt;
use serde_bytes::ByteBuf;
use std::error::Error;
use std::time::{Duration, Instant};
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tarpc::{client, context, serde_transport};
use tokio::runtime::Runtime;

#[tarpc::service]
trait Test {
    async fn null();
    async fn put(bytes: ByteBuf);
    async fn get(length: u32) -> ByteBuf;
}

#[derive(Clone)]
struct Exerciser;

impl Test for Exerciser {
    async fn null(self, _: context::Context) {}
    async fn put(self, _: context::Context, _bytes: ByteBuf) {}
    async fn get(self, _: context::Context, length: u32) -> ByteBuf {
        ByteBuf::from(vec![MARK; length as usize])
    }
}

async fn serve(transport: &str) -> Result<String, Box<dyn Error>> {
    macro_rules! accept {
        ($incoming:expr) => {
            tokio::spawn(async move {
                while let Some(Ok(connection)) = $incoming.next().await {
                    let served = BaseChannel::with_defaults(connection).execute(Exerciser.serve());
                    tokio::spawn(served.for_each(|call| async {
                        tokio::spawn(call);
                    }));
                }
            })
        };
    }
    if transport == "unix" {
        let path = std::env::temp_dir().join(format!("peer-tarpc-{}", std::process::id()));
        let mut incoming = serde_transport::unix::listen(&path, Bincode::default).await?;
        accept!(incoming);
        return Ok(path.display().to_string());
    }
    let mut incoming = serde_transport::tcp::listen("127.0.0.1:0", Bincode::default).await?;
    let address = incoming.local_addr().to_string();
    accept!(incoming);
    Ok(address)
}

async fn connect(address: &str) -> Result<TestClient, Box<dyn Error>> {
    let options = client::Config::default();
    Ok(if address.starts_with('/') {
        TestClient::new(options, serde_transport::unix::connect(address, Bincode::default).await?).spawn()
    } else {
        TestClient::new(options, serde_transport::tcp::connect(address, Bincode::default).await?).spawn()
    })
}

async fn caller(test: TestClient, slice: Slice) -> Times {
    let bytes = ByteBuf::from(slice.bytes());
    let mut calls = Calls::begin(slice);
    while calls.go_on() {
        let mut context = context::current();
        context.deadline = Instant::now() + Duration::from_secs(10);
        match slice.procedure {
            Procedure::Null => test.null(context).await,
            Procedure::Put(_) => test.put(context, bytes.clone()).await,
            Procedure::Get(length) => {
                test.get(context, length as u32).await.map(|got| assert_eq!(got.len(), length))
            }
        }
        .expect("the server answers");
    }
    calls.times
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    match end::role() {
        (Role::Serve, words) => end::ready(&runtime.block_on(serve(&words[0]))?),
        (Role::Call(address), _) => {
            let test = runtime.block_on(connect(&address))?;
            end::slices(|slice| {
                runtime.block_on(end::tasks(slice, || tokio::spawn(caller(test.clone(), slice))))
            });
        }
    }
    Ok(())
}
