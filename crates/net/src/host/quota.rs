//! The processor quota that cgroups give this process, in version 2 (`cpu.max`) and version 1
//! (`cpu.cfs_quota_us`).

use super::groups::{Groups, read};

/// The smallest quota on the way up from this process's cgroup, in whole processors rounded up; `None`
/// without one.
pub(super) fn own() -> Option<u32> {
    let v2 = |group: &_| parse_v2(&read(group, "cpu.max")?);
    let v1 = |group: &_| parse_v1(&read(group, "cpu.cfs_quota_us")?, &read(group, "cpu.cfs_period_us")?);
    Groups::own()?.least("cpu", v2, v1)
}

/// `"150000 100000"` is two processors; `"max 100000"` is no quota.
fn parse_v2(text: &str) -> Option<u32> {
    let (quota, period) = text.trim().split_once(' ')?;
    parse_v1(quota, period)
}

/// A quota of −1 is none.
fn parse_v1(quota: &str, period: &str) -> Option<u32> {
    let quota: u64 = quota.trim().parse().ok()?;
    let period: u64 = period.trim().parse().ok().filter(|&period| period > 0)?;
    u32::try_from(quota.div_ceil(period)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_is_rounded_up_to_whole_processors() {
        assert_eq!(parse_v2("50000 100000\n"), Some(1));
        assert_eq!(parse_v2("100000 100000\n"), Some(1));
        assert_eq!(parse_v2("150000 100000\n"), Some(2));
        assert_eq!(parse_v1("400000\n", "100000\n"), Some(4));
    }

    #[test]
    fn absent_and_senseless_quotas_are_none() {
        for text in ["max 100000\n", "", "1", "x y", "100 0", "-1 100000"] {
            assert_eq!(parse_v2(text), None, "{text:?}");
        }
        assert_eq!(parse_v1("-1\n", "100000\n"), None);
    }
}
