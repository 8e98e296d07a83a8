//! The types of `peer.x`, and its procedures.

use stoop_onc::auth::Identity;
use stoop_onc::message::ProcedureId;
use stoop_xdr::{Chain, Decode, DecodeError, Encode, Layout, Opaque, Reader, Writer, Xdr};

pub(crate) const PEER: u32 = 0x2000_0099;

/// A procedure of version 1.
pub(crate) const fn one(procedure: u32) -> ProcedureId {
    ProcedureId { program: PEER, version: 1, procedure }
}

pub(crate) const ADD: ProcedureId = one(1);
pub(crate) const LIST: ProcedureId = one(2);
pub(crate) const REVERSE: ProcedureId = one(3);
pub(crate) const COUNT: ProcedureId = one(4);
pub(crate) const WHO: ProcedureId = one(5);
pub(crate) const SQUARE: ProcedureId = ProcedureId { program: PEER, version: 2, procedure: 1 };

pub(crate) type Blob = Opaque<Vec<u8>>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) value: i64,
}

impl Xdr for Item {
    const LAYOUT: Layout = Layout::variable(12);
}

impl Encode for Item {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.string(&self.name, 64);
        writer.value(&self.value);
    }
}

impl Decode<'_> for Item {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { name: reader.text(64)?.into(), value: reader.value()? })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    List(Chain<Item>),
    Reason(String),
    Other(i32),
}

impl Xdr for Outcome {
    const LAYOUT: Layout = Layout::variable(4);
}

impl Encode for Outcome {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::List(items) => {
                writer.i32(0);
                writer.value(items);
            }
            Self::Reason(reason) => {
                writer.i32(1);
                writer.value(reason);
            }
            Self::Other(code @ 0..=1) => writer.fail_arm("outcome", *code),
            Self::Other(code) => writer.i32(*code),
        }
    }
}

impl Decode<'_> for Outcome {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.i32()? {
            0 => reader.value().map(Self::List),
            1 => reader.value().map(Self::Reason),
            code => Ok(Self::Other(code)),
        }
    }
}

pub(crate) fn list(count: i32) -> Outcome {
    match count {
        -99 => Outcome::Other(99),
        ..0 => Outcome::Reason("negative".into()),
        _ => {
            let item = |at| Item { name: format!("item {at}"), value: -i64::from(at) };
            Outcome::List((0..count).map(item).collect())
        }
    }
}

pub(crate) fn reverse(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

pub(crate) fn who(identity: &Identity<'_>) -> String {
    match identity {
        Identity::None => "nobody".to_owned(),
        Identity::Sys(sys) => {
            let name = String::from_utf8_lossy(sys.machine_name);
            format!("{name} {} {} {}", sys.uid, sys.gid, sys.gids.len())
        }
    }
}
