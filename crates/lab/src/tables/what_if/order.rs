//! The order in which a round of a table predicts and measures.

/// A step of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// This call was measured.
    Measured(String),
    /// The time that turning to this call will save was fixed.
    Predicted(String),
}

/// A call that was measured before its prediction was fixed, if there is one. The call with one improvement may be the present call of
/// another.
pub(super) fn measured_too_early(events: &[Event]) -> Option<&str> {
    events.iter().enumerate().find_map(|(at, event)| match event {
        Event::Predicted(call) => {
            let earlier = Event::Measured(call.clone());
            events[..at].contains(&earlier).then_some(call.as_str())
        }
        Event::Measured(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(call: &str) -> Event {
        Event::Measured(call.into())
    }

    fn predicted(call: &str) -> Event {
        Event::Predicted(call.into())
    }

    #[test]
    fn call_that_is_predicted_first_is_in_order() {
        let events = [
            measured("asleep"),
            predicted("spinning"),
            measured("spinning"),
            predicted("frames"),
            measured("frames"),
        ];
        assert_eq!(measured_too_early(&events), None);
    }

    #[test]
    fn improved_call_that_is_measured_first_is_found() {
        assert_eq!(measured_too_early(&[measured("frames"), predicted("frames")]), Some("frames"));
    }

    #[test]
    fn improved_call_that_is_measured_as_the_present_call_of_another_improvement_is_found() {
        let events = [measured("spinning"), predicted("frames"), predicted("spinning"), measured("frames")];
        assert_eq!(measured_too_early(&events), Some("spinning"));
    }
}
