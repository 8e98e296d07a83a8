//! The command `stoop`.

mod account;
mod bench;
mod generate;
mod ping;
mod tables;
mod top;
