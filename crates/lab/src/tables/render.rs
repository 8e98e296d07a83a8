//! The forms of a run: text, JSON, and one page of HTML.

pub(crate) mod html;
pub(crate) mod json;
mod number;
mod plot;
pub(crate) mod text;
mod xml;
