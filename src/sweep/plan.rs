//! What a sweep runs, in which order: a pure function of the set, the seed and the machine's cores.

use feedline_models::step_model::{Dist, Job, Storage, estimate};
use serde::{Deserialize, Serialize};

use super::setting::{SETTINGS, Setting};

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// A first look, in under a minute, nothing of which needs root
    Quick,
    /// Eight settings, in a few minutes
    Default,
    /// All settings, over a thousand rows, in an hour or two
    Full,
}

impl Set {
    /// Settings, configurations of each, repeats of every fifth, and seconds of a run.
    fn size(self) -> (usize, usize, u32, f64) {
        match self {
            Self::Quick => (4, 3, 2, 0.8),
            Self::Default => (8, 8, 3, 1.5),
            Self::Full => (SETTINGS.len(), 40, 3, 2.0),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Default => "default",
            Self::Full => "full",
        }
    }
}

/// One configuration of a loader and its step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// How samples lie in files.
    pub format: String,
    /// What samples are.
    pub content: String,
    /// Their order.
    pub access: String,
    /// Bytes of a sample, about.
    pub bytes: u32,
    /// Samples of a batch.
    pub batch: u32,
    /// Loader workers.
    pub workers: u32,
    /// Batches ahead per worker.
    pub prefetch: u32,
    /// Microseconds of hashing to decode a sample, besides what its content needs.
    pub decode_us: u32,
    /// Milliseconds of a step.
    pub step_ms: f64,
    /// `sleep` or `spin`.
    pub step_kind: String,
    /// Seconds that are measured.
    pub seconds: f64,
    /// Decides the order of samples.
    pub seed: u64,
}

/// One run to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its number.
    pub row: u64,
    /// The number of its configuration; repeats share it.
    pub config: u64,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// The process that runs it; those of one block follow each other.
    pub block: u32,
    /// The name of its setting.
    pub setting: String,
    /// The configuration.
    pub run: Config,
}

/// All runs to make, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Of this file.
    pub version: u32,
    /// The set.
    pub set: Set,
    /// The seed.
    pub seed: u64,
    /// Cores of the machine that it was made for.
    pub cores: f64,
    /// The runs.
    pub rows: Vec<Row>,
}

/// Rows that one process makes.
const BLOCK: usize = 20;
/// The version that this program writes.
pub const VERSION: u32 = 1;

impl Plan {
    /// The plan of a set, of the settings whose name contains `only`.
    #[must_use]
    pub fn new(set: Set, seed: u64, cores: f64, only: &str) -> Self {
        let (settings, configs, repeats, seconds) = set.size();
        let mut blocks = Vec::new();
        let mut config = 0;
        for (number, setting) in SETTINGS.iter().enumerate().take(settings) {
            // Each setting draws for itself, so that leaving one out changes no other.
            let mut dice = Dice::new(seed, number as u64);
            let mut rows = Vec::new();
            for index in 0..configs {
                let run = Config { seconds, ..drawn(&mut dice, setting, index, cores, seconds) };
                let times = if index % 5 == 0 { repeats } else { 1 };
                for repeat in 0..times {
                    let run = Config { seed: dice.next() >> 32, ..run.clone() };
                    rows.push(Row { row: 0, config, repeat, block: 0, setting: setting.name.to_owned(), run });
                }
                config += 1;
            }
            dice.shuffle(&mut rows);
            if setting.name.contains(only) {
                blocks.extend(rows.chunks(BLOCK).map(<[Row]>::to_vec));
            }
        }
        Dice::new(seed, u64::MAX).shuffle(&mut blocks);
        let numbered =
            (0_u32..).zip(blocks).flat_map(|(block, rows)| rows.into_iter().map(move |row| Row { block, ..row }));
        let rows = (0_u64..).zip(numbered).map(|(number, row)| Row { row: number, ..row }).collect();
        Self { version: VERSION, set, seed, cores, rows }
    }

    /// The name under which its rows stand in tables.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", self.set.name(), self.seed)
    }
}

