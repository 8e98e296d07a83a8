//! Interceptors to start from: [a rate limit](rate_limit::RateLimit) for each tenant, [a log](log::LogCalls) of requests,
//! [calls made again](retry::Retry), and a [token] that a server asks for.
//!
//! ```
//! use std::time::Duration;
//! use stoop::{BindOptions, Server};
//! use stoop_examples::greeter::{Greeter, GreeterClient, GreeterServer};
//! use stoop_examples::intercept::log::LogCalls;
//! use stoop_examples::intercept::rate_limit::{RateLimit, host_or_user};
//! use stoop_examples::intercept::retry::Retry;
//!
//! # struct English;
//! # impl Greeter for English { fn greet(&self, name: &str) -> String { format!("Hello, {name}!") } }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::new().export(GreeterServer::new(English));
//! // The log has the calls that are over the limit, too: it was added before.
//! let server = server.interceptor(LogCalls).interceptor(RateLimit::new(100.0, 20, host_or_user));
//! let server = server.listen("udp://127.0.0.1:0")?.start()?;
//!
//! let options = BindOptions::new().interceptor(Retry::new(3, Duration::from_millis(10)));
//! let greeter = GreeterClient::bind_with(&server.uris()[0], &options)?;
//! assert_eq!(greeter.greet("world")?, "Hello, world!");
//! # Ok(())
//! # }
//! ```

pub mod log;
pub mod rate_limit;
pub mod retry;
pub mod token;
