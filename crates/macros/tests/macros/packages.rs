//! The interface files of the system's packages as interfaces with stubs: the code compiles without warnings.

#[path = "../../../x/tests/oracle/corpus.rs"]
#[allow(dead_code, reason = "the comparison with rpcgen needs more of it")]
mod corpus;

use crate::compiler;
use std::fs;
use std::path::Path;
use stoop_x::Options;

#[test]
fn interface_files_of_packages_compile_with_stubs_and_without_warnings() {
    let modules = corpus::entries().into_iter().map(|entry| {
        let compiled = entry.compiled(Options::new().interfaces(true));
        format!("pub mod {} {{\n{}\n}}\n", entry.name(), compiled.rust)
    });
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages.rs");
    fs::write(package, modules.collect::<String>()).expect("a file can be written");
    compiler::answers_as_in_files(&["tests/packages/without_warnings.rs".into()]);
}
