//! The interfaces of the examples. Server and client of each use one and the same trait, as yours would: put it into a
//! crate that both depend on.

pub mod auction;
pub mod chat;
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

/// The programs in the pages for tasks.
#[cfg(doctest)]
mod tasks {
    #[doc = include_str!("../../docs/tasks/lock-service.md")]
    pub struct LockService;

    #[doc = include_str!("../../docs/tasks/web-gateway.md")]
    pub struct WebGateway;

    #[doc = include_str!("../../docs/tasks/frames.md")]
    pub struct Frames;

    #[doc = include_str!("../../docs/tasks/from-grpc.md")]
    pub struct FromGrpc;
}

/// The example of interceptors.
#[cfg(doctest)]
#[doc = include_str!("../../docs/interceptors.md")]
pub struct Interceptors;

/// The example of metadata.
#[cfg(doctest)]
#[doc = include_str!("../../docs/metadata.md")]
pub struct Metadata;

/// The examples of pipes.
#[cfg(doctest)]
#[doc = include_str!("../../docs/pipes.md")]
pub struct Pipes;

/// The examples of callbacks.
#[cfg(doctest)]
#[doc = include_str!("../../docs/callbacks.md")]
pub struct Callbacks;

/// The first call by Sun RPC.
#[cfg(doctest)]
#[doc = include_str!("../../docs/sun-rpc.md")]
pub struct SunRpc;
