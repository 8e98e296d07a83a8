//! Has several people greeted at once by the greeter, which runs already (`cargo run --example greeter-server`), without blocking a thread:
//!
//! ```sh
//! cargo run --example greeter-async-client
//! ```
//!
//! It calls udp://127.0.0.1:7400, or the address that is given as an argument (after `--`). Any asynchronous runtime can run its
//! futures. Here the main thread does, because nothing else is to do.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use stoop_examples::greeter::GreeterAsync;

async fn call(uri: &str) -> Result<(), Box<dyn Error>> {
    let greeter = GreeterAsync::bind(uri).await?;
    let greetings = ["world", "falcon", "firefly"].map(|name| greeter.greet(name)); // all are on their way now
    for greeting in greetings {
        println!("{}", greeting.await?);
    }
    Ok(())
}

/// Wakes the main thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end, asleep until it is woken.
fn run<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn main() {
    let uri = std::env::args().nth(1);
    if let Err(why) = run(call(uri.as_deref().unwrap_or("udp://127.0.0.1:7400"))) {
        eprintln!("{why}");
        std::process::exit(1);
    }
}
