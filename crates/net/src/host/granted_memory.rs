//! The memory that this process may have: its limit of address space, and what its control groups grant.

use super::groups::{Groups, read};
use rustix::process::{Resource, getrlimit};

/// Bytes of memory that this process may have; `None`: nothing but the machine limits it. That is the least of its address space
/// (`RLIMIT_AS`, `ulimit -v`) and of the limits of its control groups (`memory.max`, in version 1 `memory.limit_in_bytes`).
pub fn granted_memory() -> Option<u64> {
    let groups = Groups::own().and_then(|groups| of_groups(&groups));
    groups.into_iter().chain(address_space()).min()
}

/// The limit of the process's address space, if there is one.
pub(super) fn address_space() -> Option<u64> {
    getrlimit(Resource::As).current
}

/// The least limit of the groups and of those above them.
fn of_groups(groups: &Groups) -> Option<u64> {
    let limit = |text: Option<String>| text?.trim().parse().ok().filter(|&bytes| bytes < UNLIMITED_V1);
    groups.least(
        "memory",
        |group| limit(read(group, "memory.max")),
        |group| limit(read(group, "memory.limit_in_bytes")),
    )
}

/// Version 1 says "no limit" by the largest number of pages.
const UNLIMITED_V1: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// The files of a system.
    struct Root(PathBuf);

    impl Root {
        fn with(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("stoop-groups-{}-{name}", std::process::id()));
            for (path, contents) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder can be made");
                fs::write(path, contents).expect("a file can be written");
            }
            Self(root)
        }

        fn granted(&self) -> Option<u64> {
            of_groups(&Groups::under(&self.0)?)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_least_limit_on_the_way_up_counts() {
        let root = Root::with(
            "v2",
            &[
                ("proc/self/cgroup", "0::/system.slice/a.service\n"),
                ("sys/fs/cgroup/system.slice/a.service/memory.max", "max\n"),
                ("sys/fs/cgroup/system.slice/memory.max", "268435456\n"),
                ("sys/fs/cgroup/memory.max", "536870912\n"),
            ],
        );
        assert_eq!(root.granted(), Some(256 << 20));
    }

    #[test]
    fn version_1_has_a_hierarchy_of_its_own_for_memory() {
        let file = |limit: &'static str| {
            [
                ("proc/self/cgroup", "5:memory:/docker/x\n4:cpu,cpuacct:/docker/x\n"),
                ("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", limit),
            ]
        };
        assert_eq!(Root::with("v1", &file("104857600\n")).granted(), Some(100 << 20));
        assert_eq!(Root::with("v1-none", &file("9223372036854771712\n")).granted(), None);
    }

    #[test]
    fn a_system_without_groups_limits_nothing() {
        assert_eq!(Root::with("none", &[("proc/self/cgroup", "0::/\n")]).granted(), None);
        assert_eq!(Root::with("absent", &[("proc/version", "")]).granted(), None);
    }
}
