//! The Test interface by tonic: `peer-tonic serve tcp|unix`, `peer-tonic call ADDRESS`. With `sealed` behind them both ends have TLS by
//! rustls, and know each other by certificates.

use end::{Calls, MARK, Procedure, Role, Slice, Times};
use proto::test_client::TestClient;
use proto::test_server::{Test, TestServer};
use proto::{Bytes, Length, Nothing};
use std::error::Error;
use std::iter::RepeatWith;
use std::path::PathBuf;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tonic::codegen::tokio_stream;
use tonic::codegen::tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

mod proto {
    tonic::include_proto!("test");
}

struct Exerciser;

type ItemOf = Box<dyn FnMut() -> Result<Bytes, Status> + Send>;

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
    type StreamStream = tokio_stream::Iter<RepeatWith<ItemOf>>;
    async fn stream(&self, length: Request<Length>) -> Result<Response<Self::StreamStream>, Status> {
        let length = length.get_ref().length as usize;
        let item: ItemOf = Box::new(move || Ok(Bytes { bytes: vec![MARK; length] }));
        Ok(Response::new(tokio_stream::iter(std::iter::repeat_with(item))))
    }
}

/// The name that the certificate has.
const NAME: &str = "localhost";

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("peer-tonic.{name}"))
}

/// Makes the certificate that both ends have and trust.
fn make_certificate() -> Result<(), Box<dyn Error>> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    std::fs::write(file("pem"), made.cert.pem())?;
    Ok(std::fs::write(file("key"), made.signing_key.serialize_pem())?)
}

fn certificate() -> Result<(Certificate, Identity), Box<dyn Error>> {
    let (chain, key) = (std::fs::read(file("pem"))?, std::fs::read(file("key"))?);
    Ok((Certificate::from_pem(&chain), Identity::from_pem(chain, key)))
}

async fn serve(transport: &str, is_sealed: bool) -> Result<String, Box<dyn Error>> {
    let mut server = Server::builder();
    if is_sealed {
        make_certificate()?;
        let (trusted, own) = certificate()?;
        server = server.tls_config(ServerTlsConfig::new().identity(own).client_ca_root(trusted))?;
    }
    let router = server.add_service(TestServer::new(Exerciser));
    if transport == "unix" {
        let path = std::env::temp_dir().join(format!("peer-tonic-{}", std::process::id()));
        let incoming = UnixListenerStream::new(UnixListener::bind(&path)?);
        tokio::spawn(router.serve_with_incoming(incoming));
        return Ok(format!("unix:{}", path.display()));
    }
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
    let scheme = if is_sealed { "https" } else { "http" };
    let address = format!("{scheme}://{}", incoming.local_addr()?);
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

async fn receive(mut test: TestClient<Channel>, slice: Slice) -> Times {
    let length = slice.bytes().len();
    let items = test.stream(Length { length: length as u32 }).await.expect("the server answers");
    let mut items = items.into_inner();
    let mut calls = Calls::begin(slice);
    while calls.go_on() {
        let item = items.message().await.expect("the server answers").expect("it sends without an end");
        assert_eq!(item.bytes.len(), length);
    }
    calls.times
}

async fn connect(address: String) -> Result<TestClient<Channel>, Box<dyn Error>> {
    let is_sealed = address.starts_with("https");
    let mut endpoint = Endpoint::from_shared(address)?.tcp_nodelay(true);
    if is_sealed {
        let (trusted, own) = certificate()?;
        let config = ClientTlsConfig::new().ca_certificate(trusted).identity(own).domain_name(NAME);
        endpoint = endpoint.tls_config(config)?;
    }
    Ok(TestClient::new(endpoint.connect().await?))
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    match end::role() {
        (Role::Serve, words) => {
            let is_sealed = words.get(1).is_some_and(|word| word == "sealed");
            end::ready(&runtime.block_on(serve(&words[0], is_sealed))?);
        }
        (Role::Call(address), _) => {
            let test = runtime.block_on(connect(address))?;
            let calls =
                |slice| runtime.block_on(end::tasks(slice, || tokio::spawn(caller(test.clone(), slice))));
            let items = |slice| runtime.block_on(runtime.spawn(receive(test.clone(), slice)));
            end::slices_and_streams(calls, |slice| items(slice).expect("no caller panics"));
        }
    }
    Ok(())
}
