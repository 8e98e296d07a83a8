//! The Test interface by capnp-rpc: `peer-capnp serve tcp|unix`, `peer-capnp call ADDRESS`.
//!
//! Its calls belong to one thread: all callers of a slice are tasks of that thread.

use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::{RpcSystem, VatNetwork, new_client, twoparty};
use end::{Calls, MARK, Procedure, Role, Slice, Times};
use std::error::Error;
use std::rc::Rc;
use test_capnp::test;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

capnp::generated_code!(mod test_capnp);

struct Exerciser;

impl test::Server for Exerciser {
    async fn null(self: Rc<Self>, _: test::NullParams, _: test::NullResults) -> Result<(), capnp::Error> {
        Ok(())
    }
    async fn put(self: Rc<Self>, _: test::PutParams, _: test::PutResults) -> Result<(), capnp::Error> {
        Ok(())
    }
    async fn get(
        self: Rc<Self>,
        call: test::GetParams,
        mut result: test::GetResults,
    ) -> Result<(), capnp::Error> {
        result.get().init_bytes(call.get()?.get_length()).fill(MARK);
        Ok(())
    }
}

/// The protocol over a connection of either kind.
fn network<Stream>(stream: Stream, side: Side) -> Box<dyn VatNetwork<Side>>
where
    Stream: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (reader, writer) = tokio::io::split(stream);
    let options = capnp::message::ReaderOptions::new();
    Box::new(twoparty::VatNetwork::new(reader.compat(), writer.compat_write(), side, options))
}

fn answer(network: Box<dyn VatNetwork<Side>>, test: &test::Client) {
    spawn_local(RpcSystem::new(network, Some(test.clone().client)));
}

async fn serve(transport: &str) -> Result<String, Box<dyn Error>> {
    let test: test::Client = new_client(Exerciser);
    if transport == "unix" {
        let path = std::env::temp_dir().join(format!("peer-capnp-{}", std::process::id()));
        let listener = UnixListener::bind(&path)?;
        spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                answer(network(stream, Side::Server), &test);
            }
        });
        return Ok(path.display().to_string());
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("a TCP socket has the option");
            answer(network(stream, Side::Server), &test);
        }
    });
    Ok(address)
}

async fn connect(address: &str) -> Result<test::Client, Box<dyn Error>> {
    let network = if address.starts_with('/') {
        network(UnixStream::connect(address).await?, Side::Client)
    } else {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        network(stream, Side::Client)
    };
    let mut system = RpcSystem::new(network, None);
    let test = system.bootstrap(Side::Server);
    spawn_local(system);
    Ok(test)
}

async fn call(test: &test::Client, procedure: Procedure, bytes: &[u8]) -> Result<(), capnp::Error> {
    match procedure {
        Procedure::Null => {
            test.null_request().send().promise.await?;
        }
        Procedure::Put(_) => {
            let mut put = test.put_request();
            put.get().set_bytes(bytes);
            put.send().promise.await?;
        }
        Procedure::Get(length) => {
            let mut get = test.get_request();
            get.get().set_length(length as u32);
            assert_eq!(get.send().promise.await?.get()?.get_bytes()?.len(), length);
        }
    }
    Ok(())
}

async fn caller(test: test::Client, slice: Slice) -> Times {
    let bytes = slice.bytes();
    let mut calls = Calls::begin(slice);
    while calls.go_on() {
        call(&test, slice.procedure, &bytes).await.expect("the server answers");
    }
    calls.times
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let local = LocalSet::new();
    match end::role() {
        (Role::Serve, words) => {
            let address = local.block_on(&runtime, serve(&words[0]))?;
            // The server answers in this thread; standard input ends in another.
            let (ended, end) = oneshot::channel();
            std::thread::spawn(move || {
                end::ready(&address);
                let _ = ended.send(());
            });
            local.block_on(&runtime, end)?;
        }
        (Role::Call(address), _) => {
            let test = local.block_on(&runtime, connect(&address))?;
            end::slices(|slice| {
                local.block_on(&runtime, end::tasks(slice, || spawn_local(caller(test.clone(), slice))))
            });
        }
    }
    Ok(())
}
