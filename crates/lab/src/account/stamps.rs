//! Stamps as text, on their way from the server process.

use stoop_probe::{Point, Stamp, Stamps};

/// The order to switch on exactly these points.
pub(crate) fn order_for(points: &[Point]) -> String {
    let numbers = points.iter().map(|point| format!(" {:x}", point.number()));
    format!("{ORDER}{}", numbers.collect::<String>())
}

/// The points that [`order_for`] names; `None` if it is another order.
pub(crate) fn points_in(order: &str) -> Option<Vec<Point>> {
    let numbers = order.strip_prefix(ORDER)?.split_whitespace();
    numbers.map(|number| Point::from_number(u8::from_str_radix(number, 16).ok()?)).collect()
}

const ORDER: &str = "points";

/// The lost stamps, then a word for each stamp: thread, point, and cycle counter in hexadecimal.
pub(crate) fn to_text(stamps: &Stamps) -> String {
    let words = stamps
        .stamps
        .iter()
        .map(|stamp| format!(" {:x}:{:x}:{:x}", stamp.thread, stamp.point.number(), stamp.cycles));
    format!("{}{}", stamps.lost, words.collect::<String>())
}

/// Reads a text of [`to_text`]; `None` if it is no such text.
pub(crate) fn from_text(text: &str) -> Option<Stamps> {
    let mut words = text.split(' ');
    let lost = words.next()?.parse().ok()?;
    let stamps = words.map(stamp).collect::<Option<Vec<_>>>()?;
    Some(Stamps { stamps, lost })
}

fn stamp(word: &str) -> Option<Stamp> {
    let mut parts = word.split(':').map(|part| u64::from_str_radix(part, 16).ok());
    let (thread, point, cycles) = (parts.next()??, parts.next()??, parts.next()??);
    let point = Point::from_number(u8::try_from(point).ok()?)?;
    Some(Stamp { thread: u32::try_from(thread).ok()?, point, cycles })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_come_back_from_text() {
        let stamps = Stamps {
            stamps: vec![
                Stamp { thread: 0, point: Point::CallSeen, cycles: u64::MAX },
                Stamp { thread: 17, point: Point::ResultLeaves, cycles: 5 },
            ],
            lost: 3,
        };
        assert_eq!(from_text(&to_text(&stamps)), Some(stamps));
        assert_eq!(from_text("0"), Some(Stamps::default()));
        assert_eq!(from_text("0 1:99:1"), None);
    }

    #[test]
    fn points_come_back_from_an_order() {
        for points in [&Point::ALL[..], &[Point::ResultSeen], &[]] {
            assert_eq!(points_in(&order_for(points)).as_deref(), Some(points));
        }
        assert_eq!(points_in("cpu"), None);
    }
}
