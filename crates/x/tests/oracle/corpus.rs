//! The interface files that tests compile and compare.

use std::path::{Path, PathBuf};
use stoop_x::{Compiled, Options, build};

/// An interface file, and what has to be said about it.
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    /// A file whose definitions it uses.
    pub(crate) needs: Option<PathBuf>,
    /// Whether libtirpc has its routines, and a header that would clash with one that rpcgen makes.
    pub(crate) is_in_libtirpc: bool,
    /// Whether the user of the tests has named it. rpcgen's C of such a file may clash with libtirpc's headers.
    pub(crate) is_named_by_user: bool,
}

/// Files of the Debian packages rpcsvc-proto, libnsl-dev and libtirpc-dev.
const RPCSVC: [&str; 18] = [
    "bootparam_prot",
    "key_prot",
    "klm_prot",
    "mount",
    "nfs_prot",
    "nis",
    "nis_callback",
    "nis_object",
    "nlm_prot",
    "rex",
    "rquota",
    "rstat",
    "rusers",
    "sm_inter",
    "spray",
    "yp",
    "yppasswd",
    "../tirpc/rpc/rpcb_prot",
];

/// Our own file, those of packages that are installed, and those in the folder that the environment variable `STOOP_X_FILES` names.
pub(crate) fn entries() -> Vec<Entry> {
    let own = Entry::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../x/tests/oracle/own.x"));
    std::iter::once(own).chain(RPCSVC.into_iter().filter_map(Entry::of_package)).chain(others()).collect()
}

fn others() -> Vec<Entry> {
    let Some(folder) = std::env::var_os("STOOP_X_FILES") else { return Vec::new() };
    let files = std::fs::read_dir(folder).expect("the folder can be read");
    let mut paths: Vec<_> = files.map(|file| file.expect("the folder can be read").path()).collect();
    paths.sort();
    let paths = paths.into_iter().filter(|path| path.extension().is_some_and(|x| x == "x"));
    paths.map(|path| Entry { is_named_by_user: true, ..Entry::new(path) }).collect()
}

impl Entry {
    pub(crate) fn new(path: PathBuf) -> Self {
        Entry { path, needs: None, is_in_libtirpc: false, is_named_by_user: false }
    }

    fn of_package(name: &str) -> Option<Self> {
        let path = PathBuf::from(format!("/usr/include/rpcsvc/{name}.x"));
        if !path.exists() {
            println!("SKIPPED: {} is not installed", path.display());
            return None;
        }
        let needs = (name == "nis_callback").then(|| path.with_file_name("nis.x"));
        Some(Entry { needs, is_in_libtirpc: name.ends_with("rpcb_prot"), ..Entry::new(path) })
    }

    pub(crate) fn name(&self) -> String {
        self.path.file_stem().expect("a file has a name").to_string_lossy().replace('-', "_")
    }

    pub(crate) fn compiled(&self, mut options: Options) -> Compiled {
        if let Some(needed) = &self.needs {
            options = options.declare(format!("#include \"{}\"", needed.display()));
        }
        build::file(&self.path, &options).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The text for rpcgen, without C text, which often is not for all programs; with the text of the file that it needs.
    pub(crate) fn for_rpcgen(&self) -> String {
        let text = |path: &Path| {
            String::from_utf8_lossy(&std::fs::read(path).expect("it was compiled")).into_owned()
        };
        let needed = self.needs.as_deref().map(text).unwrap_or_default();
        let all = needed + &text(&self.path);
        without_c_text(&all)
    }
}

/// The lines that are not C text, nor the continuation of such a line.
fn without_c_text(text: &str) -> String {
    let (mut kept, mut continues) = (String::new(), false);
    for line in text.lines() {
        let is_c = continues || line.starts_with('%');
        continues = is_c && line.ends_with('\\');
        if !is_c {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}
