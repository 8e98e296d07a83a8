//! Samples of calls without the cargo feature `account`: there are none.

use crate::account::options::AccountOptions;
use crate::account::steps::ProcedureSteps;
use crate::interface::Interface;

/// The sampled calls of one interface. No value exists, so that nothing is compiled of the code that has one.
pub(crate) enum Samples {}

impl Samples {
    pub(crate) fn of_caller(_: &'static Interface, _: &AccountOptions) -> Option<Self> {
        None
    }

    pub(crate) fn of_server(_: &'static Interface, _: &AccountOptions) -> Option<Self> {
        None
    }

    #[inline(always)]
    pub(crate) fn concern_caller() -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn go_on(&self) -> bool {
        match *self {}
    }

    pub(crate) fn claim(&self, _: u16, _: Option<u64>) {
        match *self {}
    }

    pub(crate) fn steps(&self) -> Vec<ProcedureSteps> {
        match *self {}
    }
}
