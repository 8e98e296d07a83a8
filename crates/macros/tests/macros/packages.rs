//! The interface files of the system's packages as interfaces with stubs: the code compiles without warnings.

#[path = "../../../x/tests/oracle/corpus.rs"]
#[allow(dead_code, reason = "the comparison with rpcgen needs more of it")]
mod corpus;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use stoop_x::Options;

#[test]
fn interface_files_of_packages_compile_with_stubs_and_without_warnings() {
    let modules = corpus::entries().into_iter().map(|entry| {
        let compiled = entry.compiled(Options::new().interfaces(true));
        format!("pub mod {} {{\n{}\n}}\n", entry.name(), compiled.rust)
    });
    let modules: String = modules.collect();
    let program = project(&format!("#![deny(warnings)]\n#![allow(dead_code)]\n{modules}"));
    // Checked only: machine code for all of them would take a minute.
    let checked = Command::new(env!("CARGO"))
        .args(["check", "--quiet", "--offline", "--manifest-path"])
        .arg(program.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(program.join("target"))
        .output()
        .expect("cargo, which runs this test, can be run");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// A package with this library, whose dependencies are those of this workspace. Its build is kept with those of this package.
fn project(library: &str) -> PathBuf {
    let macros = Path::new(env!("CARGO_MANIFEST_DIR"));
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
    fs::create_dir_all(project.join("src")).expect("directories can be made");
    let stoop = macros.join("../stoop");
    let manifest = format!(
        "[package]\nname = \"packages\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n\
         stoop = {{ path = {stoop:?}, features = [\"onc\"] }}\n[workspace]\n"
    );
    fs::write(project.join("Cargo.toml"), manifest).expect("a file can be written");
    fs::copy(macros.join("../../Cargo.lock"), project.join("Cargo.lock"))
        .expect("the workspace has a lock file");
    fs::write(project.join("src/lib.rs"), library).expect("a file can be written");
    project
}
