//! The options of the compiler.

use crate::resolve::Externals;
use std::path::PathBuf;

/// How an interface file is compiled.
///
/// ```
/// let options = stoop_x::Options::new().extern_const("UUID_LEN", 16).define("WITH_ACL", "1");
/// let source = "#ifdef WITH_ACL\nstruct entry { opaque id[UUID_LEN]; };\n#endif";
/// let compiled = stoop_x::compile("acl.x", source, &options, &mut stoop_x::no_includes()).unwrap();
/// assert!(compiled.rust.contains("pub struct Entry"));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) defines: Vec<(String, String)>,
    pub(crate) declarations: Vec<String>,
    pub(crate) include_dirs: Vec<PathBuf>,
    pub(crate) externals: Externals,
    pub(crate) strings: Strings,
    pub(crate) borrowed: bool,
    pub(crate) interfaces: bool,
}

/// The Rust type of `string`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strings {
    /// `String`: a peer's string that is not UTF-8 is an error. RFC 4506 §4.11 says ASCII.
    #[default]
    Text,
    /// `Vec<u8>`, for protocols whose names can have any encoding, such as NFS.
    Bytes,
}

impl Default for Options {
    fn default() -> Self {
        // As `rpcgen -h`, whose output has all declarations.
        let defines = vec![("RPC_HDR".to_owned(), "1".to_owned())];
        let externals = Externals::default();
        let (declarations, include_dirs, strings) = (Vec::new(), Vec::new(), Strings::Text);
        Options {
            defines,
            declarations,
            include_dirs,
            externals,
            strings,
            borrowed: false,
            interfaces: false,
        }
    }
}

impl Options {
    /// The symbols of rpcgen for a header: `RPC_HDR` is defined, nothing else is.
    pub fn new() -> Self {
        Self::default()
    }

    /// Defines a macro of the preprocessor, as `rpcgen -DNAME=VALUE`.
    pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.defines.push((name.into(), value.into()));
        self
    }

    /// Forgets what is defined, `RPC_HDR` too.
    pub fn without_defines(mut self) -> Self {
        self.defines.clear();
        self
    }

    /// Reads declarations before the file, in the language of interface files: what C code between `%` would have declared,
    /// such as `typedef unsigned hyper uint64;`, or `#include "types.x"`.
    pub fn declare(mut self, text: impl Into<String>) -> Self {
        self.declarations.push(text.into());
        self
    }

    /// Looks in this folder, too, for files that are included, also for those that C text includes (`%#include "nis.h"`: `nis.x`). For
    /// [`build`](crate::build); a callback of your own looks where it likes.
    pub fn include_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.include_dirs.push(folder.into());
        self
    }

    /// Gives the value of a constant that C code defines.
    pub fn extern_const(mut self, name: impl Into<String>, value: i64) -> Self {
        self.externals.constants.insert(name.into(), value.into());
        self
    }

    /// Names the Rust type, which implements the traits of `stoop-xdr`, for a type that C code defines; also in place of one
    /// that the file defines.
    pub fn extern_type(mut self, name: impl Into<String>, rust: impl Into<String>) -> Self {
        self.externals.types.insert(name.into(), rust.into());
        self
    }

    /// Chooses the Rust type of strings.
    pub fn strings(mut self, strings: Strings) -> Self {
        self.strings = strings;
        self
    }

    /// Leaves opaque data and strings of variable length where they were received: `&'a [u8]` and `&'a str` in place of
    /// `Vec<u8>` and `String`. Types with such parts have the lifetime `'a`.
    pub fn borrowed(mut self, borrowed: bool) -> Self {
        self.borrowed = borrowed;
        self
    }

    /// Makes each version of a program a `#[stoop::interface]`, so that it has a client, and a server half for any
    /// implementation of its trait; the code then needs the crate `stoop` with its feature `onc` in place of `stoop-xdr`. Types
    /// can travel by Stoop's own protocol, too.
    ///
    /// Takes precedence over [`borrowed`](Self::borrowed), since the stubs own what they return.
    pub fn interfaces(mut self, interfaces: bool) -> Self {
        self.interfaces = interfaces;
        self
    }
}
