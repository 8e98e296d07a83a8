//! `stoop gen`: Rust from interfaces that are declared in other languages, and the reverse.

use clap::{Args, Subcommand, ValueEnum};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use stoop_x::{Options, Strings};

/// The files that `gen` reads.
#[derive(Debug, Subcommand)]
pub(crate) enum Source {
    /// An interface file of Sun RPC (`.x`), as rpcgen compiles it
    X(XArgs),
}

#[derive(Debug, Args)]
pub(crate) struct XArgs {
    /// The interface file
    file: PathBuf,
    /// Write the Rust code to this file [default: to standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Name the Rust type for a type that C code defines; it implements the traits of stoop-xdr
    #[arg(long, value_name = "NAME=TYPE", value_parser = pair)]
    extern_type: Vec<(String, String)>,
    /// The Rust type of strings: String, or Vec<u8> for names that need not be UTF-8
    #[arg(long, value_enum, default_value = "text")]
    strings: StringsArg,
    /// Leave strings and opaque data where they were received, in place of copying them
    #[arg(long)]
    borrowed: bool,
    /// Make each version of a program a `#[stoop::interface]`, with client and server; needs the crate stoop with its feature onc
    #[arg(long, conflicts_with = "borrowed")]
    interfaces: bool,
    /// The other way: FILE is a Rust file; print its traits under `#[stoop::interface(program = N, version = N)]`, and their types,
    /// as an interface file
    #[arg(long, conflicts_with_all = ["borrowed", "interfaces"])]
    from_trait: bool,
}

/// How an interface file is read.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reading {
    /// Define a macro of the preprocessor, as rpcgen does [RPC_HDR is always defined]
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Give the value of a constant that C code defines
    #[arg(long, value_name = "NAME=VALUE", value_parser = constant)]
    extern_const: Vec<(String, i64)>,
    /// Read another interface file first, whose definitions this one uses
    #[arg(long, value_name = "FILE")]
    include: Vec<String>,
    /// Look in this folder, too, for files that are included, also by `%#include "FILE.h"`, which means FILE.x
    #[arg(long, value_name = "FOLDER")]
    include_dir: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StringsArg {
    Text,
    Bytes,
}

pub(crate) fn run(source: &Source) -> Result<(), String> {
    let Source::X(args) = source;
    let text = if args.from_trait {
        interface_file(&args.file)?
    } else {
        stoop_x::build::file(&args.file, &args.options())?.rust
    };
    match &args.output {
        Some(path) => fs::write(path, text).map_err(|why| format!("{}: {why}", path.display())),
        None => io::stdout().write_all(text.as_bytes()).map_err(|why| why.to_string()),
    }
}

/// The interface file for the traits of a Rust file.
fn interface_file(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let file = stoop_stubgen::interface_file::of_text(&text);
    let head = format!(
        "/* Generated from {} by `stoop gen x --from-trait`: change that file instead. */\n\n",
        path.display()
    );
    file.map(|file| head + &file).map_err(|why| format!("{}:{why}", path.display()))
}

impl XArgs {
    fn options(&self) -> Options {
        let strings = match self.strings {
            StringsArg::Text => Strings::Text,
            StringsArg::Bytes => Strings::Bytes,
        };
        let options = self.reading.options();
        let options = options.strings(strings).borrowed(self.borrowed).interfaces(self.interfaces);
        self.extern_type.iter().fold(options, |options, (name, rust)| options.extern_type(name, rust))
    }
}

impl Reading {
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new();
        for define in &self.define {
            let (name, value) = define.split_once('=').unwrap_or((define, "1"));
            options = options.define(name, value);
        }
        for (name, value) in &self.extern_const {
            options = options.extern_const(name, *value);
        }
        for folder in &self.include_dir {
            options = options.include_dir(folder);
        }
        for file in &self.include {
            options = options.declare(format!("#include \"{file}\""));
        }
        options
    }
}

fn pair(argument: &str) -> Result<(String, String), String> {
    let (name, value) = argument.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn constant(argument: &str) -> Result<(String, i64), String> {
    let (name, value) = pair(argument)?;
    let value = value.parse().map_err(|_| format!("`{value}` is no number"))?;
    Ok((name, value))
}
