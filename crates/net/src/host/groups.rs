//! The control groups of this process (cgroups), in version 2 and version 1, and what they grant.

use std::fs;
use std::path::{Path, PathBuf};

/// The directories of a process's control groups.
pub(super) struct Groups {
    /// Where the hierarchies are mounted.
    mount: PathBuf,
    /// The contents of `/proc/self/cgroup`.
    memberships: String,
}

impl Groups {
    /// Those of this process; `None` if the system does not tell them.
    pub(super) fn own() -> Option<Self> {
        Self::under(Path::new("/"))
    }

    /// The same, of a system whose files lie under `root`.
    pub(super) fn under(root: &Path) -> Option<Self> {
        let memberships = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
        Some(Self { mount: root.join("sys/fs/cgroup"), memberships })
    }

    /// The least that the groups of a controller and those above them grant: what `v2` and `v1` read in the directory of a group.
    pub(super) fn least<T: Ord>(
        &self,
        controller: &str,
        v2: impl Fn(&Path) -> Option<T>,
        v1: impl Fn(&Path) -> Option<T>,
    ) -> Option<T> {
        let of = |membership| match membership {
            Membership::V2(path) => least(&self.mount, path, &v2),
            Membership::V1(path) => least(&self.mount.join(controller), path, &v1),
        };
        let memberships = self.memberships.lines();
        memberships.filter_map(|line| Membership::parse(line, controller)).filter_map(of).min()
    }
}

/// A line of `/proc/self/cgroup` that matters for a controller.
#[derive(Debug, PartialEq, Eq)]
enum Membership<'a> {
    /// The path in the unified hierarchy.
    V2(&'a str),
    /// The path in the hierarchy of the controller.
    V1(&'a str),
}

impl<'a> Membership<'a> {
    fn parse(line: &'a str, controller: &str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let (_hierarchy, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        match controllers {
            "" => Some(Self::V2(path)),
            _ if controllers.split(',').any(|found| found == controller) => Some(Self::V1(path)),
            _ => None,
        }
    }
}

/// The least grant of the group at `path` and of those above it. In a container `path` may be the
/// host's and not be there; the mount's root is then the container's own group.
fn least<T: Ord>(mount: &Path, path: &str, grant: impl Fn(&Path) -> Option<T>) -> Option<T> {
    let group: PathBuf = mount.join(path.trim_start_matches('/'));
    group.ancestors().take_while(|group| group.starts_with(mount)).filter_map(grant).min()
}

/// The contents of a file of a group.
pub(super) fn read(group: &Path, file: &str) -> Option<String> {
    fs::read_to_string(group.join(file)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memberships_are_told_apart() {
        let parse = |line| Membership::parse(line, "cpu");
        assert_eq!(parse("0::/user.slice/a:b"), Some(Membership::V2("/user.slice/a:b")));
        assert_eq!(parse("4:cpu,cpuacct:/docker/x"), Some(Membership::V1("/docker/x")));
        assert_eq!(parse("7:cpuset:/"), None);
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn groups_above_count_and_missing_ones_do_not() {
        let grants = [(Path::new("/m"), 4), (Path::new("/m/a"), 2)];
        let grant = |group: &Path| grants.iter().find(|(path, _)| *path == group).map(|(_, grant)| *grant);
        let least = |path| least(Path::new("/m"), path, grant);
        assert_eq!((least("/a/b"), least("/"), least("/elsewhere")), (Some(2), Some(4), Some(4)));
    }
}
