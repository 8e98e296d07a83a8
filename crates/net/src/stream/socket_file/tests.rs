use crate::stream::tests::{Directory, LONG, unix_path};
use crate::stream::{Stream, StreamListener};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

/// Listens at a path and ends, in another thread. Whether that is done in time.
fn listens_and_ends(path: &Path) -> bool {
    let (done, is_done) = mpsc::channel();
    let address = unix_path(path);
    thread::spawn(move || {
        drop(StreamListener::bind(&address).unwrap());
        done.send(()).unwrap();
    });
    is_done.recv_timeout(LONG).is_ok()
}

#[test]
fn a_locked_directory_does_not_block_a_server() {
    let directory = Directory::new();
    let opened = File::open(&directory.0).unwrap();
    flock(&opened, FlockOperation::LockExclusive).unwrap();
    assert!(listens_and_ends(&directory.socket()));
}

#[test]
fn a_lock_file_that_others_can_open_does_not_block_a_server() {
    let directory = Directory::new();
    let path = directory.0.join("x.sock.lock");
    let theirs = File::create(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    flock(&theirs, FlockOperation::LockExclusive).unwrap();
    assert!(listens_and_ends(&directory.socket()));
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        assert!(listens_and_ends(&directory.socket()));
    }
    assert!(path.exists());
}

#[test]
fn one_of_several_servers_replaces_the_same_stale_file_and_is_reached() {
    let directory = Directory::new();
    let address = unix_path(&directory.socket());
    for _ in 0..100 {
        // A socket file that no process has open: a killed server leaves such a file.
        drop(std::os::unix::net::UnixListener::bind(directory.socket()).unwrap());
        let servers: Vec<_> = thread::scope(|scope| {
            let starting: Vec<_> = (0..4).map(|_| scope.spawn(|| StreamListener::bind(&address))).collect();
            starting.into_iter().map(|server| server.join().unwrap()).collect()
        });
        let failed = servers.iter().filter_map(|server| server.as_ref().err());
        assert!(failed.clone().all(|error| error.kind() == io::ErrorKind::AddrInUse), "{servers:?}");
        assert_eq!(failed.count(), 3);
        drop(Stream::connect(&address, LONG).unwrap());
        drop(servers);
        assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0, "a file is left");
    }
}
