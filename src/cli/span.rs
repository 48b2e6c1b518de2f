//! Spans of time, as typed.

use std::time::Duration;

/// A span such as `15s` or `10m`; not 0, in which nothing can be seen.
///
/// # Errors
/// When the text is none, with examples.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text).map_err(|_| "no span of time, such as 15s or 10m".to_owned())?;
    if span.is_zero() { Err("nothing can be seen in no time; 20s is a good start".to_owned()) } else { Ok(span) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_unit_and_is_not_0() {
        assert_eq!(parse("15s"), Ok(Duration::from_secs(15)));
        for wrong in ["15", "0s", "xyz", ""] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
