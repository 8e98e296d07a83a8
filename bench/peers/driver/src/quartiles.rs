//! The median of some values and their quartiles.

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quartiles {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Quartiles {
    /// Each is one of the values: the least that as large a share of them does not exceed. `None` if there are no values.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        if values.is_empty() {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() as f64 * share).ceil() as usize).saturating_sub(1)];
        Some(Self { low: at(0.25), median: at(0.5), high: at(0.75) })
    }
}

#[cfg(test)]
mod tests {
    use super::Quartiles;

    #[test]
    fn quartiles_are_values() {
        let of = |values: &[f64]| Quartiles::of(values.iter().copied());
        assert_eq!(of(&[4.0, 1.0, 3.0, 2.0]), Some(Quartiles { low: 1.0, median: 2.0, high: 3.0 }));
        assert_eq!(of(&[7.0]), Some(Quartiles { low: 7.0, median: 7.0, high: 7.0 }));
        assert_eq!(of(&[]), None);
    }
}
