//! The traffic of the run-time's typed clients and servers, as tshark reads it.

use crate::{kinds, nfs, sandbox, tshark};

#[test]
fn tshark_finds_nothing_malformed_in_typed_calls_and_replies() {
    let test = "capture::tshark_finds_nothing_malformed_in_typed_calls_and_replies";
    if !tshark::is_installed(test) {
        return;
    }
    sandbox::run(test, || {
        let folder = kinds::c_programs("captured_kinds").expect("the sandbox has them");
        let capture = tshark::capture(|| {
            for transport in ["udp", "tcp"] {
                kinds::call_c_server(&folder, transport);
                kinds::serve_c_client(&folder, transport);
            }
            nfs::call_nfs_server(test, 100_000);
        });
        capture.check_that_nothing_is_malformed();
        for transport in ["udp", "tcp"] {
            let frames = |what: &str| capture.frames(&format!("{transport} && {what}")).len();
            let (calls, replies) = (frames("rpc.msgtyp == 0"), frames("rpc.msgtyp == 1"));
            assert!(calls > 60 && replies > 60, "{calls} calls and {replies} replies over {transport}");
            assert_eq!(frames("rpc.msgtyp == 1 && !(rpc.state_accept == 0)"), 0);
        }
    });
}
