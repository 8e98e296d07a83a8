//! Traffic of real sealed bindings, captured, and opened with the key log that the binding has written.

use crate::traffic::{assert_conclusions, call_all, file_of_names, server};
use crate::{sandbox, tshark};
use std::path::Path;
use stoop::{BindOptions, Security};

#[test]
fn every_sealed_packet_and_record_of_a_binding_opens_with_its_key_log() {
    let test = "sealed::every_sealed_packet_and_record_of_a_binding_opens_with_its_key_log";
    if !tshark::is_installed(test) {
        return;
    }
    sandbox::run(test, || {
        let names = file_of_names();
        for transport in ["udp", "tcp"] {
            let [key, log] = ["key", "log"].map(|name| tshark::file(&format!("{transport}.{name}")));
            for file in [&key, &log] {
                let _ = std::fs::remove_file(file);
            }
            let capture = tshark::file(&format!("sealed-{transport}.pcap"));
            tshark::capture(&["lo"], "127.0.0.1", &capture, || {
                Security::generate_key(&key).expect("the folder of tests can be written");
                let security = Security::key_file(&key).expect("it is a key").anonymous();
                let server = server().security(security).listen(&format!("{transport}://127.0.0.1:0"));
                let server = server.expect("the address is free").start().expect("it starts");
                let security =
                    Security::without_key().key_log(&log).expect("the folder of tests can be written");
                call_all(&server.uris()[0], &BindOptions::new().security(security));
            });
            let keys = format!("stoop.keys:{}", log.display());
            let (sealed, opened) = sealed_and_opened(&capture, &keys);
            assert!(opened > 0, "{transport}");
            assert_eq!(opened, sealed, "{transport}");
            assert_conclusions(&capture, &["-o", &names, "-o", &keys], 1, " (presumed)");
            let without = sealed_and_opened(&capture, "stoop.keys:/nowhere");
            assert_eq!(without, (sealed, 0), "{transport}");
        }
    });
}

/// How many packets and records are sealed, and how many of them are opened.
fn sealed_and_opened(capture: &Path, keys: &str) -> (usize, usize) {
    let options = ["-o", keys];
    // An ICMP error quotes the beginning of a packet that was captured before.
    let shown = tshark::fields(capture, &["stoop.sealed", "stoop.opened"], &["-o", keys, "-Y", "!icmp"]);
    let count = |name: &str| shown.values().filter_map(|fields| fields.get(name)).map(Vec::len).sum();
    let wrong = tshark::selected(capture, "stoop.malformed || _ws.lua.error", &options);
    assert_eq!(wrong, Vec::<String>::new());
    (count("stoop.sealed"), count("stoop.opened"))
}
