//! Forecasts without learning. One of them stands beside every forecast, speaks where no model may,
//! and is what a model has to beat.

use serde::{Deserialize, Serialize};

use super::past::Past;
use super::signals::Signal;
use super::{AHEAD, HORIZONS};

/// A forecast that needs no learning, of the share over any horizon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Naive {
    /// It stays as it was in the last second.
    Persistence,
    /// It stays as it was in the last ten seconds.
    Window,
    /// It stays as an exponentially weighted mean is, with this weight of the newest second in percent
    /// (Brown, 1959).
    Ewma(u8),
    /// It does what it did a whole number of periods before; an exponentially weighted mean where
    /// nothing recurs.
    Seasonal,
}

/// All that are tried; training keeps the best for each horizon.
pub const NAIVES: [Naive; 9] = [
    Naive::Persistence,
    Naive::Window,
    Naive::Ewma(5),
    Naive::Ewma(10),
    Naive::Ewma(20),
    Naive::Ewma(35),
    Naive::Ewma(50),
    Naive::Ewma(70),
    Naive::Seasonal,
];

/// What speaks before anything was learnt.
pub const UNTRAINED: [Naive; AHEAD] =
    [Naive::Ewma(50), Naive::Ewma(35), Naive::Ewma(20), Naive::Ewma(20), Naive::Ewma(10)];

/// What each naive forecast says for each horizon; NaN where it cannot.
pub type Said = [[f64; NAIVES.len()]; AHEAD];

impl Naive {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Persistence => "persistence".to_owned(),
            Self::Window => "mean of 10 s".to_owned(),
            Self::Ewma(percent) => format!("ewma {:.2}", f64::from(percent) / 100.0),
            Self::Seasonal => "seasonal".to_owned(),
        }
    }

    /// Its position among [`NAIVES`]; the usual one for a weight that is not among them.
    #[must_use]
    pub fn position(self) -> usize {
        NAIVES.iter().position(|naive| *naive == self).unwrap_or(4)
    }

    fn say(self, past: &Past, seconds: usize) -> f64 {
        match self {
            Self::Persistence => past.last(Signal::Share),
            Self::Window => past.mean(Signal::Share10, 1.0),
            Self::Ewma(percent) => past.smoothed(f64::from(percent) / 100.0),
            Self::Seasonal => match &past.season {
                Some(season) => season.ahead(seconds),
                None => past.smoothed(0.2),
            },
        }
    }
}

/// What all of them say.
#[must_use]
pub(crate) fn said(past: &Past) -> Said {
    HORIZONS.map(|seconds| NAIVES.map(|naive| naive.say(past, seconds)))
}

#[cfg(test)]
mod tests {
    use feedline_traces::Ts;

    use super::*;
    use crate::forecast::signals::NOTHING;

    #[test]
    fn what_recurs_is_told_by_the_seasonal_one_alone() {
        let mut past = Past::default();
        for second in 1..=77_i32 {
            let mut values = NOTHING;
            values[Signal::Share as usize] = if second % 20 < 5 { 0.8 } else { 0.0 };
            past.push(Ts(i64::from(second) * 1_000_000_000), values);
        }
        // The next stall begins three seconds from now.
        let said = said(&past);
        assert_eq!(said[1][Naive::Persistence.position()], 0.0);
        assert!((said[1][Naive::Seasonal.position()] - 0.48).abs() < 0.01, "{:?}", said[1]);
        assert!(said[0][Naive::Seasonal.position()] < 0.01);
        assert!(said[1][Naive::Window.position()].is_nan());
    }

    #[test]
    fn each_has_a_place_and_a_name_of_its_own() {
        for (at, naive) in NAIVES.iter().enumerate() {
            assert_eq!(naive.position(), at);
            assert!(NAIVES[..at].iter().all(|other| other.name() != naive.name()));
        }
        assert!(UNTRAINED.iter().all(|naive| NAIVES.contains(naive)));
    }
}
