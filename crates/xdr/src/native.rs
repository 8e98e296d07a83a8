//! The types of this crate in Stoop's native form, so that values can travel either way.

use crate::{Chain, Quadruple};
use alloc::vec::Vec;
use stoop_marshal::{Data, DecodeError, Description, Layout, Reader, Writer};

/// As a vector of the nodes.
impl<T: Data> Data for Chain<T> {
    const LAYOUT: Layout = <Vec<T> as Data>::LAYOUT;

    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Data::decode(reader).map(Self)
    }

    fn describe(description: &mut Description) {
        <Vec<T>>::describe(description);
    }
}

/// As its bytes.
impl Data for Quadruple {
    const LAYOUT: Layout = <[u8; 16]>::LAYOUT;

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.fixed(self);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.fixed()
    }

    fn describe(description: &mut Description) {
        <[u8; 16]>::describe(description);
    }

    fn store(&self, chunk: &mut [u8]) {
        self.0.store(chunk);
    }

    fn load(chunk: &[u8]) -> Result<Self, DecodeError> {
        Data::load(chunk).map(Self)
    }
}
