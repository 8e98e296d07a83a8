//! The procedures of Firefly Tables II to V, with stubs for calls to another process and for calls without a transport.

/// A call of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Null,
    One,
    Two,
    Four,
    Fixed4,
    Fixed400,
    Open(usize),
    Nil,
    Text(usize),
}

/// The byte that a procedure writes into its result.
pub(super) const MARK: u8 = 0x57;

/// Declares the interface, a server that looks at its arguments, and the calls.
macro_rules! procedures {
    ($($attribute:tt)*) => {
        use super::{Case, MARK};
        use crate::callers::Calls;
        use crate::tables::lab::Way;
        use std::hint::black_box;
        use stoop::CallError;

        /// The procedures of the four tables.
        #[stoop::interface $($attribute)*]
        pub(crate) trait Marshaling {
            fn null(&self);
            fn one(&self, first: i32);
            fn two(&self, first: i32, second: i32);
            fn four(&self, first: i32, second: i32, third: i32, fourth: i32);
            fn fixed_4(&self, #[out] array: &mut [u8; 4]);
            fn fixed_400(&self, #[out] array: &mut [u8; 400]);
            fn open(&self, #[out] array: &mut [u8]);
            fn text(&self, text: Option<&str>);
        }

        pub(crate) struct Idle;

        impl Marshaling for Idle {
            fn null(&self) {}
            fn one(&self, first: i32) {
                black_box(first);
            }
            fn two(&self, first: i32, second: i32) {
                black_box((first, second));
            }
            fn four(&self, first: i32, second: i32, third: i32, fourth: i32) {
                black_box((first, second, third, fourth));
            }
            fn fixed_4(&self, array: &mut [u8; 4]) {
                array[0] = MARK;
            }
            fn fixed_400(&self, array: &mut [u8; 400]) {
                array[0] = MARK;
            }
            fn open(&self, array: &mut [u8]) {
                array[0] = MARK;
            }
            // A Text.T is a new object in garbage-collected storage at the server: here a String.
            fn text(&self, text: Option<&str>) {
                black_box(text.map(str::to_owned));
            }
        }

        /// Calls of one case, timed `batch` at a time.
        pub(in super::super) fn calls(client: &MarshalingClient, case: Case, batch: u64) -> Box<dyn Calls> {
            let client = client.clone();
            match case {
                Case::Null => way(batch, move || client.null()),
                Case::One => way(batch, move || client.one(black_box(1))),
                Case::Two => way(batch, move || client.two(black_box(1), black_box(2))),
                Case::Four => {
                    way(batch, move || client.four(black_box(1), black_box(2), black_box(3), black_box(4)))
                }
                Case::Fixed4 => {
                    let mut array = [0; 4];
                    way(batch, move || client.fixed_4(&mut array))
                }
                Case::Fixed400 => {
                    let mut array = [0; 400];
                    way(batch, move || client.fixed_400(&mut array))
                }
                Case::Open(len) => {
                    let mut array = vec![0; len];
                    way(batch, move || client.open(black_box(&mut array)))
                }
                Case::Nil => way(batch, move || client.text(black_box(None))),
                Case::Text(len) => {
                    let text = "x".repeat(len);
                    way(batch, move || client.text(black_box(Some(&text))))
                }
            }
        }

        fn way(
            batch: u64,
            mut call: impl FnMut() -> Result<(), CallError> + Send + 'static,
        ) -> Box<dyn Calls> {
            Way::in_batches(batch, move || call().map_err(|error| error.to_string()))
        }

        /// Makes calls whose results are checked.
        pub(in super::super) fn try_out(client: &MarshalingClient) -> Result<(), CallError> {
            let (mut fixed, mut open) = ([0; 400], [0; 1440]);
            client.fixed_400(&mut fixed)?;
            client.open(&mut open)?;
            assert_eq!((fixed[0], open[0]), (MARK, MARK), "a result brings back what the procedure wrote");
            client.text(Some("text"))
        }
    };
}

/// Calls to another process.
pub(super) mod whole {
    procedures!();
}

/// Calls without a transport, from stubs that [`in_memory`](crate::tables::firefly::in_memory) links.
pub(super) mod alone {
    procedures!((crate = crate::tables::firefly::in_memory));
}
