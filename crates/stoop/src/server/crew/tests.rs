//! Tests of the crew.
