//! Mistakes in an interface, each at its token.

use quote::ToTokens;
use syn::Error;

/// Mistakes found so far.
#[derive(Default)]
pub struct Mistakes(Option<Error>);

impl Mistakes {
    /// Adds a mistake at `tokens`, with what to write instead.
    pub fn add(&mut self, tokens: impl ToTokens, advice: impl std::fmt::Display) {
        self.extend(Error::new_spanned(tokens, advice));
    }

    /// Adds mistakes.
    pub fn extend(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// `Err` if there was one.
    ///
    /// # Errors
    /// All of them.
    pub fn into_result(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), Err)
    }
}
