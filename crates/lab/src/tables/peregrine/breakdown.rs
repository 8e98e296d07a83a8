//! Peregrine Table 4: the parts of Null().

use crate::args::{Procedure, Transport, Waiting};
use crate::tables::lab::Lab;
use crate::tables::model::{Group, Line};
use crate::tables::parts::Parts;

pub(super) fn table_4(lab: &mut Lab<'_>) -> Result<Vec<Group>, String> {
    if !lab.network.has_frames {
        return Err("frames need a private Ethernet, which could not be made".into());
    }
    let null = Parts::of(lab, Transport::Ether, Procedure::Null, Waiting::Spin)?;
    let none = |name: &str, paper| Line::new(name).paper(paper).remark("nothing of the kind happens today");
    let lines = vec![
        Line::new("call to client stub and return; client stub")
            .paper(7.0)
            .today(null.named(&["calling program", "calling stub"])),
        none("client kernel trap and context switch on return", 37.0),
        Line::new("client sending call packet")
            .paper(49.0)
            .today(null.named(&["Starter", "Transporter: register"])),
        Line::new("network penalty for call packet").paper(132.0).today(null.call_packet().whole()),
        none("server Ethernet receive interrupt handling", 43.0),
        Line::new("duplicate detection, other handling of call packet")
            .paper(13.0)
            .today(null.named(&["Receiver: find", "Receiver: prepare"])),
        none("page remapping of receive buffer", 4.0),
        none("server context switch and kernel trap on return", 26.0),
        Line::new("server stub and procedure")
            .paper(4.0)
            .today(null.named(&["server stub", "the procedure"])),
        Line::new("server sending result packet").paper(16.0).today(null.named(&["Receiver: finish"])),
        Line::new("network penalty for result packet").paper(132.0).today(null.result_packet().whole()),
        none("client Ethernet receive interrupt handling", 43.0),
        Line::new("client handling of result packet").paper(5.0).today(null.named(&[
            "Transporter: match",
            "Transporter: return",
            "Ender",
        ])),
        Line::new("total measured cost breakdown").paper(511.0).today(null.accounted()),
        Line::new("measured cost of complete Null()").paper(562.0).today(null.plain()),
    ];
    Ok(vec![Group::new("Component", "µs", lines)])
}
