//! The native form: how Rust values lie in a call packet.
