//! A rate limit for each tenant of a server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use stoop::Caller;
use stoop::error::Refusal;
use stoop::intercept::{Before, CallInfo, Intercept};

/// Refuses the calls of a tenant that makes more than so many in a second.
///
/// Each tenant has a bucket of tokens, of which a call takes one, and which fills at the rate.
#[derive(Debug)]
pub struct RateLimit<F> {
    calls_per_s: f64,
    burst: f64,
    tenant: F,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

/// Most tenants that are remembered. Those with full buckets are forgotten beyond.
const TENANTS_MAX: usize = 10_000;

/// The caller's host, or its user if it is a process of this machine: what the server knows without believing the caller.
pub fn host_or_user(call: &CallInfo<'_>) -> String {
    match call.caller() {
        Some(Caller::Network(address)) => address.ip().to_string(),
        Some(Caller::Process(process)) => format!("user {}", process.uid),
        caller => format!("{caller:?}"),
    }
}

impl<F: Fn(&CallInfo<'_>) -> String> RateLimit<F> {
    /// At most so many calls in a second, and so many at once after a silence, of each tenant as `tenant` tells them apart.
    pub fn new(calls_per_s: f64, burst: u32, tenant: F) -> Self {
        Self { calls_per_s, burst: burst.into(), tenant, buckets: Mutex::default() }
    }

    /// Takes a token for a call of that tenant at that time, if there is one.
    fn take(&self, tenant: String, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let fill = |bucket: &Bucket| {
            let since = now.saturating_duration_since(bucket.filled).as_secs_f64();
            (bucket.tokens + since * self.calls_per_s).min(self.burst)
        };
        if buckets.len() >= TENANTS_MAX {
            buckets.retain(|_, bucket| fill(bucket) < self.burst);
        }
        let bucket = buckets.entry(tenant).or_insert(Bucket { tokens: self.burst, filled: now });
        *bucket = Bucket { tokens: fill(bucket), filled: now };
        let has_token = bucket.tokens >= 1.0;
        if has_token {
            bucket.tokens -= 1.0;
        }
        has_token
    }
}

impl<F: Fn(&CallInfo<'_>) -> String + Send + Sync + 'static> Intercept for RateLimit<F> {
    fn name(&self) -> &str {
        "rate limit"
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        let tenant = (self.tenant)(call);
        match self.take(tenant, Instant::now()) {
            true => Before::Go,
            false => {
                Before::Refuse(Refusal::denied(format!("more than {} calls a second", self.calls_per_s)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_fills_with_time_and_is_one_tenants_own() {
        let (limit, begin) = (RateLimit::new(10.0, 2, host_or_user), Instant::now());
        let take = |tenant: &str, ms| limit.take(tenant.into(), begin + Duration::from_millis(ms));
        assert_eq!([take("a", 0), take("a", 0), take("a", 0), take("b", 0)], [true, true, false, true]);
        assert_eq!([take("a", 99), take("a", 101), take("a", 101)], [false, true, false]);
        assert_eq!(
            [take("a", 60_000), take("a", 60_000), take("a", 60_000)],
            [true, true, false],
            "no more than the burst"
        );
    }
}
