//! Outcomes of calls without handles.

use crate::error::{CallError, debug_as_display};
use std::fmt;

/// Outcomes of the one-way and detached calls of a client that were waited for (`close` of a client,
/// [`Binding::flush`](crate::Binding::flush)), when not all of them have returned.
///
/// `{:?}` shows the same sentence as `{}`.
///
/// ```
/// use std::time::Duration;
/// # #[stoop::interface] trait Adder { fn add(&self, a: u32, b: u32) -> u32; #[one_way] fn note(&self, sum: u32); }
/// # struct Two;
/// # impl Adder for Two { fn add(&self, a: u32, b: u32) -> u32 { a + b } fn note(&self, _: u32) {} }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = stoop::Server::new().export(AdderServer::new(Two)).listen("local:close-error")?.start()?;
/// # let client = AdderClient::bind("local:close-error")?;
/// client.note(3)?;
/// match client.close(Duration::from_secs(1)) {
///     Ok(()) => println!("all have returned"),
///     Err(left) => println!("{} go on, {} gave no result: {left}", left.outstanding, left.failed),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct CloseError {
    /// Calls that had not ended when the time was over. They go on, until their results, their deadlines or the end of the process.
    pub outstanding: usize,
    /// Calls that ended without a result since this was last asked.
    pub failed: usize,
    /// Why the first of these ended so; it says whether it ran.
    pub cause: Option<CallError>,
    /// The number of the procedure of `cause`, if it is known: until the binding has named it there.
    pub(crate) procedure: Option<u16>,
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outstanding, failed, cause, .. } = self;
        if *outstanding > 0 {
            write!(f, "{outstanding} one-way or detached calls have not ended; allow them more time")?;
        }
        if *outstanding > 0 && *failed > 0 {
            f.write_str(". ")?;
        }
        if *failed > 0 {
            write!(f, "{failed} one-way or detached calls gave no result")?;
        }
        match cause {
            Some(cause) => write!(f, "; the first: {cause}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CloseError {}

debug_as_display!(CloseError);

#[cfg(test)]
mod tests {
    use crate::error::SendError;
    use crate::error::close::*;

    #[test]
    fn a_report_tells_both_numbers_and_the_first_cause() {
        let cause = Some(CallError::not_sent(SendError::Closed));
        let report = CloseError { outstanding: 2, failed: 3, cause, procedure: None }.to_string();
        assert!(report.starts_with("2 one-way or detached calls have not ended"), "{report}");
        assert!(
            report.contains(". 3 one-way or detached calls gave no result; the first: not sent"),
            "{report}"
        );
        let report = CloseError { outstanding: 0, failed: 1, cause: None, procedure: None }.to_string();
        assert_eq!(report, "1 one-way or detached calls gave no result");
    }
}
