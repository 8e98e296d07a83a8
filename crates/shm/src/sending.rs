//! The caller's side of a published call: whether it is answered, and the channel of its arguments, if they are long.
//!
//! A call that has been answered holds no channel. The server can take the last chunk and answer between two looks of the caller, so
//! one look decides both: whether the call is answered, and whether its channel is free.

use crate::{Answers, Filling, Segment};

/// The channel through which the arguments of a call go, as long as the server may look there; for short arguments none.
#[derive(Debug, Default)]
pub struct Sending(Option<(u8, Filling)>);

/// What one look at a call has found.
#[derive(Debug)]
#[must_use = "a channel that is free is given back"]
pub struct Progress {
    /// The server has answered.
    pub is_answered: bool,
    /// The channel of the arguments, if this look has found that the server looks no more at them.
    pub freed: Option<(u8, Filling)>,
}

impl Sending {
    /// The arguments of a call that go through that channel.
    pub fn through(channel: u8, filling: Filling) -> Self {
        Self(Some((channel, filling)))
    }

    /// The message that is on its way.
    pub fn filling(&self) -> Option<&Filling> {
        self.0.as_ref().map(|(_, filling)| filling)
    }

    /// The same, to be filled.
    pub fn filling_mut(&mut self) -> Option<&mut Filling> {
        self.0.as_mut().map(|(_, filling)| filling)
    }

    /// Whether the next chunk can be filled, or the server has emptied the last.
    pub fn can_go_on(&self, segment: &Segment) -> bool {
        self.filling().is_some_and(|filling| match filling.is_done() {
            true => filling.is_emptied(segment),
            false => filling.has_room(segment),
        })
    }

    /// Looks at the call with that number on a lane. After a look that finds the answer the call holds no channel.
    pub fn look(&mut self, segment: &Segment, lane: u16, number: u32) -> Progress {
        let is_answered = Answers::is_there(segment, lane, number);
        let is_over = |filling: &Filling| is_answered || filling.is_done() && filling.is_emptied(segment);
        let is_free = self.filling().is_some_and(is_over);
        Progress { is_answered, freed: if is_free { self.0.take() } else { None } }
    }

    /// The channel of a call that is abandoned, which the server may still look at.
    pub fn take(&mut self) -> Option<(u8, Filling)> {
        self.0.take()
    }
}
