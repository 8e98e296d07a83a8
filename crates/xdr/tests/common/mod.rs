//! The types of `oracle/types.x`, and random values of them.
#![allow(dead_code, missing_docs, unreachable_pub, unused_imports)]

mod samples;
mod types;

pub use samples::Sample;
pub use types::*;

/// Calls a function with every type of `types.x`.
#[macro_export]
macro_rules! with_every_type {
    ($function:ident($($argument:expr),*)) => {
        $function::<common::Numbers>($($argument),*);
        $function::<common::Narrow>($($argument),*);
        $function::<common::Blobs>($($argument),*);
        $function::<common::Arrays>($($argument),*);
        $function::<common::Entry>($($argument),*);
        $function::<common::Status>($($argument),*);
        $function::<common::Perhaps>($($argument),*);
        $function::<common::Nodes>($($argument),*);
        $function::<common::Tree>($($argument),*);
        $function::<common::All>($($argument),*);
    };
}
