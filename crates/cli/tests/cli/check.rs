//! `stoop check`: lock files, a Rust file and running servers of two forms of an interface.

use std::process::{Command, Output};
use stoop::Server;
use stoop::compatibility::Known;

mod old {
    #[stoop::interface]
    pub(super) trait Store {
        fn get(&self, name: &str) -> u32;
    }
}

mod new {
    #[stoop::interface(revision = 1)]
    pub(super) trait Store {
        #[since(1)]
        fn count(&self) -> u64;
        fn get(&self, name: &str, #[since(1)] at: u64) -> u32;
    }
}

/// The same interface with another type of a parameter and of a result, which breaks callers.
const BROKEN: &str = "
#[stoop::interface(revision = 1)]
pub trait Store {
    #[since(1)]
    fn count(&self) -> u64;
    fn get(&self, name: &str, #[since(1)] at: u64) -> u64;
}
";

struct Shelf;

impl new::Store for Shelf {
    fn count(&self) -> u64 {
        1
    }
    fn get(&self, _: &str, _: u64) -> u32 {
        2
    }
}

fn check(old: &str, new: &str, options: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stoop"));
    let Output { status, stdout, stderr } = command.args(["check", old, new]).args(options).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap())
}

#[test]
fn check_tells_what_breaks_and_for_which_callers() {
    let folder = std::env::temp_dir().join(format!("stoop-check-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let old = file("old.lock", &Known::of(&[old::StoreClient::interface()]).to_string());
    let new = file("new.lock", &Known::of(&[new::StoreClient::interface()]).to_string());
    let broken = file("broken.rs", BROKEN);
    let server = Server::new().export(new::StoreServer::new(Shelf)).listen("udp://127.0.0.1:0").unwrap();
    let server = server.start().unwrap();
    let uri = &server.uris()[0];
    for (one, other) in [(&old, &new), (&new, &old), (&old, uri), (uri, &old), (uri, &new), (uri, uri)] {
        assert_eq!(check(one, other, &[]), (Some(0), "nothing breaks\n".into()), "{one} {other}");
    }
    for before in [&old, &new, uri] {
        let (status, text) = check(before, &broken, &[]);
        assert_eq!(status, Some(1), "{text}");
        assert!(text.contains("Store.get: breaks old callers\n  caller: get(name: String"), "{text}");
        assert!(text.contains("Store.get: breaks new callers") && text.contains("2 breaks"), "{text}");
    }
    let (status, json) = check(&old, &broken, &["--json"]);
    assert!(status == Some(1) && json.contains(r#""procedure": "get""#), "{json}");
    assert_eq!(check(&old, &broken, &["--except", "Store.get"]), (Some(0), "nothing breaks\n".into()));
    for unreadable in
        ["udp://127.0.0.1:1", "nowhere/interfaces.lock", &file("other.lock", "Store 0-0 12 get()\n")]
    {
        let (status, text) = check(&old, unreadable, &[]);
        assert!(status == Some(2) && text.contains(unreadable), "{text}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
