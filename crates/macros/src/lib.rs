//! #[stoop::interface] and #[derive(stoop::Data)].
