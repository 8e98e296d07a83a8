//! What tests share: addresses, networks, processes, peers made by hand. Each program of tests has it as a module.

#![allow(dead_code, unused_imports, reason = "each program uses a part of it")]

pub(crate) mod cameras;
pub(crate) mod child;
pub(crate) mod echo;
pub(crate) mod ethernet;
pub(crate) mod gate;
pub(crate) mod hosts_file;
pub(crate) mod loopback;
pub(crate) mod passed_sockets;
pub(crate) mod processes;
pub(crate) mod proxy;
pub(crate) mod relay;
pub(crate) mod runtime;
pub(crate) mod shm_peer;
pub(crate) mod transports;
