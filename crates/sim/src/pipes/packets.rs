//! What packets say about pipes, and how the mistakes change them.

use super::PipeSabotage;
use super::ledger::{Checked, Ledger, Which};
use stoop_wire::{CallNumber, Data, Header, Kind, PipeReceipt, Receipt, flags};

/// Notes what a packet says that leaves. `reserved`: bytes for which the receiver of the other direction has memory.
pub(super) fn check(ledger: &mut Ledger, packet: &[u8], is_caller: bool, reserved: u64) -> Checked {
    let Ok((header, payload)) = Header::parse(packet) else { return Err("it is no packet".into()) };
    let Some(id) = ledger.id_of((header.binding, header.lane, header.number)) else { return Ok(()) };
    let (sends, receives) = match is_caller {
        true => (Which::ToServer, Which::FromServer),
        false => (Which::FromServer, Which::ToServer),
    };
    if let Some(data) = Data::of(&header) {
        if data.len == 0 && data.end.is_none() {
            ledger.report.count("question");
        }
        return ledger.sends(id, sends, data.at + u64::from(data.len));
    }
    let (Some(of_pipe), Some(receipt)) = (PipeReceipt::of(&header), Receipt::decode(payload)) else {
        return Ok(());
    };
    let up_to = u64::from(of_pipe.high) << 32 | u64::from(receipt.up_to);
    let limit = up_to.saturating_add_signed(i64::from(receipt.limit.wrapping_sub(up_to as u32) as i32));
    ledger.told_limit(id, receives, limit, reserved)
}

/// The packet as the sender with this mistake sends it; `None`: it does not. `stops`: receipts that have said *stop*.
pub(super) fn sent(sabotage: PipeSabotage, mut packet: Vec<u8>, stops: &mut u64) -> Option<Vec<u8>> {
    let Ok((header, _)) = Header::parse(&packet) else { return Some(packet) };
    let is_question = Data::of(&header).is_some_and(|data| data.len == 0 && data.end.is_none());
    let is_stop = PipeReceipt::of(&header).is_some_and(|of_pipe| of_pipe.stop);
    *stops += u64::from(is_stop);
    match sabotage {
        PipeSabotage::NeverAsks if is_question => return None,
        PipeSabotage::SaysStopOnce if is_stop && *stops > 1 => packet[24] &= !0x04,
        _ => {}
    }
    Some(packet)
}

/// The packet as the receiver with this mistake takes it, whose lane has call `number`.
pub(super) fn taken(sabotage: PipeSabotage, mut packet: Vec<u8>, number: Option<CallNumber>) -> Vec<u8> {
    if sabotage == PipeSabotage::FailureCutsPipe && Header::tells_pipe(&packet) {
        packet[3] &= !flags::PIPE_OUT;
    }
    let (Ok((header, _)), Some(number)) = (Header::parse(&packet), number) else { return packet };
    let is_of_now = match sabotage {
        PipeSabotage::IgnoresNumbers => header.kind == Kind::Data,
        PipeSabotage::TakesOldReceipts => PipeReceipt::of(&header).is_some(),
        PipeSabotage::LateAnswers => header.kind == Kind::Result,
        _ => false,
    };
    if is_of_now {
        packet[16..20].copy_from_slice(&number.0.to_le_bytes());
    }
    packet
}
