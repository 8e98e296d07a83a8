//! Text within HTML and SVG.

/// `text` with the characters escaped that have a meaning in XML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
