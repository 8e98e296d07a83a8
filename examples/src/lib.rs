//! The interfaces of the examples. Server and client of each use one and the same trait, as yours would: put it into a
//! crate that both depend on.

pub mod auction;
pub mod files;
pub mod greeter;
pub mod intercept;
pub mod kv;
pub mod olympus;
pub mod serve;
pub mod weather;

/// The programs in the README, so that they are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

/// The example of interceptors.
#[cfg(doctest)]
#[doc = include_str!("../../docs/interceptors.md")]
pub struct Interceptors;

/// The example of metadata.
#[cfg(doctest)]
#[doc = include_str!("../../docs/metadata.md")]
pub struct Metadata;

/// The first call by Sun RPC.
#[cfg(doctest)]
#[doc = include_str!("../../docs/sun-rpc.md")]
pub struct SunRpc;
