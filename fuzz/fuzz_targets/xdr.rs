//! A message in XDR, read as one of many types.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoop_xdr::limits::allocation_budget;
use stoop_xdr::{
    Chain, Decode, DecodeError, DecodeOwned, Encode, Layout, Opaque, OpaqueArray, Quadruple, Reader,
    UNBOUNDED, Writer, Xdr, encoded_len, to_vec,
};

/// `union shape switch (int kind) { case 0: void; case 1: double circle; case 2: corner polygon<9>; case 3: shape *boxed;
/// case 4: string name<7>; case 5: char codes<>; default: hyper other; }`
enum Shape {
    Nothing,
    Circle(f64),
    Polygon(Vec<Corner>),
    Boxed(Option<Box<Shape>>),
    Name(String),
    Codes(Vec<i8>),
    Other(i32, u64),
}

impl Xdr for Shape {
    const LAYOUT: Layout = Layout::variable(4);
}

/// A corner: its fields one after the other.
struct Corner(f32, bool);

impl Xdr for Corner {
    const LAYOUT: Layout = Layout::record(&[f32::LAYOUT, bool::LAYOUT]);
}

impl Encode for Corner {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.value(&self.0);
        writer.value(&self.1);
    }
}

impl Decode<'_> for Corner {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self(reader.value()?, reader.value()?))
    }
}

impl Encode for Shape {
    fn encode(&self, writer: &mut Writer<'_>) {
        match self {
            Self::Nothing => writer.i32(0),
            Self::Circle(radius) => {
                writer.i32(1);
                writer.value(radius);
            }
            Self::Polygon(corners) => {
                writer.i32(2);
                writer.sequence(corners, 9);
            }
            Self::Boxed(shape) => {
                writer.i32(3);
                writer.value(shape);
            }
            Self::Name(name) => {
                writer.i32(4);
                writer.string(name, 7);
            }
            Self::Codes(codes) => {
                writer.i32(5);
                writer.sequence(codes, UNBOUNDED);
            }
            Self::Other(kind, other) => {
                writer.i32(*kind);
                writer.value(other);
            }
        }
    }
}

impl<'a> Decode<'a> for Shape {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match reader.i32()? {
            0 => Self::Nothing,
            1 => Self::Circle(reader.value()?),
            2 => Self::Polygon(reader.sequence(9)?),
            3 => Self::Boxed(reader.value()?),
            4 => Self::Name(reader.text(7)?.into()),
            5 => Self::Codes(reader.sequence(UNBOUNDED)?),
            kind => Self::Other(kind, reader.value()?),
        })
    }
}

/// Read, written and read again it is the same.
fn check<T: Encode + DecodeOwned>(message: &[u8]) {
    let mut reader = Reader::new(message);
    let Ok(value) = reader.value::<T>() else { return };
    let bytes = to_vec(&value).expect("what was read can be written");
    assert_eq!(bytes.len(), reader.position(), "it takes as many bytes as were read");
    assert_eq!(encoded_len(&value), Ok(bytes.len()));
    // The bytes behind the value have raised the budget of the first reader.
    let mut again = Reader::with_budget(&bytes, allocation_budget(message.len()));
    let value = again.value::<T>().expect("it was written");
    assert_eq!(again.finish(), Ok(()));
    assert_eq!(to_vec(&value).as_deref(), Ok(&bytes[..]));
}

fuzz_target!(|input: &[u8]| {
    let Some((kind, message)) = input.split_first() else { return };
    match kind % 12 {
        0 => check::<Vec<u32>>(message),
        1 => check::<Vec<String>>(message),
        2 => check::<Chain<Shape>>(message),
        3 => check::<Vec<Shape>>(message),
        4 => check::<Option<Opaque<Vec<u8>>>>(message),
        5 => check::<Vec<[OpaqueArray<5>; 3]>>(message),
        6 => check::<Vec<Vec<Vec<i16>>>>(message),
        7 => check::<[Option<Quadruple>; 2]>(message),
        8 => check::<Chain<Chain<()>>>(message),
        9 => check::<Box<Option<bool>>>(message),
        10 => check::<Vec<OpaqueArray<0>>>(message),
        _ => check::<[u16; 20]>(message),
    }
});
