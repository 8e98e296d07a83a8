//! The log of the secrets of sealed bindings, for programs that decrypt a capture.

use crate::locked::locked;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use stoop_seal::Secret;
use stoop_wire::BindingId;

/// A file to which the secrets of sealed bindings are written.
#[derive(Debug)]
pub(crate) struct KeyLog(Mutex<File>);

impl KeyLog {
    /// Opens the file, and makes it if it is not there, for this user alone.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let named = |cause: io::Error| io::Error::new(cause.kind(), format!("{}: {cause}", path.display()));
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(named)?;
        Ok(Self(Mutex::new(file)))
    }

    /// Writes the secrets of a binding.
    pub(super) fn note(&self, BindingId(binding): BindingId, of_caller: &Secret, of_server: &Secret) {
        self.write(&format!("STOOP_SECRETS {binding:016x} {} {}\n", hex(of_caller), hex(of_server)));
    }

    fn write(&self, line: &str) {
        // Without it the capture stays unreadable, and calls go on.
        let _ = locked(&self.0).write_all(line.as_bytes());
    }
}

fn hex(secret: &[u8]) -> String {
    secret.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of TLS sessions: the lines that other programs write and read, too (NSS key log format).
impl rustls::KeyLog for KeyLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        self.write(&format!("{label} {} {}\n", hex(client_random), hex(secret)));
    }
}
