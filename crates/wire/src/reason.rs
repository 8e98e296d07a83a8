//! Reasons: why a procedure did not run, why it has no result, and why a binding ends.

use core::fmt;

macro_rules! codes {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $code:literal: $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)*
            /// A code of a later version.
            Other(u32),
        }

        impl $name {
            /// The number in the header's time field.
            pub fn code(self) -> u32 {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Other(code) => code,
                }
            }

            /// The reason with this number.
            pub fn from_code(code: u32) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    other => Self::Other(other),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($text),)*
                    Self::Other(code) => write!(f, "reason {code}, which this version does not know"),
                }
            }
        }
    };
}

codes! {
    /// Why a server would not run a procedure.
    RefusalCode {
        /// The server does not know the binding: it was restarted, or has released a silent caller.
        UnknownBinding = 1: "the server does not know this binding",
        /// The interface of the binding has no procedure of that number.
        UnknownProcedure = 2: "the interface has no such procedure",
        /// The arguments cannot be decoded.
        BadArguments = 3: "the server could not decode the arguments",
        /// All workers are busy and the queue is full.
        Overloaded = 4: "the server is overloaded: its workers are busy and its queue is full",
        /// The server is shutting down.
        ShuttingDown = 5: "the server is shutting down",
        /// The deadline passed before a worker was free. The server refuses a call that still waits shortly before.
        DeadlinePassed = 6: "its time was over before a worker was free",
        /// The message is larger than this server accepts.
        MessageTooLarge = 7: "the message is larger than the server takes",
        /// The binding uses more lanes than this server allows.
        TooManyLanes = 8: "the binding uses more lanes than the server allows",
        /// The call asks for a result larger than the transport carries.
        ResultTooLarge = 9: "the call asks for a larger result than can travel",
        /// The caller cancelled the call before it began.
        Cancelled = 10: "the call was cancelled before it began",
        /// Not all packets of the call arrived, and no more came.
        Incomplete = 11: "only parts of the call arrived, and then no more",
        /// An interceptor or a list of callers of the server, or the procedure before it did anything, does not let this caller call.
        Denied = 12: "the server denies this call",
        /// The procedure is given a handle of the object that its caller offers, and this one offers none, or none at that moment.
        NoCallback = 13: "its caller offers no object to be called back, or not yet",
    }
}

codes! {
    /// Why one end of a binding ends it, over shared memory.
    UnbindReason {
        /// It received something that the protocol does not allow.
        Disorder = 1: "what it received made no sense",
        /// The server is shutting down.
        ShuttingDown = 2: "it is shutting down",
        /// The system had no descriptor or no memory left.
        NoResources = 3: "its process has no descriptor or no memory left",
        /// Too many connections have not bound yet, and this one was the oldest.
        Crowded = 4: "too many connections to it were not bound yet",
        /// No lane is left: the server owes answers on all of them.
        Owing = 5: "answers were owed on all of its lanes",
    }
}

codes! {
    /// Why there is no result of a procedure that ran.
    FailureCode {
        /// The procedure panicked.
        Panicked = 1: "the procedure panicked",
        /// The result is larger than the transport carries.
        ResultTooLarge = 2: "the result is larger than can travel",
        /// The server no longer holds the result.
        ResultGone = 3: "the server no longer holds the result",
        /// The procedure had given no result before the call's deadline, by the server's clock: it returned later, or runs still.
        FinishedTooLate = 4: "the procedure gave no result before the call's deadline",
        /// The procedure left its answer for later, and then nothing was there any more that could give it.
        Abandoned = 5: "the procedure left its answer for later, and its reply was dropped unsent",
        /// The answer cannot be told to this caller: it has a variant that the caller's revision of the interface does not know, or metadata
        /// that cannot travel.
        Inexpressible = 7: "its answer cannot be told to this caller",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_later_versions_are_preserved() {
        for code in 0..40 {
            assert_eq!(RefusalCode::from_code(code).code(), code);
            assert_eq!(FailureCode::from_code(code).code(), code);
        }
    }
}
