//! Random encodings of the types of a model, made from the model alone, and changed ones.

use std::collections::HashMap;
use stoop_x::model::{Kind, Length, Model, Scalar, Selector, Type, Union};

/// Where values do not go deeper, if that can be.
const DEPTH: u32 = 6;

/// A sequence of numbers that looks random, and is the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Makes encodings.
pub(crate) struct Values<'m> {
    kinds: HashMap<&'m str, &'m Kind>,
    random: Random,
    bytes: Vec<u8>,
}

impl<'m> Values<'m> {
    pub(crate) fn new(model: &'m Model, seed: u64) -> Self {
        let kinds = model.definitions.iter().map(|definition| (definition.name.as_str(), &definition.kind));
        Values { kinds: kinds.collect(), random: Random::new(seed), bytes: Vec::new() }
    }

    /// The encoding of a value of a type.
    pub(crate) fn encoding(&mut self, name: &str) -> Vec<u8> {
        self.named(name, 0);
        std::mem::take(&mut self.bytes)
    }

    /// The encoding with a word changed, or with less at its end.
    pub(crate) fn changed(&mut self, encoding: &[u8]) -> Vec<u8> {
        let mut changed = encoding.to_vec();
        let words = changed.len() / 4;
        if words == 0 {
            return changed;
        }
        if self.random.below(3) == 0 {
            changed.truncate(4 * self.random.below(words));
            return changed;
        }
        let word = [0, 1, 2, 3, 7, 0x7fff_ffff, u32::MAX, 0x0100_0000, 0x4142_4344][self.random.below(9)];
        let at = 4 * self.random.below(words);
        changed[at..at + 4].copy_from_slice(&word.to_be_bytes());
        changed
    }

    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_be_bytes());
    }

    fn named(&mut self, name: &str, depth: u32) {
        match self.kinds[name] {
            Kind::Typedef(ty) => self.value(ty, depth),
            Kind::Enumeration(values) => {
                let value = values[self.random.below(values.len())].value;
                self.word(value.cast_unsigned());
            }
            Kind::Structure(structure) => {
                structure.fields.iter().for_each(|field| self.value(&field.ty, depth + 1))
            }
            Kind::Union(union) => self.union(union, depth + 1),
            other => panic!("{name} is no type: {other:?}"),
        }
    }

    fn value(&mut self, ty: &Type, depth: u32) {
        match ty {
            Type::Scalar(scalar) => self.scalar(*scalar),
            Type::Named(name) => self.named(name, depth),
            Type::External(name) => panic!("the corpus has no external types: {name}"),
            Type::FixedOpaque(length) => self.padded(length.value as usize, 0..=255),
            Type::Opaque(bound) => {
                let length = self.length(bound.as_ref(), 40);
                self.word(length as u32);
                self.padded(length, 0..=255);
            }
            Type::String(bound) => {
                let length = self.length(bound.as_ref(), 40);
                self.word(length as u32);
                self.padded(length, b' '..=b'~');
            }
            Type::Array(element, length) => (0..length.value).for_each(|_| self.value(element, depth)),
            Type::Sequence(element, bound) => {
                let length = if depth > DEPTH { 0 } else { self.length(bound.as_ref(), 4) };
                self.word(length as u32);
                (0..length).for_each(|_| self.value(element, depth + 1));
            }
            Type::Optional(value) | Type::Boxed(value) => {
                let is_there = depth <= DEPTH && self.random.below(2) == 1;
                self.word(is_there.into());
                if is_there {
                    self.value(value, depth + 1);
                }
            }
            Type::Chain(node) => {
                for _ in 0..if depth > DEPTH { 0 } else { self.random.below(4) } {
                    self.word(1);
                    self.named(node, depth + 1);
                }
                self.word(0);
            }
        }
    }

    /// A length within a bound, the bound itself now and then.
    fn length(&mut self, bound: Option<&Length>, usual: usize) -> usize {
        let bound = bound.map_or(usize::MAX, |bound| bound.value as usize);
        if bound <= 2000 && self.random.below(8) == 0 {
            bound
        } else {
            self.random.below(usual.min(bound) + 1)
        }
    }

    fn padded(&mut self, length: usize, range: std::ops::RangeInclusive<u8>) {
        let span = usize::from(range.end() - range.start()) + 1;
        for _ in 0..length {
            let byte = range.start() + self.random.below(span) as u8;
            self.bytes.push(byte);
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn scalar(&mut self, scalar: Scalar) {
        let number = self.random.next();
        match scalar {
            Scalar::Bool => self.word((number & 1) as u32),
            Scalar::I8 => self.word(i32::from(number as i8).cast_unsigned()),
            Scalar::U8 => self.word(u32::from(number as u8)),
            Scalar::I16 => self.word(i32::from(number as i16).cast_unsigned()),
            Scalar::U16 => self.word(u32::from(number as u16)),
            Scalar::I32 | Scalar::U32 => self.word(number as u32),
            Scalar::I64 | Scalar::U64 => self.bytes.extend(number.to_be_bytes()),
            // Numbers of which no bits are lost on the way through a register.
            Scalar::F32 => self.bytes.extend((number as i32 as f32).to_be_bytes()),
            Scalar::F64 => self.bytes.extend((number as i64 as f64).to_be_bytes()),
            Scalar::Quadruple => self.bytes.extend([7; 16]),
        }
    }

    fn union(&mut self, union: &Union, depth: u32) {
        let labels: Vec<_> =
            union.arms.iter().flat_map(|arm| arm.labels.iter().map(move |label| (label, arm))).collect();
        let other = union.default.as_ref().zip(self.other_discriminant(union));
        let choice = self.random.below(labels.len() + usize::from(other.is_some()));
        let (discriminant, arm) = match labels.get(choice) {
            Some((label, arm)) => (label.value, *arm),
            None => {
                let (arm, discriminant) = other.expect("the choice is among what there is");
                (discriminant, arm)
            }
        };
        match union.selector {
            Selector::Scalar(Scalar::I64 | Scalar::U64) => {
                self.bytes.extend((discriminant as i64).to_be_bytes())
            }
            _ => self.word(discriminant as u32),
        }
        if let Some(field) = &arm.field {
            self.value(&field.ty, depth);
        }
    }

    /// A discriminant without a label.
    fn other_discriminant(&mut self, union: &Union) -> Option<i128> {
        let is_free =
            |value: &i128| !union.arms.iter().flat_map(|arm| &arm.labels).any(|label| label.value == *value);
        match &union.selector {
            Selector::Enumeration(name) => {
                let Kind::Enumeration(values) = self.kinds[name.as_str()] else {
                    panic!("{name} is an enumeration")
                };
                values.iter().map(|value| i128::from(value.value)).find(is_free)
            }
            Selector::Scalar(Scalar::Bool) => [0, 1].into_iter().find(is_free),
            Selector::Scalar(_) => {
                let start = self.random.below(100) as i128;
                (start..).find(is_free)
            }
        }
    }
}
