// Decodes a value and encodes it again.
use stoop_xdr::{DecodeOwned, Encode, Fault, Reader};

/// 1 for an accepted value, how many bytes were read, and the encoding; 0 for a refused one, or 2 if libtirpc is known to be lenient
/// there.
pub(crate) fn run<T: DecodeOwned + Encode>(bytes: &[u8]) -> (u32, usize, Vec<u8>) {
    let mut reader = Reader::new(bytes);
    match reader.value::<T>() {
        Ok(value) => (1, reader.position(), stoop_xdr::to_vec(&value).unwrap()),
        Err(error) => match error.fault {
            // Any number but 0 is TRUE, an enum is any int, small integers are cut to their size, a string is any bytes.
            Fault::NotBool { .. }
            | Fault::UnknownValue { .. }
            | Fault::OutOfRange { .. }
            | Fault::NotUtf8 => (2, 0, Vec::new()),
            _ => (0, 0, Vec::new()),
        },
    }
}
