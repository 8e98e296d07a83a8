//! What an answer means to the caller.

use crate::error::{CallError, Failure, FailureCode, Refusal, RefusalCode};
use crate::transport::shm::caller::session::Session;
use stoop_shm::{Answer, AnswerKind};

/// Why there is no result; `None` if there is one.
pub(crate) fn why_no_result(answer: &Answer, message: &[u8]) -> Option<CallError> {
    let detail = || String::from_utf8_lossy(message).into_owned();
    match answer.kind {
        AnswerKind::Result => None,
        AnswerKind::Refusal => {
            let code = RefusalCode::from_code(answer.word);
            Some(CallError::Refused(Refusal { code, detail: detail() }))
        }
        AnswerKind::Failure => {
            let code = FailureCode::from_code(answer.word);
            Some(CallError::Failed(Failure { code, detail: detail() }))
        }
    }
}

/// What is said of a result that is longer than the caller takes.
pub(crate) fn too_long(session: &Session, len: usize) -> String {
    format!("it has {len} bytes, and `BindOptions::max_message` allows {}", session.longest_result)
}
