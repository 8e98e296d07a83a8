//! Holds an auction, for gateways that pass bids on to browsers:
//!
//! ```sh
//! cargo run --example gateway-backend
//! ```
//!
//! It listens at udp://127.0.0.1:7406, or at the address that is given as an argument (after `--`). A procedure that waits for the next
//! bid is an `async fn`: any number of callers wait, and none of them holds a thread.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use stoop::{Server, current_call};
use stoop_examples::auction::{Auction, AuctionServer, Bid, TooLow};
use tokio::sync::watch;

/// The latest bids. Each tells those who wait for another.
#[derive(Default)]
struct House(Mutex<HashMap<String, watch::Sender<Option<Bid>>>>);

impl House {
    fn things(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<Option<Bid>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Auction for House {
    fn bid(&self, thing: &str, bidder: &str, amount: u64) -> Result<u32, TooLow> {
        let mut things = self.things();
        let latest = things.entry(thing.to_owned()).or_default();
        let (number, offered) = latest.borrow().as_ref().map_or((0, 0), |bid| (bid.number, bid.amount));
        if amount <= offered {
            return Err(TooLow { offered });
        }
        latest.send_replace(Some(Bid { number: number + 1, amount, bidder: bidder.to_owned() }));
        Ok(number + 1)
    }

    async fn after(&self, thing: &str, number: u32) -> Option<Bid> {
        let call = current_call()?;
        let mut bids = self.things().entry(thing.to_owned()).or_default().subscribe();
        let is_other = |bid: &Option<Bid>| bid.as_ref().is_some_and(|bid| bid.number != number);
        // Ends before the deadline, so that there is an answer; and when the caller has gone.
        let limit = call.time_left().mul_f32(0.9);
        let next = tokio::time::timeout(limit, bids.wait_for(is_other));
        call.cancelled().or(next).await?.ok()?.ok()?.clone()
    }
}

fn serve(uri: &str) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Runtime::new()?;
    let handle = runtime.handle().clone();
    let server = Server::new()
        .export(AuctionServer::new(House::default()))
        .executor(move |task| {
            let _context = handle.enter();
            if let Some(task) = task.start() {
                handle.spawn(task);
            }
        })
        .listen(uri)?
        .start()?;
    println!("listening at {}", server.uris()[0]);
    server.wait();
    Ok(())
}

fn main() {
    let uri = std::env::args().nth(1);
    if let Err(why) = serve(uri.as_deref().unwrap_or("udp://127.0.0.1:7406")) {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
