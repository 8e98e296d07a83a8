//! Sockets, the host and the wait: everything of Stoop that touches the operating system.
