//! A file of peers: the names and public keys of those that an end trusts.

use crate::locked::locked;
use crate::security::keys::{PublicKey, open_trusted};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A file of peers, which is read again when it has changed.
#[derive(Debug)]
pub(crate) struct Peers {
    path: PathBuf,
    present: Mutex<(Stamp, Arc<Names>)>,
}

/// A file that was last changed so long ago counts as complete: no program is in the middle of writing it.
const SETTLES: Duration = Duration::from_secs(2);

/// Which content a file has: its inode, length, and the time of its last change.
pub(crate) type Stamp = (u64, u64, i64, i64);

/// The name of each key.
pub(crate) type Names = HashMap<PublicKey, Arc<str>>;

impl Peers {
    /// Reads a file.
    ///
    /// # Errors
    /// There is none, or a line is wrong.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let present = Mutex::new((stamp(path)?, Arc::new(parse(path)?)));
        Ok(Self { path: path.into(), present })
    }

    /// The peers in the file now. A file that cannot be read, or has a wrong line, leaves those of before.
    pub(crate) fn names(&self) -> Arc<Names> {
        let mut present = locked(&self.present);
        if let Ok(now) = stamp(&self.path)
            && now != present.0
            && let Ok(names) = parse(&self.path)
        {
            *present = (now, Arc::new(names));
        }
        Arc::clone(&present.1)
    }

    /// As [`names`](Self::names), but `None` if the file was changed in the last two seconds: a program may have emptied it and be about to
    /// write it again, which must not remove anybody.
    pub(crate) fn settled_names(&self) -> Option<Arc<Names>> {
        let names = self.names();
        // Asked after reading, for the file may have been emptied just before. A time in the future comes from another clock.
        let changed = fs::metadata(&self.path).and_then(|file| file.modified());
        let is_changing = changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < SETTLES));
        (!is_changing).then_some(names)
    }

    /// The name of the peer with that key.
    pub(crate) fn name_of(&self, key: &PublicKey) -> Option<Arc<str>> {
        self.names().get(key).cloned()
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Vec<PublicKey> {
        self.names().keys().copied().collect()
    }
}

pub(crate) fn stamp(path: &Path) -> io::Result<Stamp> {
    let named = |cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", path.display()));
    let file = fs::metadata(path).map_err(named)?;
    Ok((file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}

fn parse(path: &Path) -> io::Result<Names> {
    let text = io::read_to_string(open_trusted(path)?)?;
    let mut names = Names::new();
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |why: &str| {
            let text = format!("{}, line {number}: {why}; a line is a name and a public key", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        let content = line.split('#').next().unwrap_or_default();
        let words: Vec<_> = content.split_whitespace().collect();
        match words[..] {
            [] => {}
            [name, _] if name.starts_with("uid:") => {
                return Err(wrong(
                    "names that begin with `uid:` are those of users of this machine, by the kernel's word",
                ));
            }
            [name, key] => {
                names.insert(key.parse().map_err(wrong)?, name.into());
            }
            _ => return Err(wrong("it has another number of words than two")),
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const KEY: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

    #[test]
    fn a_file_is_read_again_when_it_has_changed_and_a_wrong_line_changes_nothing() {
        let path = std::env::temp_dir().join(format!("stoop-peers-{}", std::process::id()));
        fs::write(&path, format!("# callers\nalice {KEY} # laptop\n\n")).unwrap();
        let (peers, key) = (Peers::read(&path).unwrap(), KEY.parse().unwrap());
        assert_eq!(peers.name_of(&key).as_deref(), Some("alice"));
        fs::write(&path, "alice what\n").unwrap();
        assert_eq!(peers.name_of(&key).as_deref(), Some("alice"));
        let why = Peers::read(&path).unwrap_err().to_string();
        assert!(why.contains("line 1") && why.contains("43"), "{why}");
        // On networks nobody is a user of this machine.
        fs::write(&path, format!("uid:0 {KEY}\n")).unwrap();
        assert_eq!(peers.name_of(&key).as_deref(), Some("alice"));
        assert!(Peers::read(&path).unwrap_err().to_string().contains("`uid:`"));
        fs::write(&path, "# nobody\n").unwrap();
        assert_eq!(peers.name_of(&key), None);
        // One that every user can write is not taken.
        fs::write(&path, format!("mallory {KEY}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(peers.name_of(&key), None);
        assert!(Peers::read(&path).unwrap_err().to_string().contains("chmod o-w"));
        // Just now: the rest may follow.
        assert!(peers.settled_names().is_none());
        let earlier = std::time::SystemTime::now() - SETTLES;
        fs::File::options().write(true).open(&path).unwrap().set_modified(earlier).unwrap();
        assert!(peers.settled_names().unwrap().is_empty());
        fs::remove_file(&path).unwrap();
    }
}
