//! The programs that are compared: rpcgen's routines with libtirpc, and our emitted code.

use crate::corpus::Entry;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder that is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("stoop-x-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder can be made");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Any files left over are in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Why the programs in C cannot be made here.
pub(crate) fn missing() -> Option<&'static str> {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !runs("rpcgen") {
        Some("there is no rpcgen")
    } else if !runs("cc") {
        Some("there is no C compiler")
    } else if !Path::new("/usr/include/tirpc/rpc/rpc.h").exists() {
        Some("libtirpc-dev is not installed")
    } else {
        None
    }
}

/// Compiles rpcgen's routines for the types of a file; `None` if they do not compile for a file that the user has named.
pub(crate) fn with_rpcgen(folder: &Path, entry: &Entry, types: &[String]) -> Option<PathBuf> {
    let folder = folder.join(entry.name());
    fs::create_dir_all(&folder).expect("a folder can be made");
    let header = if entry.is_in_libtirpc { "<rpc/rpc.h>" } else { "\"in.h\"" };
    let rows = types.iter().map(|name| format!("{{(xdrproc_t)xdr_{name}, sizeof({name})}},\n"));
    let table = "static struct { xdrproc_t routine; size_t size; } types[] = {\n";
    let table = format!("#include {header}\n{table}{}}};\n", rows.collect::<String>());
    fs::write(folder.join("types.h"), table).expect("a file can be written");
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/driver.c");
    let mut cc = Command::new("cc");
    // The definitions of C text, which rpcgen does not get.
    cc.args(["-w", "-O1", "-I/usr/include/tirpc", "-I.", "-DLM_MAXSTRLEN=1024", "-DMAXNAMELEN=1025"]);
    cc.args(["-DTYPES_H=\"types.h\"", "-o", "program"]).arg(driver);
    if !entry.is_in_libtirpc {
        rpcgen(&folder, entry);
        cc.arg("in_xdr.c");
    }
    cc.arg("-ltirpc").current_dir(&folder);
    if entry.is_named_by_user && !cc.output().is_ok_and(|output| output.status.success()) {
        println!("{}: rpcgen's code of it does not compile, so only ours was compiled", entry.name());
        return None;
    }
    run(&mut cc);
    Some(folder.join("program"))
}

/// Makes `in.h` and `in_xdr.c`.
fn rpcgen(folder: &Path, entry: &Entry) {
    // Files that it includes are beside it.
    for file in
        fs::read_dir(entry.path.parent().expect("a file is in a folder")).expect("the folder can be read")
    {
        let path = file.expect("the folder can be read").path();
        if path.extension().is_some_and(|extension| extension == "x") {
            fs::copy(&path, folder.join(path.file_name().expect("a file has a name")))
                .expect("a file can be copied");
        }
    }
    fs::write(folder.join("in.x"), entry.for_rpcgen()).expect("a file can be written");
    run(Command::new("rpcgen").args(["-N", "-h", "-o", "in.h", "in.x"]).current_dir(folder));
    run(Command::new("rpcgen").args(["-N", "-c", "-o", "in_xdr.c", "in.x"]).current_dir(folder));
}

/// Compiles our code for all files, without warnings and as a library, and a program that uses it.
pub(crate) fn with_ours(folder: &Path, files: &[(String, String)], types: &[String]) -> PathBuf {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("a file can be written");
    let modules = files.iter().map(|(name, rust)| {
        write(&format!("{name}.rs"), rust.clone());
        format!("/// Emitted.\npub mod {name} {{ include!(\"{name}.rs\"); }}\n")
    });
    write("emitted.rs", format!("//! Emitted.\n{}", modules.collect::<String>()));
    let runs = types.iter().map(|ty| format!("run::<emitted::{ty}>, "));
    let table = format!(
        "type Run = fn(&[u8]) -> (u32, usize, Vec<u8>);\nstatic TYPES: [Run; {}] = [{}];\n",
        types.len(),
        runs.collect::<String>()
    );
    write("program.rs", [include_str!("verdict.rs"), &table, include_str!("driver.rs")].concat());
    let runtime = runtime();
    let rustc = |name: &str, kind: &str| {
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
        command.args(["--edition=2024", "--crate-type", kind, name]).current_dir(folder);
        command.arg("--extern").arg(format!("stoop_xdr={}", runtime.display()));
        // The crates on which the runtime depends are beside it.
        let beside = runtime.parent().expect("it is in a folder");
        command.arg("-L").arg(format!("dependency={}", beside.display()));
        command
    };
    run(rustc("emitted.rs", "rlib").args(["-D", "warnings", "-D", "missing-docs"]));
    run(rustc("program.rs", "bin").args(["--extern", "emitted=libemitted.rlib"]));
    folder.join("program")
}

/// The library of the runtime that was built together with this test.
fn runtime() -> PathBuf {
    let test = std::env::current_exe().expect("the test knows where it is");
    let folder = fs::read_dir(test.parent().expect("it is in a folder")).expect("the folder can be read");
    let is_runtime = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libstoop_xdr-") && name.ends_with(".rlib")
    };
    let libraries = folder.map(|file| file.expect("the folder can be read").path()).filter(is_runtime);
    let newest = libraries.max_by_key(|path| path.metadata().and_then(|data| data.modified()).ok());
    newest.expect("the runtime was built for this test")
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let text = String::from_utf8_lossy(&output.stderr);
    let text: String = text.lines().take(60).map(|line| format!("{line}\n")).collect();
    assert!(output.status.success(), "{command:?} failed:\n{text}");
}

/// A program's treatment of a value.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) verdict: u32,
    pub(crate) read: u32,
    pub(crate) encoding: Vec<u8>,
}

/// Lets a program decode and encode values, each with the number of its type.
pub(crate) fn answers(program: &Path, values: &[(usize, Vec<u8>)]) -> Vec<Answer> {
    let mut input = Vec::new();
    for (ty, value) in values {
        input.extend((*ty as u32).to_ne_bytes());
        input.extend((value.len() as u32).to_ne_bytes());
        input.extend(value);
    }
    let path = program.with_extension("input");
    fs::write(&path, input).expect("a file can be written");
    let mut command = Command::new(program);
    command.stdin(File::open(&path).expect("it was written")).stderr(Stdio::null());
    let output = command.output().expect("the program can be started");
    assert!(output.status.success(), "{}: {}", program.display(), output.status);
    let (mut answers, mut rest) = (Vec::new(), &output.stdout[..]);
    while let Some((head, behind)) = rest.split_first_chunk::<12>() {
        let [verdict, read, length] =
            [0, 4, 8].map(|at| u32::from_ne_bytes(head[at..at + 4].try_into().expect("four bytes")));
        let (encoding, behind) = behind.split_at(length as usize);
        answers.push(Answer { verdict, read, encoding: encoding.to_vec() });
        rest = behind;
    }
    assert_eq!(answers.len(), values.len(), "{}", program.display());
    answers
}
