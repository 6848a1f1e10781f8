//! Numbers of things, for people.
//!
//! What comes in: a number and what it counts. What goes out: text: `1 file`, `12,345 files`. It is not
//! for data: JSON has the numbers themselves.

/// `1 file`, `2 files`.
pub fn format_count(number: usize, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { many }
    )
}

/// `12,345`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 assignment`, `2 assignments`.
pub fn assignments(number: usize) -> String {
    format_count(number, "assignment", "assignments")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_thing_and_thousands_are_grouped() {
        assert_eq!(assignments(0), "0 assignments");
        assert_eq!(assignments(1), "1 assignment");
        assert_eq!(assignments(20_000), "20,000 assignments");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
