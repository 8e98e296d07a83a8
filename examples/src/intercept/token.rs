//! A bearer token: a client sends it with each call, and a server refuses calls without a good one.
//!
//! **Over `udp:`, `tcp:` and `ether:` anyone on the way can read a token and use it.** There the check keeps out mistakes, and no attacker.
//! Over `unix:` and `shm:` the kernel says which user calls, which no other user of the machine can forge: check
//! [`CallInfo::caller`] there, with a token or without.

use stoop::Metadata;
use stoop::error::Refusal;
use stoop::intercept::{Before, CallInfo, Intercept};

/// The name of the pair, as HTTP has it.
const NAME: &str = "authorization";

/// At a client: sends a token with each call.
///
/// The pair does not go on: procedures that are called with it do not send it to other servers.
#[derive(Clone)]
pub struct SendToken(Metadata);

impl SendToken {
    /// This token.
    pub fn new(token: &str) -> Self {
        Self(Metadata::new().set(NAME, format!("Bearer {token}")))
    }
}

impl Intercept for SendToken {
    fn name(&self) -> &str {
        "token"
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        call.add_metadata(&self.0);
        Before::Go
    }
}

/// At a server: refuses the calls that carry none of some tokens.
#[derive(Clone)]
pub struct CheckToken(Vec<String>);

impl CheckToken {
    /// Any of these is good: an old one beside a new one, while clients change over.
    pub fn new<T: Into<String>>(tokens: impl IntoIterator<Item = T>) -> Self {
        Self(tokens.into_iter().map(Into::into).collect())
    }

    fn is_good(&self, token: &[u8]) -> bool {
        // All are compared, each to its end: how long it takes tells nothing of how much of a guess was right.
        self.0.iter().fold(false, |is_good, good| is_good | is_same(good.as_bytes(), token))
    }
}

/// Compares in a time that depends on the lengths alone.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other));
    one.len() == other.len() && std::hint::black_box(differs) == 0
}

impl Intercept for CheckToken {
    fn name(&self) -> &str {
        "token check"
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        let metadata = call.metadata();
        match metadata.get(NAME).map(|value| value.strip_prefix(b"Bearer ")) {
            None => Before::Refuse(Refusal::denied("it carries no token: bind with a `SendToken`")),
            Some(Some(token)) if self.is_good(token) => Before::Go,
            Some(_) => {
                Before::Refuse(Refusal::denied("its token is not, or no longer, one of this server's"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::greeter::{Greeter, GreeterClient, GreeterServer};
    use stoop::{BindOptions, CallError, Ran, RefusalCode, Server};

    struct English;
    impl Greeter for English {
        fn greet(&self, name: &str) -> String {
            format!("Hello, {name}!")
        }
    }

    #[test]
    fn only_calls_with_a_good_token_run_over_each_transport() {
        let id = std::process::id();
        for (at, address) in
            ["udp://127.0.0.1:0", "tcp://127.0.0.1:0", "unix:@tokens", "shm:tokens", "local:tokens"]
                .into_iter()
                .enumerate()
        {
            let address = address.replace("tokens", &format!("tokens-{id}-{at}"));
            let server = Server::new().export(GreeterServer::new(English));
            let server = server.interceptor(CheckToken::new(["new", "old"])).listen(&address).unwrap();
            let server = server.start().unwrap();
            let bind = |token: &str| {
                let options = BindOptions::new().interceptor(SendToken::new(token));
                GreeterClient::bind_with(&server.uris()[0], &options).unwrap()
            };
            assert_eq!(bind("new").greet("a").unwrap(), "Hello, a!");
            assert_eq!(bind("old").begin().greet("b").wait().unwrap(), "Hello, b!");
            let none = GreeterClient::bind(&server.uris()[0]).unwrap().greet("c").unwrap_err();
            for (error, why) in [
                (none, "no token"),
                (bind("ne").greet("c").unwrap_err(), "not, or no longer"),
                (bind("newer").begin().greet("c").wait().unwrap_err(), "not, or no longer"),
                (bind("").greet("c").unwrap_err(), "not, or no longer"),
            ] {
                let CallError::Refused(refusal, ..) = &error else { panic!("{error}") };
                assert_eq!((refusal.code, error.ran()), (RefusalCode::Denied, Ran::No));
                assert!(refusal.detail.contains(why), "{error}");
            }
        }
    }
}
