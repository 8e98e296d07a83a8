//! The interface files of the system's packages as interfaces with stubs: the code compiles without warnings.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use stoop_x::{Options, build};

/// Files of the Debian packages rpcsvc-proto, libnsl-dev and libtirpc-dev.
const FILES: [&str; 18] = [
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

/// The emitted code as a module.
fn module(path: &Path) -> String {
    let mut options = Options::new().interfaces(true);
    if path.ends_with("nis_callback.x") {
        options = options.declare("#include \"/usr/include/rpcsvc/nis.x\"");
    }
    let name = path.file_stem().expect("a file has a name").to_string_lossy().replace('-', "_");
    let compiled = build::file(path, &options).unwrap_or_else(|error| panic!("{error}"));
    format!("pub mod {name} {{\n{}\n}}\n", compiled.rust)
}

#[test]
fn interface_files_of_packages_compile_with_stubs_and_without_warnings() {
    let mut program = String::from("#![deny(warnings)]\n#![allow(dead_code)]\n");
    // With a folder in the environment, the files in it, too.
    let more = std::env::var_os("STOOP_X_FILES").into_iter().flat_map(|folder| {
        let files = fs::read_dir(folder).expect("the folder can be read");
        files.map(|file| file.expect("the folder can be read").path())
    });
    let known = FILES.map(|name| PathBuf::from(format!("/usr/include/rpcsvc/{name}.x")));
    for path in known.into_iter().chain(more.filter(|path| path.extension().is_some_and(|x| x == "x"))) {
        match path.exists() {
            true => program.push_str(&module(&path)),
            false => println!("SKIPPED: {} is not installed", path.display()),
        }
    }
    writeln!(program, "fn main() {{}}").expect("a string takes anything");
    let path = std::env::temp_dir().join(format!("stoop-packages-{}.rs", std::process::id()));
    fs::write(&path, program).expect("a file can be written");
    trybuild::TestCases::new().pass(&path);
}
