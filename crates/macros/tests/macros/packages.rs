//! The interface files of the system's packages as interfaces with stubs: the code compiles without warnings.

#[path = "../../../x/tests/oracle/corpus.rs"]
#[allow(dead_code, reason = "the comparison with rpcgen needs more of it")]
mod corpus;

use std::fs;
use std::path::Path;
use stoop_x::Options;

/// The library that the code needs is built once, for the cases here and for those of `ui`.
#[test]
fn interface_files_of_packages_compile_with_stubs_and_without_warnings() {
    let modules = corpus::entries().into_iter().map(|entry| {
        let compiled = entry.compiled(Options::new().interfaces(true));
        format!("pub mod {} {{\n{}\n}}\n", entry.name(), compiled.rust)
    });
    // The package that `trybuild` makes of the cases is here.
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../tests/trybuild/stoop-macros");
    fs::create_dir_all(&package).expect("directories can be made");
    fs::write(package.join("packages.rs"), modules.collect::<String>()).expect("a file can be written");
    trybuild::TestCases::new().compile_fail("tests/packages/without_warnings.rs");
}
