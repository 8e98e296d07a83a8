//! The stoop command.

fn main() {}
