//! Transports between processes of one machine.

use super::*;

claims! { unix shm: [
    callers_are_known_to_the_procedure
    a_socket_with_a_file_works_and_a_stale_file_is_replaced
] }

fn callers_are_known_to_the_procedure(transport: &str) {
    let (_server, _, client) = lab(transport);
    let caller = client.caller().unwrap();
    let uid = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    assert_eq!(caller, format!("process {} of {uid}", std::process::id()));
}

fn a_socket_with_a_file_works_and_a_stale_file_is_replaced(transport: &str) {
    let path = std::env::temp_dir().join(format!("stoop-{transport}-{}.sock", std::process::id()));
    let uri = format!("{transport}:{}", path.display());
    // A killed server leaves a socket file without a listener.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let (server, _) = serve_at(&uri, Server::new());
    let client = LabClient::bind(&uri).unwrap();
    assert_eq!(client.next(1).unwrap(), 2);
    let taken = Server::new().export(LabServer::new(Bench::default())).listen_there(&uri).unwrap_err();
    assert!(taken.to_string().contains("another server"), "{taken}");
    drop(server);
    assert!(!path.exists());
}
