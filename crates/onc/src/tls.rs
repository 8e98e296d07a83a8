//! The question whether a server goes on under TLS, and its answer (RFC 9289 §4.1).
//!
//! Both are sent in the clear, so that a machine on the way can change them: a caller that wants TLS goes on without it for no answer.

use crate::Xid;
use crate::auth::{Auth, AuthStatus, Flavor};
use crate::message::{Accepted, Call, ProcedureId, Reply, ReplyBody};

/// The body of the verifier in the answer of a server that goes on under TLS.
pub const STARTTLS: [u8; 8] = *b"STARTTLS";

/// The protocol that both ends name in the handshake (ALPN, RFC 9289 §7.2).
pub const PROTOCOL: &[u8] = b"sunrpc";

/// The question: a call of procedure 0 of that version of a program.
pub const fn probe(xid: Xid, program: u32, version: u32) -> Call<'static> {
    let procedure = ProcedureId { program, version, procedure: 0 };
    Call { xid, procedure, credential: Auth { flavor: Flavor::TLS, body: &[] }, verifier: Auth::NONE }
}

/// Whether a call is the question.
///
/// # Errors
/// It is neither the question nor a call with another flavor: the reason for a reply that refuses it.
pub fn is_probe(call: &Call<'_>) -> Result<bool, AuthStatus> {
    if call.credential.flavor != Flavor::TLS {
        return Ok(false);
    }
    let is_valid =
        call.procedure.procedure == 0 && call.credential.body.is_empty() && call.verifier == Auth::NONE;
    if is_valid { Ok(true) } else { Err(AuthStatus::BAD_CREDENTIAL) }
}

/// The answer of a server that goes on under TLS.
pub const fn offer(xid: Xid) -> Reply<'static> {
    let verifier = Auth { flavor: Flavor::NONE, body: &STARTTLS };
    Reply { xid, body: ReplyBody::Accepted { verifier, status: Accepted::Success } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use stoop_xdr::to_vec;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn question_and_answer_are_those_of_rfc_9289() {
        let call = probe(Xid(9), 100_003, 4);
        assert_eq!(to_vec(&call).unwrap(), words(&[9, 0, 2, 100_003, 4, 0, 7, 0, 0, 0]));
        let reply = [&words(&[9, 1, 0, 0, 8])[..], b"STARTTLS", &words(&[0])].concat();
        assert_eq!(to_vec(&offer(Xid(9))).unwrap(), reply);
        assert_eq!(Reply::parse(&reply).map(|(reply, _)| reply), Ok(offer(Xid(9))));
    }

    #[test]
    fn only_a_null_call_with_an_empty_credential_and_verifier_is_the_question() {
        let call = probe(Xid(9), 100_003, 4);
        assert_eq!(is_probe(&call), Ok(true));
        for flavor in [Flavor::NONE, Flavor::SYS, Flavor(77)] {
            assert_eq!(is_probe(&Call { credential: Auth { flavor, body: b"1" }, ..call }), Ok(false));
        }
        let procedure = ProcedureId { procedure: 1, ..call.procedure };
        let credential = Auth { flavor: Flavor::TLS, body: b"1234" };
        let verifier = Auth { flavor: Flavor::NONE, body: &STARTTLS };
        for wrong in [Call { procedure, ..call }, Call { credential, ..call }, Call { verifier, ..call }] {
            assert_eq!(is_probe(&wrong), Err(AuthStatus::BAD_CREDENTIAL));
        }
    }
}
