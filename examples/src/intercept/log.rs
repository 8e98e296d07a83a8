//! A line for each call, by `tracing`.

use stoop::Ran;
use stoop::intercept::{After, Before, CallInfo, Ended, Intercept};

/// Writes an event for each call when it has ended: at the level `INFO`, or `WARN` if there is no result.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogCalls;

impl Intercept for LogCalls {
    fn name(&self) -> &str {
        "log"
    }

    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        tracing::debug!(interface = call.interface(), procedure = call.procedure(), "call");
        Before::Go
    }

    fn after(&self, call: &CallInfo<'_>, ended: &Ended<'_>) -> After {
        let (interface, procedure) = (call.interface(), call.procedure());
        let (server, caller) = (call.server(), call.caller().map(tracing::field::debug));
        let took_us = u64::try_from(ended.took().as_micros()).unwrap_or(u64::MAX);
        match ended.outcome() {
            Ok(()) => tracing::info!(interface, procedure, server, caller, took_us, "done"),
            Err(error) => {
                let ran = match ended.ran() {
                    Ran::Yes => "yes",
                    Ran::No => "no",
                    Ran::Perhaps => "perhaps",
                };
                tracing::warn!(interface, procedure, server, caller, took_us, ran, %error, "no result");
            }
        }
        After::Return
    }
}
