//! Remote procedure calls so fast that nobody is tempted to write a special protocol.
