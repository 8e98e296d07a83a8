//! What packets say about pipes, and how the mistakes change them.

use super::PipeSabotage;
use super::ledger::{Checked, Ledger, Which};
use stoop_wire::{CallNumber, Data, HEADER_LEN, Header, Kind, PipeReceipt, Receipt, flags};

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
        ledger.sends(id, sends, data.at + u64::from(data.len))?;
    }
    let Some((of_pipe, receipt)) = receipt_in(&header, payload) else { return Ok(()) };
    let up_to = u64::from(of_pipe.high) << 32 | u64::from(receipt.up_to);
    let limit = up_to.saturating_add_signed(i64::from(receipt.limit.wrapping_sub(up_to as u32) as i32));
    ledger.told_limit(id, receives, limit, reserved)
}

/// The receipt that a packet is, or has behind its data.
fn receipt_in(header: &Header, payload: &[u8]) -> Option<(PipeReceipt, Receipt)> {
    match Data::of(header) {
        Some(data) => data.split(header, payload).1.map(|behind| (behind.of_pipe, behind.receipt)),
        None => PipeReceipt::of(header).zip(Receipt::decode(payload)),
    }
}

/// The packet as the sender with this mistake sends it; `None`: it does not. `stops`: receipts that have said *stop*.
pub(super) fn sent(sabotage: PipeSabotage, mut packet: Vec<u8>, stops: &mut u64) -> Option<Vec<u8>> {
    let Ok((header, payload)) = Header::parse(&packet) else { return Some(packet) };
    let data = Data::of(&header);
    let is_question = data.is_some_and(|data| data.len == 0 && data.end.is_none());
    let is_stop = receipt_in(&header, payload).is_some_and(|(of_pipe, _)| of_pipe.stop);
    let stop_at = data.map_or(24, |data| HEADER_LEN + usize::from(data.len) + 4);
    *stops += u64::from(is_stop);
    match sabotage {
        PipeSabotage::NeverAsks if is_question => return None,
        PipeSabotage::SaysStopOnce if is_stop && *stops > 1 => packet[stop_at] &= !0x04,
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
