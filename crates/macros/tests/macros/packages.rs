//! The interface files of the system's packages as interfaces with stubs: the code compiles without warnings.

#[path = "../../../x/tests/oracle/corpus.rs"]
#[allow(dead_code, reason = "the comparison with rpcgen needs more of it")]
mod corpus;

use std::fs;
use stoop_x::Options;

#[test]
fn interface_files_of_packages_compile_with_stubs_and_without_warnings() {
    let modules = corpus::entries().into_iter().map(|entry| {
        let compiled = entry.compiled(Options::new().interfaces(true));
        format!("pub mod {} {{\n{}\n}}\n", entry.name(), compiled.rust)
    });
    let modules: String = modules.collect();
    let program = format!("#![deny(warnings)]\n#![allow(dead_code)]\n{modules}fn main() {{}}\n");
    let path = std::env::temp_dir().join(format!("stoop-packages-{}.rs", std::process::id()));
    fs::write(&path, program).expect("a file can be written");
    trybuild::TestCases::new().pass(&path);
}
