//! A message there and a message back over a TCP or Unix connection; the server has a thread for each.

use crate::{GET, HEADER, Header, call_of};
use end::{LONGEST, MARK, Slice};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

pub(crate) fn serve(kind: &str) -> io::Result<String> {
    if kind == "unix" {
        let path = std::env::temp_dir().join(format!("peer-sockets-{}", std::process::id()));
        let listener = UnixListener::bind(&path)?;
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                thread::spawn(move || answer(stream));
            }
        });
        return Ok(format!("unix:{}", path.display()));
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("tcp:{}", listener.local_addr()?);
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || stream.set_nodelay(true).and_then(|()| answer(stream)));
        }
    });
    Ok(address)
}

fn answer(mut stream: impl Read + Write) -> io::Result<()> {
    let (mut call, mut result) = (vec![0; HEADER + LONGEST], vec![MARK; 4 + LONGEST]);
    loop {
        // Most often one read finds header and argument.
        let mut have = 0;
        while have < HEADER || (Header::of(&call).kind != GET && have < HEADER + Header::of(&call).length) {
            match stream.read(&mut call[have..])? {
                0 => return Ok(()),
                more => have += more,
            }
        }
        let header = Header::of(&call);
        let length = if header.kind == GET { header.length.min(LONGEST) } else { 0 };
        result[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        stream.write_all(&result[..4 + length])?;
    }
}

pub(crate) fn caller(kind: &str, to: &str, slice: Slice) -> Box<dyn FnMut()> {
    if kind == "unix" {
        return Box::new(repeated(UnixStream::connect(to).expect("the server's address"), slice));
    }
    let stream = TcpStream::connect(to).expect("the server's address");
    stream.set_nodelay(true).expect("a TCP socket has the option");
    Box::new(repeated(stream, slice))
}

fn repeated(mut stream: impl Read + Write, slice: Slice) -> impl FnMut() {
    let (call, result) = call_of(slice);
    let mut answer = vec![0; 4 + LONGEST];
    move || {
        stream.write_all(&call).expect("the server reads");
        let mut have = 0;
        while have < 4 + result {
            let more = stream.read(&mut answer[have..]).expect("the server answers");
            assert!(more > 0, "the server has gone");
            have += more;
        }
    }
}