/// A configuration of a setting. Formats come in turn; the time of a step is drawn around what the
/// step model expects of the loader, so that there are fed and starved jobs of every kind.
fn drawn(dice: &mut Dice, setting: &Setting, index: usize, cores: f64, seconds: f64) -> Config {
    let mut config = sampled(dice, setting, index);
    for _ in 0..300 {
        let job = expected(&config, setting, cores);
        let loader = estimate(&job).map_or(f64::INFINITY, |found| f64::from(config.batch) / found.loader);
        // A quarter of what the loader takes, to four times that.
        let step = loader * dice.between(0.25, 4.0);
        config.step_ms = (step.clamp(0.001, 0.25) * 2e3).round() / 2.0;
        let tensors = f64::from(config.batch) * tensor_bytes(&config);
        // Batches of the workers tend to come together: a run must see several such rounds.
        let round = loader * f64::from(config.workers.max(1));
        if loader >= 0.001 && round < seconds / 3.0 && tensors < 64e6 {
            break;
        }
        config = sampled(dice, setting, index);
    }
    config
}

fn sampled(dice: &mut Dice, setting: &Setting, index: usize) -> Config {
    let (format, content) = [
        ("files", "photo"),
        ("tar", "bytes"),
        ("raw", "bytes"),
        ("tokens", "bytes"),
        ("files", "bytes"),
        ("tar", "photo"),
    ][index % 6];
    let photo = content == "photo";
    let bytes = match format {
        _ if photo => dice.pick(&[110_000, 110_000, 400_000]),
        "tokens" => dice.pick(&[2048, 8192]),
        _ => dice.pick(&[4096, 16_384, 65_536, 262_144, 1_048_576]),
    };
    let spins = dice.unit() < 0.25 && setting.quota == 0.0;
    Config {
        format: format.to_owned(),
        content: content.to_owned(),
        access: dice.pick(&["sequential", "shuffled", "shuffled", "shards"]).to_owned(),
        bytes,
        batch: dice.pick(&[4, 8, 16, 32, 64, 128, 256]),
        workers: dice.pick(&[0, 1, 1, 2, 2, 3, 4, 4, 6, 8]),
        prefetch: dice.pick(&[1, 2, 2, 4]),
        decode_us: if photo { dice.pick(&[0, 0, 2000]) } else { dice.pick(&[0, 100, 500, 2000, 8000]) },
        step_ms: 0.0,
        step_kind: if spins { "spin" } else { "sleep" }.to_owned(),
        seconds: 0.0,
        seed: 0,
    }
}

fn tensor_bytes(config: &Config) -> f64 {
    match (config.content.as_str(), config.format.as_str()) {
        ("photo", _) => 3.0 * 224.0 * 224.0,
        (_, "tokens") => 4.0 * f64::from(config.bytes),
        _ => f64::from(config.bytes),
    }
}

