//! The traffic of the other tests, as tshark reads it.

use crate::c_peers::{call_c_server, run_client};
use crate::{sandbox, server, tshark};

#[test]
fn tshark_finds_nothing_malformed_in_calls_and_replies() {
    let test = "capture::tshark_finds_nothing_malformed_in_calls_and_replies";
    if !tshark::is_installed(test) {
        return;
    }
    sandbox::run(test, || {
        let capture = tshark::capture(|| {
            let folder = sandbox::c_programs("captured");
            call_c_server(&folder);
            for transport in ["udp", "tcp"] {
                server::start(0);
                run_client(&folder, transport);
            }
        });
        capture.check_that_nothing_is_malformed();
        let program = "rpc.program == 0x20000099";
        for seen in
            ["udp && rpc.msgtyp == 0", "tcp && rpc.msgtyp == 0", "rpc.auth.flavor == 1 && rpc.procedure == 5"]
        {
            assert!(!capture.frames(&format!("{program} && {seen}")).is_empty(), "{seen}");
        }
        // The outcomes that tshark finds in all replies: success, and the refusals that the callers asked for.
        for state in [0, 2, 3, 4] {
            let replies = capture.frames(&format!("rpc.state_accept == {state}"));
            assert!(!replies.is_empty(), "accepted with state {state}");
        }
        let others = capture.frames("rpc.state_accept == 5 || rpc.replystat == 1");
        assert_eq!(others, Vec::<String>::new());
    });
}
