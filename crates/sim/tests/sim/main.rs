//! Simulated worlds: scenarios, seeds, and the checkers that judge them.

mod beginnings;
mod callbacks;
mod checkers;
mod clocks;
mod documented_bytes;
mod garbage;
mod large;
mod load;
mod overload;
mod pipes;
mod scenarios;
mod search;
mod seeds;
mod sun;
mod throughput;
