//! Numbers as text, with three or four significant digits.

/// `value` with about four significant digits.
pub(super) fn number(value: f64) -> String {
    let magnitude = value.abs();
    match magnitude {
        _ if !value.is_finite() => "–".into(),
        _ if magnitude >= 9999.5 => grouped(value),
        _ if magnitude >= 1000.0 => format!("{value:.0}"),
        _ if magnitude >= 100.0 => format!("{value:.1}"),
        _ if magnitude >= 10.0 => format!("{value:.2}"),
        _ if magnitude >= 0.1 || magnitude == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

/// A whole number with commas between thousands.
pub(super) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A ratio as text, with fewer digits than a figure.
pub(super) fn times(value: f64) -> String {
    match value {
        _ if value >= 1000.0 => grouped(value),
        _ if value >= 10.0 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_that_say_nothing_are_left_out() {
        let texts = [0.0, 0.00712, 0.5, 12.345, 741.25, 2660.4, 123_456.7, -42.0].map(number);
        assert_eq!(texts, ["0.000", "0.00712", "0.500", "12.35", "741.2", "2660", "123,457", "-42.00"]);
        assert_eq!(number(f64::NAN), "–");
        assert_eq!([3.26, 532.4, 14_000.0].map(times), ["3.3", "532", "14,000"]);
    }
}
