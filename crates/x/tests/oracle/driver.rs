// The same as driver.c, with the code that the compiler emits. The list of types is in place of TYPES.
use std::io::{Read, Write};
use stoop_xdr::{DecodeOwned, Encode, Fault, Reader};

fn main() {
    let (mut input, mut output) = (std::io::stdin().lock(), Vec::new());
    let mut head = [0; 8];
    while input.read_exact(&mut head).is_ok() {
        let [ty, length] = [0, 4].map(|at| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap()));
        let mut bytes = vec![0; length as usize];
        input.read_exact(&mut bytes).unwrap();
        let (verdict, read, encoding) = TYPES[ty as usize](&bytes);
        for number in [verdict, read as u32, encoding.len() as u32] {
            output.extend(number.to_ne_bytes());
        }
        output.extend(encoding);
    }
    std::io::stdout().write_all(&output).unwrap();
}

/// 1 for an accepted value; 0 for a refused one, or 2 if libtirpc is known to be lenient there.
fn run<T: DecodeOwned + Encode>(bytes: &[u8]) -> (u32, usize, Vec<u8>) {
    let mut reader = Reader::new(bytes);
    match reader.value::<T>() {
        Ok(value) => (1, reader.position(), stoop_xdr::to_vec(&value).unwrap()),
        Err(error) => match error.fault {
            // Any number but 0 is TRUE, an enum is any int, small integers are cut to their size, a string is any bytes.
            Fault::NotBool { .. } | Fault::UnknownValue { .. } | Fault::OutOfRange { .. } | Fault::NotUtf8 => (2, 0, Vec::new()),
            _ => (0, 0, Vec::new()),
        },
    }
}
