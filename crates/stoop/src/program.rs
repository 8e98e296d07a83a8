//! Programs of Sun RPC as the emitter describes them, and the server half of a program.

use stoop_xdr::{DecodeError, EncodeError, Reader, Writer};

/// Description of a version of a program, emitted with the stubs of an interface that has one.
#[derive(Debug)]
pub struct ProgramDescription {
    /// The number of the program.
    pub program: u32,
    /// The number of the version.
    pub version: u32,
    /// Its procedures, in the order of their declaration. The null procedure is among them only if it is declared.
    pub procedures: &'static [ProgramProcedure],
}

/// Description of a procedure of a program.
#[derive(Debug)]
pub struct ProgramProcedure {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Whether it may run more than once for a call (`#[idempotent]`): then its replies need not be kept.
    pub idempotent: bool,
}

/// The server half of a version of a program, which the emitted `…Server` implements.
pub trait Program: Send + Sync + 'static {
    /// Describes the program.
    fn description(&self) -> &'static ProgramDescription;

    /// Runs a procedure with the arguments in `call`, and writes what it returns into `result`. Bytes after the arguments are
    /// ignored, as the servers of Sun RPC do.
    ///
    /// Procedure 0 is the null procedure, which a server answers itself if this says that it is unknown.
    ///
    /// # Errors
    /// Only when the procedure has *not* run.
    fn dispatch(
        &self,
        procedure: u32,
        call: &mut Reader<'_>,
        result: &mut ProgramResult<'_>,
    ) -> Result<(), NotServed>;
}

/// Why a server half did not run a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotServed {
    /// The version has no procedure of that number (PROC_UNAVAIL).
    UnknownProcedure,
    /// The arguments do not decode as values of their types (GARBAGE_ARGS).
    BadArguments(DecodeError),
}

/// Where a procedure leaves its result: behind what a packet holds already.
#[derive(Debug)]
pub struct ProgramResult<'a> {
    packet: &'a mut Vec<u8>,
    start: usize,
    max: usize,
    end: Result<usize, EncodeError>,
}

impl<'a> ProgramResult<'a> {
    /// Room for a result behind the first `start` bytes of `packet`, which grows as it must, up to `max` bytes of result.
    ///
    /// # Panics
    /// If the packet is shorter than `start`.
    pub fn new(packet: &'a mut Vec<u8>, start: usize, max: usize) -> Self {
        assert!(packet.len() >= start, "the result comes behind what the packet holds");
        Self { packet, start, max, end: Ok(start) }
    }

    /// Writes the result: once, or twice if there was not enough room.
    pub fn put(&mut self, write: impl Fn(&mut Writer<'_>)) {
        loop {
            let mut writer = Writer::new(&mut self.packet[self.start..]);
            write(&mut writer);
            match writer.finish() {
                Err(EncodeError::NoRoom { needed, .. }) if needed <= self.max => {
                    self.packet.resize(self.start + needed, 0);
                }
                written => {
                    let too_long = |len: usize| EncodeError::NoRoom { needed: len, room: self.max };
                    let fits = |len: usize| if len <= self.max { Ok(len) } else { Err(too_long(len)) };
                    self.end = written.and_then(fits).map(|len| self.start + len);
                    return;
                }
            }
        }
    }

    /// Where the result ends in the packet.
    ///
    /// # Errors
    /// The result has no XDR form, or a longer one than is allowed. The procedure ran.
    pub fn finish(self) -> Result<usize, EncodeError> {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_grows_to_its_result_and_no_further_than_allowed() {
        let mut packet = vec![7; 4];
        let mut result = ProgramResult::new(&mut packet, 4, 12);
        result.put(|writer| writer.value(&[1_u32, 2, 3]));
        assert_eq!(result.finish(), Ok(16));
        assert_eq!(packet, [[7, 7, 7, 7], [0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 3]].concat());
        let mut result = ProgramResult::new(&mut packet, 4, 8);
        result.put(|writer| writer.value(&[1_u32, 2, 3]));
        assert_eq!(result.finish(), Err(EncodeError::NoRoom { needed: 12, room: 8 }));
    }
}
