//! The processor quota that cgroups give this process, in version 2 (`cpu.max`) and version 1
//! (`cpu.cfs_quota_us`).

use std::fs;
use std::path::{Path, PathBuf};

/// The smallest quota on the way up from this process's cgroup, in whole processors rounded up; `None`
/// without one.
pub(super) fn own() -> Option<u32> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().filter_map(Membership::parse).filter_map(|group| group.quota()).min()
}

/// A line of `/proc/self/cgroup` that matters here.
#[derive(Debug, PartialEq, Eq)]
enum Membership<'a> {
    /// The path in the unified hierarchy.
    V2(&'a str),
    /// The path in the hierarchy of the `cpu` controller.
    V1(&'a str),
}

impl<'a> Membership<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let (_hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        match controllers {
            "" => Some(Self::V2(path)),
            _ if controllers.split(',').any(|controller| controller == "cpu") => Some(Self::V1(path)),
            _ => None,
        }
    }

    fn quota(&self) -> Option<u32> {
        match self {
            Self::V2(path) => least("/sys/fs/cgroup", path, |group| parse_v2(&read(group, "cpu.max")?)),
            Self::V1(path) => least("/sys/fs/cgroup/cpu", path, |group| {
                parse_v1(&read(group, "cpu.cfs_quota_us")?, &read(group, "cpu.cfs_period_us")?)
            }),
        }
    }
}

/// The least quota of the group at `path` and of those above it. In a container `path` may be the
/// host's and not be there; the mount's root is then the container's own group.
fn least(mount: &str, path: &str, quota: impl Fn(&Path) -> Option<u32>) -> Option<u32> {
    let mount = Path::new(mount);
    let group: PathBuf = mount.join(path.trim_start_matches('/'));
    group.ancestors().take_while(|group| group.starts_with(mount)).filter_map(quota).min()
}

fn read(group: &Path, file: &str) -> Option<String> {
    fs::read_to_string(group.join(file)).ok()
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

    #[test]
    fn memberships_are_told_apart() {
        assert_eq!(Membership::parse("0::/user.slice/a:b"), Some(Membership::V2("/user.slice/a:b")));
        assert_eq!(Membership::parse("4:cpu,cpuacct:/docker/x"), Some(Membership::V1("/docker/x")));
        assert_eq!(Membership::parse("7:cpuset:/"), None);
        assert_eq!(Membership::parse("nonsense"), None);
    }

    #[test]
    fn groups_above_count_and_missing_ones_do_not() {
        let quotas = [(Path::new("/m"), 4), (Path::new("/m/a"), 2)];
        let quota = |group: &Path| quotas.iter().find(|(path, _)| *path == group).map(|(_, quota)| *quota);
        assert_eq!(least("/m", "/a/b", quota), Some(2));
        assert_eq!(least("/m", "/", quota), Some(4));
        assert_eq!(least("/m", "/elsewhere", quota), Some(4));
    }
}
