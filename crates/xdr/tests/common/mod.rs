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
        $function::<$crate::common::Numbers>($($argument),*);
        $function::<$crate::common::Narrow>($($argument),*);
        $function::<$crate::common::Blobs>($($argument),*);
        $function::<$crate::common::Arrays>($($argument),*);
        $function::<$crate::common::Entry>($($argument),*);
        $function::<$crate::common::Status>($($argument),*);
        $function::<$crate::common::Perhaps>($($argument),*);
        $function::<$crate::common::Nodes>($($argument),*);
        $function::<$crate::common::Tree>($($argument),*);
        $function::<$crate::common::All>($($argument),*);
    };
}
