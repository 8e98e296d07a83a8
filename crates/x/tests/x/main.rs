//! The compiler of interface files, without other implementations (see `oracle`).

mod emitted;
mod errors;
mod from_trait;
mod garbage;
mod headers;
mod lines;
