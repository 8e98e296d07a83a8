//! Compiles programs that use the library, as its user's compiler does, and compares the answers with files.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{fs, thread};

/// The library as it is built for these tests, with all that it depends on beside it. `STOOP_TEST_BUILD` has the arguments of the
/// `cargo test` that runs them, if it was given others than this package.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let build = env::var("STOOP_TEST_BUILD").unwrap_or_else(|_| "--package stoop-macros".into());
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--no-run", "--message-format=json"]).args(build.split_whitespace());
    let output = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo can be run");
    let messages = String::from_utf8_lossy(&output.stdout);
    let is_library = |path: &&str| {
        let name = path.rsplit_once('/').map_or("", |(_, name)| name);
        name.starts_with("libstoop-") && name.ends_with(".rlib")
    };
    let library = messages.split('"').find(is_library).map(PathBuf::from);
    library.unwrap_or_else(|| panic!("cargo names no library: {}", String::from_utf8_lossy(&output.stderr)))
});

/// Compiles the programs, in this package, and compares each answer with the file beside it that ends with `.stderr`. With
/// `STOOP_OVERWRITE` the files are written anew instead.
pub(crate) fn answers_as_in_files(programs: &[PathBuf]) {
    assert!(!programs.is_empty(), "there are programs");
    let compared = thread::scope(|scope| {
        let compared: Vec<_> = programs.iter().map(|program| scope.spawn(|| compared(program))).collect();
        compared
            .into_iter()
            .filter_map(|compared| compared.join().expect("no comparison panics").err())
            .collect::<String>()
    });
    assert!(compared.is_empty(), "{compared}");
}

/// # Errors
/// The compiler takes the program, or its answer differs from the file.
fn compared(program: &Path) -> Result<(), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(program.with_extension("stderr"));
    let answer = answer(program);
    if answer.is_empty() {
        return Err(format!("{}: the compiler takes it\n", program.display()));
    }
    if env::var_os("STOOP_OVERWRITE").is_some() {
        fs::write(&file, &answer).expect("an answer can be written");
    }
    match fs::read_to_string(&file) {
        Ok(expected) if expected == answer => Ok(()),
        Ok(expected) => Err(format!("{}: expected\n{expected}\ngot\n{answer}\n", program.display())),
        Err(error) => Err(format!("{}: {error}; got\n{answer}\n", file.display())),
    }
}

/// What the compiler says, without what differs from machine to machine and without its summary; empty if it finds no error.
fn answer(program: &Path) -> String {
    let dependencies = LIBRARY.parent().expect("the library is in a folder");
    let tmp = env!("CARGO_TARGET_TMPDIR");
    let made = Path::new(tmp).join(program.file_stem().expect("a program has a name"));
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args([
        "--edition=2024",
        "--emit=metadata",
        "--diagnostic-width=140",
        "--color=never",
        "-Adead_code",
    ]);
    rustc.arg("--extern").arg(format!("stoop={}", LIBRARY.display()));
    rustc.arg("-L").arg(format!("dependency={}", dependencies.display())).arg("-o").arg(made).arg(program);
    let output = rustc
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_TMPDIR", tmp)
        .output()
        .expect("the compiler can be run");
    if output.status.success() {
        return String::new();
    }
    let said = String::from_utf8(output.stderr).expect("the compiler writes text");
    let end = said.find("error: aborting due to").unwrap_or(said.len());
    let lines = said[..end].trim_end().lines().map(everywhere);
    lines.map(|line| line + "\n").collect()
}

/// A line of an answer as it is on every machine, and after other sources have grown.
fn everywhere(line: &str) -> String {
    if let Some((before, path)) = line.split_once("--> crates/") {
        let path = path.split(':').next().expect("there is one");
        return format!("{before}--> $WORKSPACE/crates/{path}");
    }
    match line.strip_suffix(" others").and_then(|line| line.rsplit_once("and ")) {
        Some((before, count)) if count.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{before}and $N others")
        }
        _ => line.into(),
    }
}
