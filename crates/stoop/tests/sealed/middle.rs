//! A proxy in front of a server of a byte stream, which sees each message in the clear and each record, and changes what it passes on.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use stoop_wire::{HEADER_LEN, Header, Kind};

/// Bytes of a record besides its data.
const RECORD_OVERHEAD: usize = 4 + 16;

/// One message in the clear, or one record.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) to_server: bool,
    pub(crate) is_sealed: bool,
    /// Its place among those of its direction and connection that are alike, sealed or not.
    pub(crate) place: usize,
}

/// A proxy. It serves connections until the program ends.
pub(crate) struct Middle {
    pub(crate) uri: String,
    pub(crate) seen: Arc<Mutex<Vec<Frame>>>,
}

impl Frame {
    /// The kind of a message in the clear.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let header = self.bytes.first_chunk::<HEADER_LEN>().filter(|_| !self.is_sealed)?;
        Header::from_bytes(header).ok().map(|header| header.kind)
    }
}

impl Middle {
    /// Passes on what `change` makes of each frame; without anything, the connection is cut.
    pub(crate) fn new(uri: &str, change: impl FnMut(&Frame) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let (key, server) = uri.strip_prefix("tcp://").unwrap().split_once('@').unwrap();
        let server: SocketAddr = server.parse().unwrap();
        let front = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("tcp://{key}@{}", front.local_addr().unwrap());
        let (seen, change) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(change)));
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for caller in front.incoming() {
                let caller = caller.unwrap();
                let Ok(server) = TcpStream::connect(server) else { continue };
                let is_sealed = Arc::new(AtomicBool::new(false));
                for to_server in [true, false] {
                    let (mut from, mut to) = (caller.try_clone().unwrap(), server.try_clone().unwrap());
                    if !to_server {
                        std::mem::swap(&mut from, &mut to);
                    }
                    let (is_sealed, log, change) =
                        (Arc::clone(&is_sealed), Arc::clone(&log), Arc::clone(&change));
                    thread::spawn(move || {
                        let mut places = [0; 2];
                        while let Ok(frame) = next(&mut from, to_server, &is_sealed, &mut places) {
                            log.lock().unwrap().push(frame.clone());
                            let passed = change.lock().unwrap()(&frame);
                            if passed.is_empty() || passed.iter().any(|bytes| to.write_all(bytes).is_err()) {
                                break;
                            }
                        }
                        let _ = from.shutdown(Shutdown::Both);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { uri, seen }
    }
}

/// The next frame of a connection.
fn next(
    from: &mut TcpStream,
    to_server: bool,
    is_sealed: &AtomicBool,
    places: &mut [usize; 2],
) -> std::io::Result<Frame> {
    let mut bytes = vec![0; 4];
    from.read_exact(&mut bytes)?;
    // The server seals nothing before it has the caller's last message in the clear.
    let sealed = is_sealed.load(Ordering::SeqCst);
    let rest = match sealed {
        true => {
            (u32::from_le_bytes(bytes[..4].try_into().unwrap()) & 0x7fff_ffff) as usize + RECORD_OVERHEAD - 4
        }
        false => HEADER_LEN - 4,
    };
    bytes.resize(4 + rest, 0);
    from.read_exact(&mut bytes[4..])?;
    if !sealed {
        let header = Header::from_bytes(bytes.first_chunk().unwrap()).unwrap();
        bytes.resize(HEADER_LEN + header.message_len as usize, 0);
        from.read_exact(&mut bytes[HEADER_LEN..])?;
        is_sealed.fetch_or(header.kind == Kind::Unbind, Ordering::SeqCst);
    }
    let place = &mut places[usize::from(sealed)];
    *place += 1;
    Ok(Frame { bytes, to_server, is_sealed: sealed, place: *place - 1 })
}
