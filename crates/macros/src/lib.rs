//! The macros `#[stoop::interface]` and `#[derive(stoop::Data)]`; `stoop` re-exports and documents them.

#![forbid(unsafe_code)]

mod data;
#[cfg(feature = "onc")]
mod x;

use proc_macro::TokenStream;
use stoop_stubgen::{emit, traits};
use syn::parse_macro_input;

/// Makes a trait an interface: its methods become procedures that can be called from other processes.
///
/// For `trait Greeter` this declares, beside the trait itself:
///
/// - `GreeterClient`, with `bind(uri)`, `bind_with(uri, &options)`, and a method for each procedure that returns
///   `Result<T, CallError>`, or `Result<T, Error<E>>` for a procedure that returns `Result<T, E>` itself, which has to be written
///   so, not as an alias; and `begin()`, for
///   calls that do not wait: the same methods, each giving a `stoop::Pending`;
/// - `GreeterServer`, with `new(implementation)`, to be exported by a server.
///
/// ```
/// #[derive(Debug, PartialEq, stoop::Data)]
/// pub enum Refused { Empty }
///
/// // With these, `?` hands the error on.
/// impl std::fmt::Display for Refused {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         f.write_str("there are no samples")
///     }
/// }
/// impl std::error::Error for Refused {}
///
/// #[stoop::interface]
/// pub trait Statistics {
///     /// The mean of some samples.
///     fn mean(&self, samples: &[f64]) -> Result<f64, Refused>;
///     /// Makes each sample as large as the factor says.
///     #[idempotent]
///     fn scaled(&self, factor: f64, samples: &[f64], #[out] scaled: &mut [f64]);
/// }
///
/// struct Plain;
/// impl Statistics for Plain {
///     fn mean(&self, samples: &[f64]) -> Result<f64, Refused> {
///         if samples.is_empty() { Err(Refused::Empty) } else { Ok(samples.iter().sum::<f64>() / samples.len() as f64) }
///     }
///     fn scaled(&self, factor: f64, samples: &[f64], scaled: &mut [f64]) {
///         scaled.iter_mut().zip(samples).for_each(|(scaled, sample)| *scaled = factor * sample);
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = stoop::Server::new().export(StatisticsServer::new(Plain)).listen("udp://127.0.0.1:0")?.start()?;
/// let client = StatisticsClient::bind(&server.uris()[0])?;
///
/// assert_eq!(client.mean(&[1.0, 2.0, 6.0])?, 3.0);
/// assert!(matches!(client.mean(&[]), Err(stoop::Error::Application(Refused::Empty))));
///
/// let mut scaled = [0.0; 2];
/// client.scaled(2.0, &[1.0, 4.0], &mut scaled)?;
/// assert_eq!(scaled, [2.0, 8.0]);
///
/// // Both calls are under way at the same time.
/// let calls = client.begin();
/// let (one, other) = (calls.mean(&[1.0]), calls.mean(&[2.0]));
/// assert_eq!((one.wait()?, other.wait()?), (1.0, 2.0));
/// # Ok(())
/// # }
/// ```
///
/// # Revisions
///
/// `#[stoop::interface(revision = N)]` lets an interface grow: `#[since(N)]` on a procedure or parameter, and `#[stoop(since = N)]` on a
/// field or variant of its types, say with which revision it came. Callers and servers of older revisions are spoken to as they know the
/// interface; `oldest = M` ends that for those before revision M. What an older server cannot be told is `CallError::NotSent`, what an older
/// caller cannot be told `FailureCode::Inexpressible`; `docs/evolution.md` has the rules.
///
/// # Arguments
///
/// | declared as | travels | the server sees |
/// |---|---|---|
/// | `value: T` | with the call | its own value |
/// | `value: &T`, `&str`, `&[T]`, `&[T; N]`, or an `Option` of one | with the call | texts, and numbers in slices and arrays, where they lie in the call packet |
/// | `value: &mut T`, `&mut [T]`, `&mut [T; N]` | both ways | a value to change |
/// | `#[out] value: &mut T`, `&mut [T]`, `&mut [T; N]` | with the result | a default value to fill; numbers in slices and arrays where they lie in the result packet, to be filled completely: they begin with any contents |
/// | `buffer: &InPlace<T>`, `&mut InPlace<T>`, `#[out] buffer: &mut InPlace<T>` | not at all over shared memory, otherwise with the call, both ways, or with the result | the buffer of its caller, or a copy; see `stoop::InPlace` |
///
/// All types implement `stoop::Data`. When a call fails, arguments that travel with the result are valid but
/// unspecified.
///
/// # Callbacks
///
/// `#[stoop::interface(callback = Guest)]` lets clients offer an object of the interface `Guest` (`BindOptions::callback`): an argument
/// `#[callback] guest: GuestClient` is a client of the object that the caller offers. Callers do not pass it. `docs/callbacks.md` has more.
///
/// # Methods
///
/// Methods take `&self`, since any number of callers may call at once, and are neither `async` nor generic.
/// `#[idempotent]` says that running a procedure twice is as good as running it once; it may then be sent again by
/// itself when a server has restarted. A method with a body has it as the server's default.
///
/// # One-way procedures
///
/// The caller of a `#[one_way]` procedure does not wait for it to run: the client's method returns as soon as the call has
/// been sent. Such a procedure returns nothing and changes no argument.
///
/// - *Errors.* A call that never left is an error (`CallError::NotSent`). What happens later is not reported to the caller.
/// - *Delivery.* The call runs at most once. It is sent again when it is lost, until its result or its deadline, also after the
///   client was dropped. It ends with the process: when `main` returns, calls under way may be lost. Call the client's
///   `close(timeout)` before, which waits for them and reports those that gave no result. (If a procedure is called `close`,
///   use `client.binding().flush(timeout)`.)
/// - *Order.* A thread's next call with a result, on the same client or a clone of it, starts only after the thread's earlier
///   one-way calls have returned at the server, or are known not to run. It waits for them until its own deadline, and then
///   fails with `SendError::OneWayPending`; if it cannot be known whether one of them still runs, because its connection, its
///   server or its deadline was lost, the next call that is not `#[idempotent]` fails once, with `SendError::OneWayUnknown`, which
///   names the one-way procedure. Two one-way calls have no order between each other, nor have calls of different threads. Calls begun by `client.begin()` have no order at all. Over `local:` the
///   thread runs those that no thread of the server has begun; then, as in any `local:` call, it goes on when they have returned, even
///   if that is after its deadline.
/// - `#[one_way(unordered)]` gives up the order: the next call does not wait.
///
/// `#[stoop::interface(crate = path)]` names the crate `stoop` where it has another name.
#[proc_macro_attribute]
pub fn interface(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let options = parse_macro_input!(attribute as traits::Options);
    let item = parse_macro_input!(item as syn::ItemTrait);
    let traits::Options { root, program, revisions, callback } = options;
    let stubs = traits::interface(item, program, revisions, callback)
        .map(|interface| emit::interface(&interface, &root));
    stubs.unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Lets values of a struct or enum travel as arguments and results.
///
/// Every field implements `stoop::Data`. Fields travel in the order in which they are declared; the number of an enum's
/// variant is its position. `#[stoop(since = N)]`, with `default = VALUE` or `drop` beside it, says that a field came with a later
/// revision, and has its default for peers that do not know it; on a variant it says the same, and `#[stoop(otherwise)]` marks the variant
/// that such a peer gets in its place. `#[stoop(shared)]` on a field that holds `Arc` or `Rc` keeps what is shared within one
/// message shared: it is sent once and comes out as one value. `#[stoop(crate = path)]` on the type names the crate
/// `stoop` where it has another name.
///
/// ```
/// use std::collections::BTreeMap;
///
/// #[derive(Clone, Debug, PartialEq, stoop::Data)]
/// pub enum Value {
///     Text(String),
///     List(Vec<Value>),
///     Table { rows: BTreeMap<u32, Value> },
/// }
///
/// #[stoop::interface]
/// pub trait Echo { fn echo(&self, value: Value) -> Value; }
///
/// struct Same;
/// impl Echo for Same { fn echo(&self, value: Value) -> Value { value } }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = stoop::Server::new().export(EchoServer::new(Same)).listen("udp://127.0.0.1:0")?.start()?;
/// let client = EchoClient::bind(&server.uris()[0])?;
/// let value = Value::List(vec![Value::Text("one".into()), Value::Table { rows: BTreeMap::new() }]);
/// assert_eq!(client.echo(value.clone())?, value);
/// # Ok(())
/// # }
/// ```
///
/// A type that has grown cannot be the key of a map or a member of a set, because two keys could become one:
///
/// ```compile_fail,E0080
/// #[derive(PartialEq, Eq, Hash, stoop::Data)]
/// pub struct Key {
///     #[stoop(since = 1)]
///     later: u8,
/// }
///
/// #[stoop::interface(revision = 1)]
/// pub trait Keyed { fn count(&self, of: std::collections::HashMap<Key, u8>) -> u64; }
/// ```
#[proc_macro_derive(Data, attributes(stoop))]
pub fn derive_data(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    data::expand(&item).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Lets values of a struct or enum travel by Sun RPC: implements the traits of `stoop::xdr`, the form of RFC 4506.
///
/// | in Rust | in an interface file |
/// |---|---|
/// | a struct | `struct`, with the fields in the order of their declaration |
/// | an enum without fields | `enum`; a variant without a number has one more than the one before, beginning at 0 |
/// | an enum with fields | `union` with these numbers; a variant with several fields has a `struct` |
/// | `Vec<u8>`, `[u8; N]` | `opaque x<>`, `opaque x[N]`; with `#[xdr(chars)]` arrays of `unsigned char` |
/// | `String`, `Vec<T>`, `[T; N]`, `Option<T>`, `Box<T>` | `string x<>`, `T x<>`, `T x[N]`, `T *x`, `T x` |
///
/// `#[xdr(max = N)]` on a field bounds a string, bytes or a `Vec`. `#[stoop(crate = path)]` on the type names the crate `stoop` where
/// it has another name.
///
/// ```
/// #[derive(Debug, PartialEq, stoop::Xdr)]
/// struct File {
///     #[xdr(max = 255)]
///     name: String,
///     data: Vec<u8>,
/// }
///
/// let file = File { name: "a".into(), data: vec![1, 2] };
/// let bytes = stoop::xdr::to_vec(&file).unwrap();
/// assert_eq!(bytes, b"\0\0\0\x01a\0\0\0\0\0\0\x02\x01\x02\0\0");
/// assert_eq!(stoop::xdr::from_slice::<File>(&bytes), Ok(file));
/// ```
#[cfg(feature = "onc")]
#[proc_macro_derive(Xdr, attributes(stoop, xdr))]
pub fn derive_xdr(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as syn::DeriveInput);
    let mut mistakes = stoop_stubgen::mistakes::Mistakes::default();
    let root = data::root(&item.attrs, &mut mistakes);
    let code = mistakes.into_result().and_then(|()| stoop_stubgen::types::user_type(&item));
    code.map(|of| emit::user_type(&of, &root)).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Compiles an interface file of Sun RPC (`.x`) in place: constants, types, and for each version of a program an interface with
/// client and server, as `#[stoop::interface]` makes them. `stoop gen x --interfaces FILE` prints the same.
///
/// The argument is the path of a file, from the folder with `Cargo.toml`; or the text itself, with or without quotes. A change of the
/// file, or of one that it includes, is seen by cargo. The module around it should have nothing else.
///
/// ```
/// mod adder {
///     stoop::x! {
///         struct pair { int left; int right; };
///         program ADDER { version ADDER_1 { int ADD(pair) = 1; } = 1; } = 0x20000001;
///     }
/// }
/// use adder::{Adder1, Adder1Server, Pair};
///
/// struct Plain;
/// impl Adder1 for Plain {
///     fn add(&self, arg1: &Pair) -> i32 { arg1.left + arg1.right }
/// }
/// let server = Adder1Server::new(Plain);
/// ```
///
/// Options follow the path or the text in quotes: `strings = bytes` for strings that need not be UTF-8; `define(NAME = "1")` for the
/// preprocessor; `extern_const(NAME = 16)` and `extern_type(name = path::Type)` for what C code declares; `include("other.x")` for a
/// file whose definitions this one uses; `include_dir("folder")` for a folder of files that are included, also by `%#include "other.h"`.
#[cfg(feature = "onc")]
#[proc_macro]
pub fn x(input: TokenStream) -> TokenStream {
    let tokens = proc_macro2::TokenStream::from(input);
    x::expand(tokens).unwrap_or_else(syn::Error::into_compile_error).into()
}
