//! Units: each column has one, and it alone decides how the value is shown.

use serde::{Deserialize, Serialize};

/// The unit of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// No unit: names and identifiers.
    None,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanos,
    /// A number of things.
    Count,
    /// A share from 0 to 1.
    Ratio,
    /// Degrees Celsius.
    Celsius,
    /// Watts.
    Watts,
    /// Hertz.
    Hertz,
}

macro_rules! markers {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        $($(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name;
        impl UnitMarker for $name { const UNIT: Unit = Unit::$name; })+
    };
}

/// A type that stands for a unit in a `table!` declaration.
pub trait UnitMarker {
    /// The unit it stands for.
    const UNIT: Unit;
}

markers! {
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanos,
    /// A number of things.
    Count,
    /// A share from 0 to 1.
    Ratio,
    /// Degrees Celsius.
    Celsius,
    /// Watts.
    Watts,
    /// Hertz.
    Hertz,
}

impl Unit {
    /// The value with its unit, as short as it stays readable: `1.5 GiB`, `62 ms`, `41 %`.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        if value.is_nan() {
            return "–".to_owned();
        }
        match self {
            Self::Bytes => scaled(value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"]),
            Self::Nanos => show_nanos(value),
            Self::Ratio => format!("{} %", digits(value * 100.0)),
            Self::Celsius => format!("{} °C", digits(value)),
            Self::Watts => format!("{} W", digits(value)),
            Self::Hertz => scaled(value, 1000.0, &["Hz", "kHz", "MHz", "GHz"]),
            Self::Count => scaled(value, 1000.0, &["", "k", "M", "G", "T"]),
            Self::None => digits(value),
        }
    }

    /// The value per second with its unit. A rate of time is a share: 0.5 s a second is `50 %`.
    #[must_use]
    pub fn show_rate(self, per_second: f64) -> String {
        match self {
            Self::Nanos => Self::Ratio.show(per_second / 1e9),
            unit => format!("{}/s", unit.show(per_second)),
        }
    }

    /// The suffix that OpenMetrics names carry for this unit.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Nanos => "nanoseconds",
            Self::Ratio => "ratio",
            Self::Celsius => "celsius",
            Self::Watts => "watts",
            Self::Hertz => "hertz",
            Self::None | Self::Count => "",
        }
    }
}

fn show_nanos(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude < 1e3 {
        format!("{} ns", digits(value))
    } else if magnitude < 1e6 {
        format!("{} µs", digits(value / 1e3))
    } else if magnitude < 1e9 {
        format!("{} ms", digits(value / 1e6))
    } else if magnitude < 120e9 {
        format!("{} s", digits(value / 1e9))
    } else if magnitude < 7200e9 {
        format!("{} min", digits(value / 60e9))
    } else {
        format!("{} h", digits(value / 3600e9))
    }
}

fn scaled(value: f64, base: f64, names: &[&str]) -> String {
    let mut scaled = value;
    let mut index = 0;
    while scaled.abs() >= base && index + 1 < names.len() {
        scaled /= base;
        index += 1;
    }
    format!("{} {}", digits(scaled), names[index]).trim_end().to_owned()
}

/// Three significant digits, without trailing zeros.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_in_their_unit() {
        let cases = [
            (Unit::Bytes, 1536.0, "1.5 KiB"),
            (Unit::Nanos, 62e6, "62 ms"),
            (Unit::Ratio, 0.4123, "41.2 %"),
            (Unit::Count, 12_345.0, "12.3 k"),
            (Unit::Count, 7.0, "7"),
            (Unit::Ratio, f64::NAN, "–"),
        ];
        for (unit, value, shown) in cases {
            assert_eq!(unit.show(value), shown);
        }
        assert_eq!(Unit::Nanos.show_rate(0.5e9), "50 %");
        assert_eq!(Unit::Bytes.show_rate(2048.0), "2 KiB/s");
    }
}
