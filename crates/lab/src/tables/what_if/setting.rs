//! A call as the laboratory measures it, and two of them in turn.

use crate::callers::Measured;
use crate::network::Network;
use crate::plan::Cell;
use crate::tables::lab::Lab;
use crate::tables::model::{Figure, US};

/// A call, or its bare exchange, on a network whose device may have to do without a feature.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) cell: Cell,
    pub(super) without: Option<Feature>,
}

/// Work that a veth pair leaves out, or does for the kernel, unless it is told otherwise.
#[derive(Clone, Copy)]
pub(super) enum Feature {
    /// The checksums of UDP packets are left out.
    Checksums,
    /// Many datagrams pass the device as one.
    Segmentation,
}

impl Feature {
    /// The function that switches it.
    fn switch(self) -> fn(&Network, bool) -> Result<(), String> {
        match self {
            Feature::Checksums => Network::offload_checksums,
            Feature::Segmentation => Network::offload_segmentation,
        }
    }
}

/// The value of a slice.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// The median of its calls.
    Medians,
    /// The mean: where the kernel's timer lets several packets pass at once, most calls wait for nothing and few for long.
    Means,
}

impl Of {
    /// Microseconds.
    fn figure(self, slices: Vec<Measured>) -> Figure {
        match self {
            Of::Medians => Figure::of_slices(slices.into_iter().map(|slice| slice.samples).collect(), US),
            Of::Means => {
                let calls = slices.iter().map(|slice| slice.calls).sum();
                let mean = |slice: &Measured| {
                    (slice.ended - slice.began).as_secs_f64() * 1e6 / slice.calls.max(1) as f64
                };
                Figure::of(slices.iter().map(mean).collect(), calls)
            }
        }
    }
}

/// How often the calls before and after an improvement take turns: the machine's speed changes within seconds.
const TURNS: u32 = 4;

/// How many pairs of sockets, or of bindings, make calls of which some nanoseconds differ.
pub(super) const PAIRS: u32 = 4;

impl Setting {
    pub(super) fn of(cell: Cell) -> Self {
        Self { cell, without: None }
    }

    pub(super) fn without(cell: Cell, feature: Feature) -> Self {
        Self { cell, without: Some(feature) }
    }

    /// The call in words, the same for the same call.
    pub(super) fn describe(&self) -> String {
        let without = match self.without {
            None => "",
            Some(Feature::Checksums) => ", checksums computed",
            Some(Feature::Segmentation) => ", packets cut before the device",
        };
        self.cell.describe() + without
    }

    /// Does without the feature while `measure` measures.
    fn within<T>(
        &self,
        lab: &mut Lab<'_>,
        measure: impl FnOnce(&mut Lab<'_>) -> Result<T, String>,
    ) -> Result<T, String> {
        let Some(feature) = self.without else { return measure(lab) };
        feature.switch()(&lab.network, false)?;
        let measured = measure(lab);
        feature.switch()(&lab.network, true).and(measured)
    }

    /// Measures the call alone for a share of the time.
    pub(super) fn call(&self, lab: &mut Lab<'_>, turns: u32) -> Result<Vec<Measured>, String> {
        let time = lab.args.time() / turns;
        self.within(lab, |lab| lab.call_alone(&self.cell, time))
    }

    /// Measures the bare exchange alone for a share of the time.
    pub(super) fn floor(&self, lab: &mut Lab<'_>, turns: u32) -> Result<Vec<Measured>, String> {
        let time = lab.args.time() / turns;
        self.within(lab, |lab| lab.floor_alone(&self.cell, time))
    }
}

/// Measures one setting.
pub(super) fn alone(
    lab: &mut Lab<'_>,
    setting: &Setting,
    of: Of,
    measure: fn(&Setting, &mut Lab<'_>, u32) -> Result<Vec<Measured>, String>,
) -> Result<Figure, String> {
    measure(setting, lab, 1).map(|slices| of.figure(slices))
}

/// Measures two settings in turn: the first, the second, the first, and so on.
pub(super) fn in_turn(
    lab: &mut Lab<'_>,
    settings: [&Setting; 2],
    of: Of,
    measure: fn(&Setting, &mut Lab<'_>, u32) -> Result<Vec<Measured>, String>,
) -> Result<[Figure; 2], String> {
    let mut slices = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (setting, slices) in settings.iter().zip(&mut slices) {
            slices.extend(measure(setting, lab, TURNS)?);
        }
    }
    Ok(slices.map(|slices| of.figure(slices)))
}

/// Measures the bare exchange without a feature of the device and with it, in turn.
pub(super) fn floor_in_turn(lab: &mut Lab<'_>, cell: &Cell, feature: Feature) -> Result<[Figure; 2], String> {
    let measured = lab.floor_in_turn(cell, feature.switch());
    feature.switch()(&lab.network, true)?;
    Ok(measured?.map(|slices| Of::Medians.figure(slices)))
}
