//! The examples, run as their documents say.

#[path = "../programs/mod.rs"]
mod programs;

mod chat;
mod describe;
mod documents;
mod files;
mod gateway;
mod intercept;
mod locked;
mod olympus;
mod papers;
mod processes;
mod weather;
