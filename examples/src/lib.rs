//! Programs to start from; each is an example of this package.
