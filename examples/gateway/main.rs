//! A gateway: browsers speak HTTP to it, and it calls the auction (`cargo run --example gateway-backend`), which need not run yet:
//!
//! ```sh
//! cargo run --example gateway &
//! curl -X POST 'http://127.0.0.1:8406/lamp?bidder=Ada&amount=300'
//! curl 'http://127.0.0.1:8406/lamp?after=0'
//! ```
//!
//! A request for the next bid waits until there is one. It holds a task here and a task there, and no thread. A browser that goes away ends
//! its request, and so cancels the call. Arguments (after `--`): the address of the auction, and that for HTTP.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;
use stoop::{BindOptions, CallError, Ran};
use stoop_examples::auction::AuctionClient;
use tokio::net::TcpListener;

/// A browser is told that there is no news after so long.
const PATIENCE: Duration = Duration::from_secs(20);

type Answer = Result<Response<Full<Bytes>>, Infallible>;

fn say(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    Ok(response)
}

/// The answer to a request whose call has no result.
fn sorry(why: &CallError) -> Answer {
    // What has not run may be asked again.
    let status = match why.ran() {
        Ran::No => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_GATEWAY,
    };
    say(status, format!("{why}\n"))
}

async fn answer(auction: AuctionClient, request: Request<Incoming>) -> Answer {
    let thing = request.uri().path().trim_start_matches('/');
    let query = request.uri().query().unwrap_or_default();
    let options: HashMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    let number = |name| options.get(name).and_then(|value| value.parse::<u64>().ok());
    match (request.method(), options.get("bidder"), number("amount")) {
        (&Method::POST, Some(bidder), Some(amount)) => {
            let call = auction.begin().bid(thing, bidder, amount);
            match call.await {
                Ok(number) => say(StatusCode::CREATED, format!("bid {number}\n")),
                Err(stoop::Error::Application(low)) => {
                    say(StatusCode::CONFLICT, format!("{} is offered already\n", low.offered))
                }
                Err(stoop::Error::Call(why)) => sorry(&why),
            }
        }
        (&Method::GET, ..) => {
            let after = number("after").unwrap_or(0) as u32;
            let call = auction.begin().with_timeout(PATIENCE).after(thing, after);
            match call.await {
                Ok(Some(bid)) => {
                    say(StatusCode::OK, format!("{} {} {}\n", bid.number, bid.amount, bid.bidder))
                }
                Ok(None) => say(StatusCode::NO_CONTENT, ""),
                Err(why) => sorry(&why),
            }
        }
        _ => {
            say(StatusCode::BAD_REQUEST, "POST /THING?bidder=NAME&amount=COINS or GET /THING?after=NUMBER\n")
        }
    }
}

async fn serve(auction: AuctionClient, address: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    println!("listening at http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let auction = auction.clone();
        let service = service_fn(move |request| answer(auction.clone(), request));
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // One that breaks is that browser's loss.
        tokio::spawn(connection);
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let backend = arguments.next().unwrap_or_else(|| "udp://127.0.0.1:7406".to_owned());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8406".to_owned());
    let served = match AuctionClient::bind_with(&backend, &BindOptions::new().lazy()) {
        Ok(auction) => serve(auction, &address).await,
        Err(why) => Err(why.into()),
    };
    if let Err(why) = served {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
