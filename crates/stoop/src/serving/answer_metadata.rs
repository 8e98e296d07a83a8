//! The metadata of answers: behind a result, now or later.

use crate::error::Failure;
use crate::later::deferred::{Given, Open, ReplyError};
use crate::later::unserved::Unserved;
use crate::metadata::Metadata;
use crate::metadata::served::CallMetadata;
use crate::serving::outcome::Outcome;
use std::sync::Arc;
use stoop_marshal::Writer;
use stoop_wire::metadata::EMPTY;
use stoop_wire::{FailureCode, HEADER_LEN};

/// Puts the metadata of the answer behind the outcome of the call. A result may have `result_max` bytes with it.
pub(super) fn put_behind(
    metadata: &Arc<CallMetadata>,
    outcome: Outcome,
    packet: &mut Vec<u8>,
    result_max: usize,
) -> Outcome {
    let len = match outcome {
        Outcome::Result(len) => len,
        Outcome::Later(later) => {
            let metadata = Arc::clone(metadata);
            return Outcome::Later(Box::new(
                later.redirected(|call| Arc::new(OpenBehind { call, metadata })),
            ));
        }
        outcome => return outcome,
    };
    let answer = metadata.take_answer();
    let block = match block_of_answer(&answer) {
        Ok(block) => block,
        Err(why) => return Outcome::failed(FailureCode::Inexpressible, why),
    };
    let mut result = Writer::new(packet, HEADER_LEN, result_max).behind(len, 0);
    result.scalars(block);
    result.finish().map_or_else(
        |why| Outcome::failed(FailureCode::ResultTooLarge, format!("with its metadata: {why}")),
        Outcome::Result,
    )
}

/// The block behind a result with this metadata.
///
/// # Errors
/// Why there can be none.
fn block_of_answer(answer: &Metadata) -> Result<&[u8], String> {
    match answer.to_send() {
        Ok([]) => Ok(&EMPTY),
        Ok(block) => Ok(block),
        Err(why) => Err(why.to_string()),
    }
}

/// An open call whose answer has metadata behind it.
struct OpenBehind {
    call: Arc<dyn Open>,
    metadata: Arc<CallMetadata>,
}

impl Open for OpenBehind {
    fn answer(&self, given: Given<'_>) -> Result<(), ReplyError> {
        let Given::Result(put) = given else { return self.call.answer(given) };
        self.call.answer(Given::Result(&|result| {
            put(result)?;
            // Not before: interceptors may have added pairs.
            let answer = self.metadata.take_answer();
            let inexpressible =
                |detail| Unserved::Failed(Failure { code: FailureCode::Inexpressible, detail });
            result.scalars(block_of_answer(&answer).map_err(inexpressible)?);
            Ok(())
        }))
    }

    fn is_over(&self) -> bool {
        self.call.is_over()
    }
}
