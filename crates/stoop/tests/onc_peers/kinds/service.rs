//! The procedures of both versions; `server.c` has the same ones.

use super::sample::sample;
use super::stubs::{Answer, Blob, Colour, Everything, Kinds1, Kinds2, Label, Nodes, Numbers, Point, Reading};
use std::sync::{Mutex, PoisonError};

/// The name that `keep` was given last.
#[derive(Default)]
pub(super) struct Service(Mutex<Option<Label>>);

impl Kinds1 for Service {
    /// Answers a value that is not the caller's sample by sample 0, which no caller expects.
    fn next(&self, number: i32, value: &Everything) -> Everything {
        let is_right = (0..100).contains(&number) && *value == sample(number);
        sample(if is_right { number + 1 } else { 0 })
    }

    fn sum(&self, first: i32, second: &Point, numbers: &Numbers) -> i32 {
        first + second.x + second.y as i32 + numbers.0.iter().sum::<i32>()
    }

    fn join(&self, first: &str, second: &Label) -> String {
        format!("{first}{}", second.0)
    }

    fn turn(&self, nodes: &Nodes) -> Nodes {
        nodes.iter().rev().cloned().collect()
    }

    fn read(&self, number: i32) -> Reading {
        sample(number).got
    }

    fn reverse(&self, bytes: &Blob) -> Blob {
        Blob(bytes.0.iter().rev().copied().collect())
    }

    fn keep(&self, name: &Label) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.clone());
    }

    fn kept(&self) -> Answer {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kept.map_or(Answer::False, Answer::True)
    }
}

impl Kinds2 for Service {
    fn total(&self, numbers: &Numbers) -> i64 {
        numbers.0.iter().copied().map(i64::from).sum()
    }

    fn mix(&self, first: Colour, second: Colour) -> Colour {
        if first == second { first } else { Colour::Blue }
    }
}
