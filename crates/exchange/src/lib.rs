//! The packet exchange protocol, without I/O: packets and the time go in, packets and deadlines come out.
