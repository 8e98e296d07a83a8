//! The weather station: one server, called by Stoop's protocol and by Sun RPC, from Rust and from C.

use crate::programs::{Server, said};
use std::fs;
use std::path::Path;
use std::process::Command;

const ADDRESSES: [&str; 3] = ["udp://127.0.0.1:0", "onc+udp://127.0.0.1", "onc+tcp://127.0.0.1"];

#[test]
fn the_same_client_calls_the_weather_server_by_either_protocol() {
    let server = Server::start("weather-server", &ADDRESSES);
    for (uri, before) in server.uris.iter().zip([0, 3, 6]) {
        let expected = format!(
            "11.5 °C is measurement {} of the harbour\n17.0 °C is measurement {} of the harbour\n\
             16.5 °C is measurement {} of the harbour\nat 15 o'clock: 16.5 °C\nat 12 o'clock: 17.0 °C\n\
             16.5 °C at the warmest station, harbour\n",
            before + 1,
            before + 2,
            before + 3
        );
        assert_eq!(said("weather-client", uri), expected, "{uri}");
    }
}

/// The commands in the comment of `client.c`, but for the interface file, which the library of `stoop gen` prints.
fn make_c_client(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder can be made");
    let printed = stoop_stubgen::interface_file::of_text(include_str!("../../src/weather.rs"));
    fs::write(folder.join("weather.x"), printed.expect("the trait can be printed"))
        .expect("it can be written");
    for file in ["weather.h", "weather_clnt.c", "weather_svc.c", "weather_xdr.c"] {
        // rpcgen overwrites nothing.
        let _ = fs::remove_file(folder.join(file));
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/weather/client.c");
    let mut rpcgen = Command::new("rpcgen");
    let mut cc = Command::new("cc");
    cc.args(["-w", "-I/usr/include/tirpc", "-I.", "-o", "client", source, "weather_clnt.c", "weather_xdr.c"]);
    for command in [rpcgen.args(["-N", "weather.x"]), cc.arg("-ltirpc")] {
        let output = command.current_dir(folder).output().expect("it is installed");
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_client_in_c_calls_the_weather_server_by_the_printed_interface_file() {
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !is_there("rpcgen") || !is_there("cc") || !Path::new("/usr/include/tirpc/rpc/rpc.h").exists() {
        return println!(
            "SKIPPED: a_client_in_c_calls_the_weather_server_by_the_printed_interface_file: needs rpcgen, libtirpc-dev and a C compiler"
        );
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("weather");
    make_c_client(&folder);
    let server = Server::start("weather-server", &ADDRESSES);
    said("weather-client", &server.uris[0]);
    let port = server.uris[2].rsplit_once(':').expect("it has a port").1;
    let output = Command::new(folder.join("client")).arg(port).output().expect("it was compiled");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("it prints text");
    assert_eq!(said, "measurement 1 of the tower\n21.5 degrees\nthe warmest station is tower\n");
}
