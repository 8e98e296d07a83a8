//! The two phases of a table: first the savings are predicted, then the improved calls are measured.
//!
//! The types keep the order. Only [`Present`] can make a [`Prediction`], and only [`Improving`], which takes the place of `Present`,
//! measures improved calls, each against the prediction that it is given. Neither knows anything of earlier rounds.

use super::order::{Event, measured_too_early};
use super::setting::{Feature, Of, Setting, alone, floor_in_turn, in_turn};
use crate::args::{Procedure, Transport, Waiting};
use crate::plan::Cell;
use crate::tables::lab::Lab;
use crate::tables::model::{Figure, InRound};
use crate::tables::parts::Parts;
use std::rc::Rc;

/// The first phase: present calls, their accounts, and bare exchanges.
pub(super) struct Present<'l, 'a> {
    lab: &'l mut Lab<'a>,
    events: Vec<Event>,
    accounts: Vec<(Setting, Rc<Parts>)>,
}

/// The time that an improvement will save, in microseconds. It does not change any more.
pub(super) struct Prediction {
    /// The improved call in words.
    improved: String,
    saving: f64,
    fixed_s: f64,
}

/// The second phase: calls before and after improvements.
pub(super) struct Improving<'l, 'a> {
    lab: &'l mut Lab<'a>,
    events: Vec<Event>,
}

/// The call before an improvement and with it, and the prediction.
pub(super) struct Tried {
    pub(super) before: Figure,
    pub(super) after: Figure,
    pub(super) prediction: InRound,
}

impl<'l, 'a> Present<'l, 'a> {
    pub(super) fn new(lab: &'l mut Lab<'a>) -> Self {
        Self { lab, events: Vec::new(), accounts: Vec::new() }
    }

    /// A present call.
    pub(super) fn call(&mut self, setting: &Setting, of: Of) -> Result<Figure, String> {
        self.lab.clear()?;
        self.events.push(Event::Measured(setting.describe()));
        alone(self.lab, setting, of, Setting::call)
    }

    /// Microseconds that the second present call takes less than the first; measured in turn.
    pub(super) fn calls_differ(&mut self, settings: [&Setting; 2], of: Of) -> Result<f64, String> {
        self.events.extend(settings.map(|setting| Event::Measured(setting.describe())));
        let [first, second] = in_turn(self.lab, settings, of, Setting::call)?;
        Ok(first.minus(&second).median)
    }

    /// The account of a present call over UDP.
    pub(super) fn account(&mut self, procedure: Procedure, waiting: Waiting) -> Result<Rc<Parts>, String> {
        let setting = Setting::of(Cell { procedure, waiting, ..Cell::NULL });
        if let Some((_, parts)) = self.accounts.iter().find(|(of, _)| of.cell == setting.cell) {
            return Ok(Rc::clone(parts));
        }
        self.events.push(Event::Measured(setting.describe()));
        let parts = Rc::new(Parts::of(self.lab, Transport::Udp, procedure, waiting)?);
        self.accounts.push((setting, Rc::clone(&parts)));
        Ok(parts)
    }

    /// A bare exchange.
    pub(super) fn floor(&mut self, setting: &Setting, of: Of) -> Result<Figure, String> {
        alone(self.lab, setting, of, Setting::floor)
    }

    /// Microseconds that the bare exchange of the second setting takes less than that of the first; measured in turn.
    pub(super) fn floors_differ(&mut self, settings: [&Setting; 2], of: Of) -> Result<f64, String> {
        let [old, new] = in_turn(self.lab, settings, of, Setting::floor)?;
        Ok(old.minus(&new).median)
    }

    /// Microseconds that the bare exchange takes less with a feature of the device than without it.
    pub(super) fn floor_differs(&mut self, cell: &Cell, feature: Feature) -> Result<f64, String> {
        let [without, with] = floor_in_turn(self.lab, cell, feature)?;
        Ok(without.minus(&with).median)
    }

    /// Fixes the time that turning to the call `improved` will save.
    pub(super) fn fix(&mut self, improved: String, saving: f64) -> Prediction {
        self.events.push(Event::Predicted(improved.clone()));
        Prediction { improved, saving, fixed_s: self.lab.seconds() }
    }

    /// Ends the phase: from now on nothing can be predicted.
    pub(super) fn end(self) -> Improving<'l, 'a> {
        Improving { lab: self.lab, events: self.events }
    }
}

impl Prediction {
    /// A prediction that nothing here can confirm.
    pub(super) fn unconfirmed(self) -> InRound {
        InRound { value: self.saving, fixed_s: self.fixed_s, measured_s: None }
    }
}

impl Improving<'_, '_> {
    /// Measures the call before an improvement and with it, in turn, which `make` does.
    pub(super) fn measure(
        &mut self,
        prediction: Prediction,
        make: impl FnOnce(&mut Lab<'_>) -> Result<[Figure; 2], String>,
    ) -> Result<Tried, String> {
        self.lab.clear()?;
        let Prediction { improved, saving, fixed_s } = prediction;
        self.events.push(Event::Measured(improved));
        let measured_s = Some(self.lab.seconds());
        let [before, after] = make(self.lab)?;
        Ok(Tried { before, after, prediction: InRound { value: saving, fixed_s, measured_s } })
    }

    /// Ends the round of the table.
    ///
    /// # Panics
    /// An improved call was also a present call, and was measured before its prediction was fixed.
    pub(super) fn end(self) {
        let too_early = measured_too_early(&self.events);
        assert!(too_early.is_none(), "{too_early:?} was measured before its prediction was fixed");
    }
}
