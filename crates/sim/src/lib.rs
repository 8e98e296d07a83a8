//! A seeded simulator for the packet exchange.
