//! The named points in the life of a call.

/// A point that a call passes, in the order of a call that fits into one packet each way. The procedures of the run time
/// have the names of Firefly §3.1: stub, Starter, Transporter, Receiver, Ender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Point {
    /// Caller: the client stub begins.
    StubBegun,
    /// Caller: the Starter has found the thread's lane and its call packet.
    CallStarted,
    /// Caller: the stub has stored the arguments in the call packet.
    ArgumentsWritten,
    /// Caller: the Transporter has finished the header and hands the call packet over: to the system by `send` or `write`, or to
    /// the server by publishing it in shared memory.
    CallLeaves,
    /// Caller: `send` has returned.
    CallLeft,
    /// Server: the Receiver has the call packet: `recv` has returned, or it has seen the call in shared memory.
    CallSeen,
    /// Server: the Receiver has found binding and lane, and the call is new: it will run.
    CallFound,
    /// Server: the dispatch to the server stub begins.
    ServerStubBegun,
    /// Server: the stub has read the arguments and calls the procedure.
    ProcedureBegun,
    /// Server: the procedure has returned.
    ProcedureEnded,
    /// Server: the stub has written the result behind the header of the result packet.
    ServerStubEnded,
    /// Server: the Receiver has finished the header and hands the result packet over.
    ResultLeaves,
    /// Server: `send` has returned.
    ResultLeft,
    /// Caller: the Transporter has the result packet.
    ResultSeen,
    /// Caller: the result belongs to this thread's call.
    ResultFound,
    /// Caller: the Transporter returns to the stub.
    TransportEnded,
    /// Caller: the stub has read the result.
    ResultRead,
    /// Caller: the Ender has given the lane back, and the stub returns.
    StubEnded,
}

impl Point {
    /// All points, in the order of a call.
    pub const ALL: [Point; 18] = [
        Point::StubBegun,
        Point::CallStarted,
        Point::ArgumentsWritten,
        Point::CallLeaves,
        Point::CallLeft,
        Point::CallSeen,
        Point::CallFound,
        Point::ServerStubBegun,
        Point::ProcedureBegun,
        Point::ProcedureEnded,
        Point::ServerStubEnded,
        Point::ResultLeaves,
        Point::ResultLeft,
        Point::ResultSeen,
        Point::ResultFound,
        Point::TransportEnded,
        Point::ResultRead,
        Point::StubEnded,
    ];

    /// The position in [`ALL`](Self::ALL).
    #[inline(always)]
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The point with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Point> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The step of a call that ends at this point, in words.
    #[must_use]
    pub fn step(self) -> &'static str {
        match self {
            Point::StubBegun => "calling program: loop to repeat the call",
            Point::CallStarted => "Starter: find lane and call packet",
            Point::ArgumentsWritten => "calling stub: store the arguments",
            Point::CallLeaves => "Transporter: register the call, finish the header",
            Point::CallLeft => "system call: send the call packet",
            Point::CallSeen => "the way to the server",
            Point::CallFound => "Receiver: find binding and lane, accept the call",
            Point::ServerStubBegun => "Receiver: prepare the call",
            Point::ProcedureBegun => "server stub: read the arguments",
            Point::ProcedureEnded => "the procedure",
            Point::ServerStubEnded => "server stub: write the result",
            Point::ResultLeaves => "Receiver: finish the result packet",
            Point::ResultLeft => "system call: send the result packet",
            Point::ResultSeen => "the way back to the caller",
            Point::ResultFound => "Transporter: match the result with the call",
            Point::TransportEnded => "Transporter: return to the stub",
            Point::ResultRead => "calling stub: read the result",
            Point::StubEnded => "Ender: give the lane back",
        }
    }

    /// Whether the server passes it.
    #[must_use]
    pub fn is_servers(self) -> bool {
        (Point::CallSeen..=Point::ResultLeft).contains(&self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positions() {
        for (position, point) in Point::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(point.number()), position);
            assert_eq!(Point::from_number(position as u8), Some(point));
        }
        assert_eq!(Point::from_number(Point::ALL.len() as u8), None);
    }
}
