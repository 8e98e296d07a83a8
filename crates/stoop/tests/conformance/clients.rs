//! Properties of a client beside its procedures.

use super::*;
use std::panic::{RefUnwindSafe, UnwindSafe};

claims! { all: [
    begun_calls_may_have_another_time_than_their_client
] }

/// Clients are shared by threads, kept in tasks, and used where panics are caught.
const fn is_used_anywhere<T: Send + Sync + UnwindSafe + RefUnwindSafe + 'static>() {}
const _: () = is_used_anywhere::<LabClient>();
const _: () = is_used_anywhere::<RunningServer>();

const fn is_kept_and_passed_on<T: std::error::Error + Clone + Send + Sync + 'static>() {}
const _: () = is_kept_and_passed_on::<CallError>();
const _: () = is_kept_and_passed_on::<stoop::Error<BindError>>();
const _: () = is_kept_and_passed_on::<stoop::ListenError>();
const _: () = is_kept_and_passed_on::<stoop::error::InPlaceError>();

fn begun_calls_may_have_another_time_than_their_client(transport: &str) {
    let (_server, gate, client) = lab(transport);
    let calls = client.begin();
    let kept = calls.wait();
    let calls = calls.with_timeout(Duration::from_millis(20));
    let ended = calls.wait();
    drop(calls);
    let error = ended.wait().unwrap_err();
    assert!(error.is_timeout(), "{error}");
    gate.open();
    assert_eq!(kept.wait().unwrap(), 7);
}
