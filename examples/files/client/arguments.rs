//! The command line.

pub(crate) const USAGE: &str = "\
usage: files-client URI COMMAND

commands:
  ls [-r] [PATH]…             list directories
  get [-r] PATH… LOCAL        fetch files; with -r directories, too
  put [-r] LOCAL… PATH        send files; with -r directories, too
  rm [-r] PATH…               remove files; with -r directories, too

The copy gets the name that the last argument of get and put gives. It keeps its own name in the directory that the last argument
gives if that ends in a slash, is `.` or empty, or if several things are copied, or a file to a directory that exists.
get --no-sync does not wait for the disk before it gives a file its name.";

#[derive(Clone, Copy)]
pub(crate) enum Command {
    List,
    Get,
    Put,
    Remove,
}

pub(crate) struct Arguments {
    pub(crate) uri: String,
    pub(crate) command: Command,
    pub(crate) paths: Vec<String>,
    pub(crate) recursive: bool,
    pub(crate) durable: bool,
}

impl Arguments {
    pub(crate) fn parse(given: impl Iterator<Item = String>) -> Option<Self> {
        let (options, words): (Vec<_>, Vec<_>) = given.partition(|argument| argument.starts_with('-'));
        let mut words = words.into_iter();
        let uri = words.next()?;
        let (command, least) = match &*words.next()? {
            "ls" => (Command::List, 0),
            "get" => (Command::Get, 2),
            "put" => (Command::Put, 2),
            "rm" => (Command::Remove, 1),
            _ => return None,
        };
        let paths: Vec<_> = words.collect();
        let mut arguments = Self { uri, command, paths, recursive: false, durable: true };
        for option in options {
            match &*option {
                "-r" => arguments.recursive = true,
                "--no-sync" => arguments.durable = false,
                _ => return None,
            }
        }
        (arguments.paths.len() >= least).then_some(arguments)
    }
}

/// Whether copies go into the directory `to`, instead of getting its name. It does not depend on what exists, so that the same command
/// means the same when it is repeated.
pub(crate) fn is_container(to: &str, sources: usize) -> bool {
    sources > 1 || to.is_empty() || to.ends_with('/') || matches!(to.rsplit('/').next(), Some("." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_container_only_if_it_says_so() {
        for to in ["", "a/", ".", "..", "a/..", "./"] {
            assert!(is_container(to, 1), "{to}");
        }
        assert!(!is_container("a", 1) && !is_container("a/b.", 1));
        assert!(is_container("a", 2));
    }
}
