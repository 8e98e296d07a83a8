//! One model of an interface and one emitter of stubs, for every front end.
