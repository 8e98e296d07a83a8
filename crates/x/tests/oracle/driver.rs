// The same as driver.c, with the code that the compiler emits. Before it are `verdict.rs` and the list of types.
use std::io::{Read, Write};

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
