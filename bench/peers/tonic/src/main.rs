//! The Test interface by tonic: `peer-tonic serve tcp|unix`, `peer-tonic call ADDRESS`.

use end::{Calls, MARK, Procedure, Role, Slice, Times};
use proto::test_client::TestClient;
use proto::test_server::{Test, TestServer};
use proto::{Bytes, Length, Nothing};
use std::error::Error;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tonic::codegen::tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

mod proto {
    tonic::include_proto!("test");
}

struct Exerciser;

#[tonic::async_trait]
impl Test for Exerciser {
    async fn null(&self, _: Request<Nothing>) -> Result<Response<Nothing>, Status> {
        Ok(Response::new(Nothing {}))
    }
    async fn put(&self, _: Request<Bytes>) -> Result<Response<Nothing>, Status> {
        Ok(Response::new(Nothing {}))
    }
    async fn get(&self, length: Request<Length>) -> Result<Response<Bytes>, Status> {
        Ok(Response::new(Bytes { bytes: vec![MARK; length.get_ref().length as usize] }))
    }
}

async fn serve(transport: &str) -> Result<String, Box<dyn Error>> {
    let router = Server::builder().add_service(TestServer::new(Exerciser));
    if transport == "unix" {
        let path = std::env::temp_dir().join(format!("peer-tonic-{}", std::process::id()));
        let incoming = UnixListenerStream::new(UnixListener::bind(&path)?);
        tokio::spawn(router.serve_with_incoming(incoming));
        return Ok(format!("unix:{}", path.display()));
    }
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    let address = format!("http://{}", incoming.local_addr()?);
    tokio::spawn(router.serve_with_incoming(incoming));
    Ok(address)
}

async fn caller(mut test: TestClient<Channel>, slice: Slice) -> Times {
    let bytes = slice.bytes();
    let mut calls = Calls::begin(slice);
    while calls.go_on() {
        match slice.procedure {
            Procedure::Null => test.null(Nothing {}).await.map(drop),
            Procedure::Put(_) => test.put(Bytes { bytes: bytes.clone() }).await.map(drop),
            Procedure::Get(length) => test
                .get(Length { length: length as u32 })
                .await
                .map(|got| assert_eq!(got.get_ref().bytes.len(), length)),
        }
        .expect("the server answers");
    }
    calls.times
}

async fn connect(address: String) -> Result<TestClient<Channel>, Box<dyn Error>> {
    Ok(TestClient::new(Endpoint::from_shared(address)?.tcp_nodelay(true).connect().await?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    match end::role() {
        (Role::Serve, words) => end::ready(&runtime.block_on(serve(&words[0]))?),
        (Role::Call(address), _) => {
            let test = runtime.block_on(connect(address))?;
            end::slices(|slice| {
                runtime.block_on(end::tasks(slice, || tokio::spawn(caller(test.clone(), slice))))
            });
        }
    }
    Ok(())
}
