//! A server of VXI-11, the protocol of measuring instruments, for a Python program that asks such an instrument by PyVISA-py.

use crate::sandbox;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use stoop::Server;

/// The stubs of `vxi11.x`.
mod stubs {
    stoop::x!("tests/onc_peers/python/vxi11.x");
}

use stubs::*;

/// "Device not accessible", error 3 of table B.2 of the specification.
const NOT_ACCESSIBLE: i32 = 3;
/// In an answer, bit 2 of the reasons: it ends here (B.6.4).
const REASON_END: i32 = 4;

/// An instrument that knows its name, and can count. What it will answer waits until it is read.
#[derive(Default)]
struct Instrument(Mutex<Vec<u8>>);

fn answer(question: &str) -> String {
    match question.trim_end().split_once(' ') {
        None => "ACME,Stoop,1,0.1\n".into(),
        Some((_, limit)) => {
            let limit: u32 = limit.parse().expect("the client sends a number");
            (0..limit).map(|number| format!("{number} ")).chain(["\n".into()]).collect()
        }
    }
}

impl DeviceCoreVersion for Instrument {
    fn create_link(&self, parms: &CreateLinkParms) -> CreateLinkResp {
        let error = if parms.device == "inst0" { 0 } else { NOT_ACCESSIBLE };
        CreateLinkResp { error, lid: 1, abort_port: 0, max_recv_size: 4096 }
    }

    fn device_write(&self, parms: &DeviceWriteParms) -> DeviceWriteResp {
        let question = String::from_utf8_lossy(&parms.data);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer(&question).into();
        DeviceWriteResp { error: 0, size: parms.data.len() as u32 }
    }

    fn device_read(&self, parms: &DeviceReadParms) -> DeviceReadResp {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let len = waiting.len().min(parms.request_size as usize).min(3000);
        let data = waiting.drain(..len).collect();
        DeviceReadResp { error: 0, reason: if waiting.is_empty() { REASON_END } else { 0 }, data }
    }

    fn destroy_link(&self, _: DeviceLink) -> DeviceError {
        DeviceError { error: 0 }
    }
}

/// A Python that has PyVISA-py: that of Debian, unless another one has it.
fn python() -> Option<&'static str> {
    let has_library = |python: &&str| {
        let import = Command::new(python).args(["-c", "import pyvisa, pyvisa_py"]).output();
        import.is_ok_and(|output| output.status.success())
    };
    ["/usr/bin/python3", "python3"].into_iter().find(has_library)
}

#[test]
fn a_python_program_asks_an_instrument_that_stoop_serves() {
    let test = "python::a_python_program_asks_an_instrument_that_stoop_serves";
    let Some(python) = python() else {
        return println!("SKIPPED: {test}: PyVISA-py is not installed (Debian: python3-pyvisa-py)");
    };
    sandbox::run(test, || {
        let server = Server::new().export(DeviceCoreVersionServer::new(Instrument::default())).register();
        let server = server.listen("onc+udp://127.0.0.1").unwrap().listen("onc+tcp://127.0.0.1").unwrap();
        let _server = server.start().expect("rpcbind registers it");
        let client = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/onc_peers/python/client.py");
        let output = Command::new(python).args([client, "127.0.0.1"]).output().expect("Python starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    });
}
