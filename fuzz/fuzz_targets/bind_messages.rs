//! The payloads of the packets that make a binding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_wire::bind::{BindReply, BindRequest, BindStatus, Describe, Description, ServerClock};

fuzz_target!(|payload: &[u8]| {
    if let Some(request) = BindRequest::decode(payload) {
        assert_eq!(BindRequest::decode(&request.encode()).as_ref(), Some(&request));
        let reply = BindReply {
            status: BindStatus::UnknownFlags(request.required),
            text: "é".repeat(1000),
            clock: Some(ServerClock { now_ns: 1, up_ns: 2 }),
            ..BindReply::granting(&request)
        };
        assert!(reply.encode().len() <= payload.len(), "a reply is no longer than its request");
    }
    if let Some(reply) = BindReply::decode(payload)
        && reply.text.len() <= 256
    {
        assert_eq!(BindReply::decode(&reply.encode()), Some(reply));
    }
    if let Some(describe) = Describe::decode(payload)
        && describe.interface.len().max(describe.procedure.len()) <= 255
    {
        assert_eq!(Describe::decode(&describe.encode()), Some(describe));
    }
    if let Some(description) = Description::decode(payload)
        && description.signature.len() <= 1400
    {
        assert_eq!(Description::decode(&description.encode()), Some(description));
    }
});
