//! Facts about a type's bytes that hold for every value.

/// Size and alignment of a type in the native form.
///
/// A type is *fixed* when all its values take the same number of bytes; it then lies as a C struct would: every field
/// at a multiple of its own alignment, the whole padded to a multiple of the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    size: Option<usize>,
    align: usize,
    min: usize,
}

impl Layout {
    /// A fixed type of `size` bytes at multiples of `align`, which is a power of two of at most 16.
    pub const fn fixed(size: usize, align: usize) -> Self {
        assert!(align.is_power_of_two() && align <= 16, "an alignment is 1, 2, 4, 8 or 16");
        assert!(size.is_multiple_of(align), "a size is a multiple of the alignment");
        Layout { size: Some(size), align, min: size }
    }

    /// A type whose values differ in size; the smallest takes `min` bytes.
    pub const fn variable(min: usize) -> Self {
        Layout { size: None, align: 1, min }
    }

    /// Fields one after the other: fixed if all of them are.
    pub const fn record(fields: &[Layout]) -> Self {
        let (mut all, mut index) = (Fields::NONE, 0);
        while index < fields.len() {
            all = all.and(fields[index]);
            index += 1;
        }
        all.layout()
    }

    /// `count` of these one after the other.
    pub const fn array(self, count: usize) -> Self {
        match self.size {
            Some(size) => Layout { size: Some(size * count), align: self.align, min: size * count },
            None => Layout::variable(self.min * count),
        }
    }

    /// Bytes of every value, or `None` if values differ.
    #[inline(always)]
    pub const fn size(self) -> Option<usize> {
        self.size
    }

    /// Whether all values take the same number of bytes.
    #[inline(always)]
    pub const fn is_fixed(self) -> bool {
        self.size.is_some()
    }

    /// Fixed types start at a multiple of this; 1 for the others, whose parts are aligned one by one.
    #[inline(always)]
    pub const fn align(self) -> usize {
        self.align
    }

    /// The fewest bytes a value can take. A count of values is checked against it before anything is allocated.
    #[inline(always)]
    pub const fn min(self) -> usize {
        self.min
    }

    /// The size of a fixed type.
    ///
    /// # Panics
    /// If the type is not fixed, which only a wrong `Data` implementation can cause.
    #[inline(always)]
    pub const fn fixed_size(self) -> usize {
        match self.size {
            Some(size) => size,
            None => panic!("only the size of a fixed type is known beforehand"),
        }
    }
}

/// Adds up the layouts of a record's fields.
#[derive(Clone, Copy, Debug)]
pub struct Fields {
    end: usize,
    align: usize,
    min: usize,
    is_fixed: bool,
}

impl Fields {
    /// No fields.
    pub const NONE: Self = Fields { end: 0, align: 1, min: 0, is_fixed: true };

    /// The same, and one more.
    #[inline]
    #[must_use]
    pub const fn and(mut self, field: Layout) -> Self {
        self.min += field.min();
        match field.size() {
            Some(size) => {
                self.end = align_up(self.end, field.align()) + size;
                self.align = if field.align() > self.align { field.align() } else { self.align };
            }
            None => self.is_fixed = false,
        }
        self
    }

    /// The same, and one more if the record has it.
    #[inline]
    #[must_use]
    pub const fn and_if(self, has: bool, field: Layout) -> Self {
        if has { self.and(field) } else { self }
    }

    /// The layout of the record: fixed if all fields are.
    #[inline]
    pub const fn layout(self) -> Layout {
        if self.is_fixed {
            Layout::fixed(align_up(self.end, self.align), self.align)
        } else {
            Layout::variable(self.min)
        }
    }
}

/// The values of a message that come first and have fixed sizes.
#[derive(Clone, Copy, Debug)]
pub struct Leading {
    len: usize,
    is_all: bool,
}

impl Leading {
    /// The layout of values with these layouts, one after the other.
    pub const fn of(values: &[Layout]) -> Self {
        let mut len = 0;
        let mut index = 0;
        while index < values.len() {
            let Some(size) = values[index].size else { return Leading { len, is_all: false } };
            len = align_up(len, values[index].align) + size;
            index += 1;
        }
        Leading { len, is_all: true }
    }

    /// Bytes that they take.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether they take no bytes.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Whether nothing comes after them.
    #[inline(always)]
    pub const fn is_all(self) -> bool {
        self.is_all
    }
}

/// The next multiple of `align`, a power of two.
#[inline(always)]
pub(crate) const fn align_up(position: usize, align: usize) -> usize {
    (position + (align - 1)) & !(align - 1)
}

/// Where counting of positions ends: so far behind every packet that no sum of a position and an offset overflows.
pub(crate) const POSITION_MAX: usize = isize::MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_fixed_fields_lies_as_a_c_struct() {
        #[repr(C)]
        struct Mixed(u8, u64, u16);
        let layout = Layout::record(&[Layout::fixed(1, 1), Layout::fixed(8, 8), Layout::fixed(2, 2)]);
        assert_eq!(layout.size(), Some(size_of::<Mixed>()));
        assert_eq!(layout.align(), align_of::<Mixed>());
    }

    #[test]
    fn one_variable_field_makes_the_record_variable() {
        let layout = Layout::record(&[Layout::fixed(8, 8), Layout::variable(4)]);
        assert_eq!((layout.size(), layout.min()), (None, 12));
    }
}
