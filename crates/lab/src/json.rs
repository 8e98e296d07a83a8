//! The lines of a run for machines: one object a line.

use crate::row::Row;

/// One line, without its end.
pub(crate) fn line(row: &Row) -> String {
    serde_json::to_string(row).expect("a row is numbers and names")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::example;

    /// Results are compared over time, so these names stay.
    const KEYS: [&str; 39] = [
        "transport",
        "procedure",
        "bytes",
        "in_flight",
        "results",
        "callers",
        "clients",
        "silence_ms",
        "waiting",
        "processors",
        "busy",
        "network",
        "link_rate",
        "calls",
        "calls_per_second",
        "mbits_per_second",
        "p50_ns",
        "p99_ns",
        "p999_ns",
        "floor_p50_ns",
        "floor_p99_ns",
        "floor_calls_per_second",
        "floor_mbits_per_second",
        "floor_void",
        "ratio",
        "ratio_low",
        "ratio_high",
        "rate_ratio",
        "rate_ratio_low",
        "rate_ratio_high",
        "tcp_mbits_per_second",
        "tcp_rate_ratio",
        "vtable_p50_ns",
        "vtable_ratio",
        "fast_path_share",
        "caller_cpu",
        "server_cpu",
        "others_cpu",
        "fairness",
    ];

    #[test]
    fn every_key_that_was_promised_is_there() {
        let value: serde_json::Value = serde_json::from_str(&line(&example())).expect("it is JSON");
        for key in KEYS {
            assert!(value.get(key).is_some(), "{key} is missing");
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        let line = line(&example());
        assert!(line.contains(r#""procedure":"max-result""#), "{line}");
        assert!(line.contains(r#""processors":2"#), "{line}");
        assert!(!line.contains('\n'));
    }
}
