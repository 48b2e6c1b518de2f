//! Times as people and other programs write them.

use crate::clock::Ts;

/// `20250102T030405Z`: sorts as it reads, and is fit for a file name.
#[must_use]
pub fn compact(at: Ts) -> String {
    let (year, month, day, [hour, minute, second], _) = parts(at);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// `2025-01-02T03:04:05.000000006Z`, RFC 3339 with nanoseconds.
#[must_use]
pub fn rfc3339(at: Ts) -> String {
    let (year, month, day, [hour, minute, second], nanos) = parts(at);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// Year, month, day, time of day and nanoseconds. A date is counted in eras of 400 years from
/// 1 March of the year 0, which ends every year on its leap day.
fn parts(at: Ts) -> (i64, i64, i64, [i64; 3], i64) {
    let (seconds, nanos) = (at.0.div_euclid(1_000_000_000), at.0.rem_euclid(1_000_000_000));
    let (days, second) = (seconds.div_euclid(86_400) + 719_468, seconds.rem_euclid(86_400));
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year_of_era + era * 400 + carry, month, day, [second / 3600, second / 60 % 60, second % 60], nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_dates() {
        assert_eq!(rfc3339(Ts(0)), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(rfc3339(Ts(-1)), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(rfc3339(Ts(1_709_251_199_000_000_006)), "2024-02-29T23:59:59.000000006Z");
        assert_eq!(compact(Ts(1_709_251_200_000_000_000)), "20240301T000000Z");
        assert_eq!(rfc3339(Ts(i64::MAX)), "2262-04-11T23:47:16.854775807Z");
        assert_eq!(rfc3339(Ts(i64::MIN)), "1677-09-21T00:12:43.145224192Z");
    }
}