/// What a setting is expected to be like, roughly; it only decides what is worth running.
fn expected(config: &Config, setting: &Setting, cores: f64) -> Job {
    let bytes = f64::from(config.bytes);
    let limited = if setting.mb_s > 0.0 { setting.mb_s * 1e6 } else { 500e6 };
    let link = if setting.link_mbit > 0 { f64::from(setting.link_mbit) * 125e3 } else { f64::INFINITY };
    let (latency, bandwidth, cpu) = match setting.storage {
        "cache" | "tmpfs" => (0.0, f64::INFINITY, 3e-5),
        "fuse" => (setting.latency_ms / 1e3 + 3e-4, limited, 4e-4),
        "objects" => (setting.latency_ms / 1e3 + 1e-3, limited.min(link), 8e-4),
        _ => (3e-4, limited, 5e-5),
    };
    let photo = if config.content == "photo" { bytes * 5e-8 } else { 0.0 };
    let spins = config.step_kind == "spin";
    Job {
        batch: config.batch,
        workers: config.workers,
        prefetch: config.prefetch,
        cores: setting.cores(cores),
        storage: Storage {
            latency: Dist::Constant(latency),
            bandwidth,
            stream: f64::INFINITY,
            depth: 0,
            cpu: Dist::Constant(cpu + bytes / 2e9),
        },
        sample: Dist::Constant(bytes),
        decode: Dist::Constant(2e-5 + photo + f64::from(config.decode_us) / 1e6),
        collate: Dist::Constant(2e-4),
        host: if spins { Dist::Constant(0.01) } else { Dist::ZERO },
        step: Dist::Constant(0.01),
        ..Job::default()
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Dice(u64);

impl Dice {
    fn new(seed: u64, stream: u64) -> Self {
        let mut dice = Self(seed ^ stream.wrapping_add(1).wrapping_mul(0xD1B5_4A32_D192_ED03));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// Even in the logarithm.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % (count.max(1) as u64)).unwrap_or(0)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_gives_the_same_plan_and_another_gives_another() {
        assert_eq!(Plan::new(Set::Default, 7, 2.0, ""), Plan::new(Set::Default, 7, 2.0, ""));
        assert_ne!(Plan::new(Set::Default, 7, 2.0, "").rows, Plan::new(Set::Default, 8, 2.0, "").rows);
    }

    #[test]
    fn the_full_set_has_a_thousand_rows_of_every_setting_format_and_order() {
        let plan = Plan::new(Set::Full, 1, 2.0, "");
        assert!(plan.rows.len() >= 1100, "{}", plan.rows.len());
        let settings: BTreeSet<&str> = plan.rows.iter().map(|row| row.setting.as_str()).collect();
        assert_eq!(settings.len(), SETTINGS.len());
        for setting in settings {
            let mine: Vec<&Row> = plan.rows.iter().filter(|row| row.setting == setting).collect();
            let distinct =
                |of: fn(&Config) -> String| mine.iter().map(|row| of(&row.run)).collect::<BTreeSet<_>>().len();
            assert_eq!(distinct(|c| c.format.clone()), 4, "{setting}: formats");
            assert_eq!(distinct(|c| c.access.clone()), 3, "{setting}: orders");
            assert!(distinct(|c| c.workers.to_string()) >= 4, "{setting}: workers");
            assert!(mine.iter().filter(|row| row.repeat == 2).count() >= 8, "{setting}: repeats");
        }
    }

    #[test]
    fn the_order_is_shuffled_and_blocks_stay_together() {
        let plan = Plan::new(Set::Full, 1, 2.0, "");
        let blocks: Vec<u32> = plan.rows.iter().map(|row| row.block).collect();
        assert!(blocks.is_sorted() && plan.rows.iter().map(|row| row.row).eq(0..plan.rows.len() as u64));
        let first: Vec<&str> = plan.rows.iter().take(100).map(|row| row.setting.as_str()).collect();
        assert!(first.iter().collect::<BTreeSet<_>>().len() >= 4, "settings follow each other in {first:?}");
        let configs: Vec<u64> = plan.rows.iter().map(|row| row.config).collect();
        assert!(!configs.is_sorted());
    }

    #[test]
    fn leaving_settings_out_changes_no_other() {
        let all = Plan::new(Set::Full, 3, 2.0, "");
        let some = Plan::new(Set::Full, 3, 2.0, "fuse");
        let key = |row: &Row| (row.config, row.repeat, row.run.clone());
        for row in &some.rows {
            assert!(all.rows.iter().any(|other| key(other) == key(row)), "{row:?}");
        }
        assert!(some.rows.iter().all(|row| row.setting.contains("fuse")) && !some.rows.is_empty());
    }

    #[test]
    fn runs_are_short_enough_to_have_steps_and_small_enough_for_memory() {
        for cores in [1.0, 2.0, 64.0] {
            for row in Plan::new(Set::Full, 5, cores, "").rows {
                assert!((1.0..=250.0).contains(&row.run.step_ms), "{row:?}");
                assert!(f64::from(row.run.batch) * tensor_bytes(&row.run) < 64e6, "{row:?}");
            }
        }
    }
}
