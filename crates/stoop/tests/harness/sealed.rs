//! The keys of servers that tests have seal their bindings, where a test says nothing about keys itself.

use std::path::PathBuf;
use std::sync::OnceLock;
use stoop::{Security, Server};

/// The secret of all such servers, so that one of another process has the same key.
const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

fn security() -> &'static Security {
    static SECURITY: OnceLock<Security> = OnceLock::new();
    SECURITY.get_or_init(|| {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let path: PathBuf = std::env::temp_dir().join(format!("stoop-test-secret-{}", std::process::id()));
        let file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        file.unwrap().write_all(SECRET.as_bytes()).unwrap();
        let security = Security::secret_file(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        security.anonymous()
    })
}

/// The address with the key of such servers.
pub(crate) fn with_key(uri: &str) -> String {
    uri.replacen("://", &format!("://{}@", security().public_key().unwrap()), 1)
}

/// The server with that key for an address that names it, and the address without the key.
pub(crate) fn secured(server: Server, uri: &str) -> (Server, String) {
    match uri.split_once('@') {
        Some((before, host)) if before.contains("://") => {
            let scheme = before.split_once("://").unwrap().0;
            (server.security(security().clone()), format!("{scheme}://{host}"))
        }
        _ => (server, uri.to_owned()),
    }
}
