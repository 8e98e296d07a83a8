//! Clients and servers of interfaces that are known at run time only: calls and results as bytes.
//!
//! An [`Interface`] is made of the signatures of its procedures, or [asked](Interface::ask) of a running server. The bytes of a call and of
//! its result are those of `docs/native-form.md`; what has the types (as the crate `stoop-schema`, by which `stoop call` works) writes and
//! reads them by [`Writer`] and [`Reader`]. A call goes the same way as one of an emitted client: over every transport, with a deadline, at
//! most once.
//!
//! ```
//! use stoop::dynamic::{self, Interface, Procedure};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let adder = Interface::new("Adder", [Procedure::new("add(a: u32, b: u32) -> u32").idempotent()])?;
//! let add = |_: u16, arguments: &[u8], result: &mut dynamic::Writer<'_>| {
//!     let mut arguments = dynamic::Reader::new(arguments);
//!     let (a, b) = (arguments.value::<u32>()?, arguments.value::<u32>()?);
//!     arguments.finish()?;
//!     result.value(&(a + b));
//!     Ok(())
//! };
//! let server = stoop::Server::new().export(dynamic::Exported::new(adder, add)).listen("udp://127.0.0.1:0")?.start()?;
//!
//! // A client that has the trait cannot tell the difference.
//! #[stoop::interface]
//! trait Adder { #[idempotent] fn add(&self, a: u32, b: u32) -> u32; }
//! assert_eq!(AdderClient::bind(&server.uris()[0])?.add(3, 4)?, 7);
//!
//! // One that has only the address.
//! let options = stoop::BindOptions::new();
//! let known = Interface::ask(&server.uris()[0], "Adder", &options)?;
//! let client = dynamic::Client::bind(&server.uris()[0], known, &options)?;
//! let add = known.number_of("add").ok_or("no such procedure")?;
//! let sum = client.call(add, |arguments| [3_u32, 4].iter().for_each(|each| arguments.value(each)), |result| result.value::<u32>())?;
//! assert_eq!(sum, 7);
//! # Ok(())
//! # }
//! ```

mod client;
mod exported;
mod interned;

pub use crate::dynamic::client::{Begin, Client, PipedCall};
pub use crate::dynamic::exported::{Exported, NoResult};
pub use crate::dynamic::interned::{Interface, InterfaceError, Procedure};
pub use crate::pipes::ends::ServedEnds;
pub use stoop_marshal::{DecodeError, EncodeError, Reader, Writer};
