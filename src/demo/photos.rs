//! A photo-like JPEG data set, made in seconds and the same on every machine.
//!
//! A picture of noise decodes slower than a photograph and one of flat colour faster, so each file
//! here has what photographs have: a lit gradient, shaded objects with soft edges, texture whose
//! strength falls with its frequency, and a little sensor grain.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use feedline_traces::{Error, Result};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Photos {
    /// Number of files.
    pub count: usize,
    /// Width of each, in pixels.
    pub width: u16,
    /// Height of each, in pixels.
    pub height: u16,
    /// JPEG quality, 1 to 100.
    pub quality: u8,
    /// The same seed gives the same bytes.
    pub seed: u64,
}

impl Default for Photos {
    fn default() -> Self {
        Self { count: 300, width: 500, height: 375, quality: 90, seed: 1 }
    }
}

/// What was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    /// Files in the folder that belong to the data set.
    pub files: usize,
    /// Their bytes together.
    pub bytes: u64,
}

/// Fills `dir` with `photo-00000.jpg` and so on, readable by every user, on two threads.
///
/// `made` is called with the number of files finished so far. Each file is written under another
/// name first, so that a folder never holds half a photograph.
///
/// # Errors
///
/// Where the folder or a file cannot be written, or the size or quality is zero.
pub fn make(dir: &Path, photos: &Photos, made: &(dyn Fn(usize) + Sync)) -> Result<Made> {
    fs::create_dir_all(dir).map_err(|e| Error::io(dir.display(), &e))?;
    set_mode(dir, 0o755)?;
    let texture = Texture::new(photos.seed);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || -> Result<u64> {
        let mut bytes = 0;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= photos.count {
                return Ok(bytes);
            }
            let jpeg = encode(photos, &texture, index)?;
            write(&dir.join(format!("photo-{index:05}.jpg")), &jpeg)?;
            bytes += jpeg.len() as u64;
            made(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let (here, there) = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let here = work();
        let there = other.join().unwrap_or_else(|_| Err(Error::new("the second photo thread ended early")));
        (here, there)
    });
    Ok(Made { files: photos.count, bytes: here? + there? })
}

/// One photograph of the set as JPEG bytes.
///
/// # Errors
///
/// Where the encoder refuses the size or quality.
pub fn encode(photos: &Photos, texture: &Texture, index: usize) -> Result<Vec<u8>> {
    if photos.width == 0 || photos.height == 0 || !(1..=100).contains(&photos.quality) {
        return Err(Error::new(format!(
            "expected a size above 0 and a quality of 1 to 100, found {}x{} at {}",
            photos.width, photos.height, photos.quality
        )));
    }
    let pixels = paint(photos, texture, index);
    let mut jpeg = Vec::with_capacity(pixels.len() / 4);
    let mut encoder = Encoder::new(&mut jpeg, photos.quality);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    encoder
        .encode(&pixels, photos.width, photos.height, ColorType::Rgb)
        .map_err(|e| Error::new(format!("photo {index}: {e}")))?;
    Ok(jpeg)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = |e: std::io::Error| Error::io(path.display(), &e);
    let part = path.with_extension("part");
    fs::File::create(&part).and_then(|mut file| file.write_all(bytes)).map_err(place)?;
    set_mode(&part, 0o644)?;
    fs::rename(&part, path).map_err(place)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|e| Error::io(path.display(), &e))
}

/// A square of texture that wraps around, of which each photograph shows its own piece.
#[derive(Debug)]
pub struct Texture {
    /// Coarse and middle octaves, about -1 to 1.
    rough: Vec<f32>,
    /// The finest octave and grain, about -1 to 1.
    fine: Vec<f32>,
}

const SIDE: usize = 1024;

impl Texture {
    /// The texture of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed ^ 0x7e47_0123);
        let mut rough = vec![0.0; SIDE * SIDE];
        let mut fine = vec![0.0; SIDE * SIDE];
        // Amplitude falls with frequency, as in photographs: cells of 128, 64, … 4 pixels.
        for (cell, amplitude) in [(128, 0.50), (64, 0.28), (32, 0.16), (16, 0.09), (8, 0.05), (4, 0.03)] {
            add_octave(&mut rough, cell, amplitude, &mut random);
        }
        add_octave(&mut fine, 2, 0.7, &mut random);
        for value in &mut fine {
            *value += 0.3 * random.signed();
        }
        Self { rough, fine }
    }

    fn at(values: &[f32], x: usize, y: usize) -> f32 {
        values[(y % SIDE) * SIDE + x % SIDE]
    }
}

/// Adds one octave of value noise: random values `cell` pixels apart, smoothly joined.
fn add_octave(values: &mut [f32], cell: usize, amplitude: f32, random: &mut Random) {
    let cells = SIDE / cell;
    let knots: Vec<f32> = (0..cells * cells).map(|_| amplitude * random.signed()).collect();
    let smooth: Vec<f32> = (0..cell)
        .map(|i| {
            let t = fraction(i, cell);
            t * t * (3.0 - 2.0 * t)
        })
        .collect();
    for (y, row) in values.chunks_exact_mut(SIDE).enumerate() {
        let (top, v) = ((y / cell) * cells, smooth[y % cell]);
        let bottom = (y / cell + 1) % cells * cells;
        for (x, value) in row.iter_mut().enumerate() {
            let (left, u) = (x / cell, smooth[x % cell]);
            let right = (left + 1) % cells;
            let above = knots[top + left] + u * (knots[top + right] - knots[top + left]);
            let below = knots[bottom + left] + u * (knots[bottom + right] - knots[bottom + left]);
            *value += above + v * (below - above);
        }
    }
}

/// A shaded ellipse with soft edges.
struct Thing {
    x: f32,
    y: f32,
    width: f32,
    height: f32,
    edge: f32,
    colour: [f32; 3],
}

impl Thing {
    fn new(width: f32, height: f32, random: &mut Random) -> Self {
        Self {
            x: random.unit() * width,
            y: random.unit() * height,
            width: width * (0.05 + 0.22 * random.unit()),
            height: height * (0.06 + 0.25 * random.unit()),
            edge: 0.02 + 0.15 * random.unit(),
            colour: colour(random),
        }
    }

    /// How much of this thing covers the point, and how lit it is there.
    fn cover(&self, x: f32, y: f32) -> Option<(f32, f32)> {
        let (dx, dy) = ((x - self.x) / self.width, (y - self.y) / self.height);
        let distance = dx * dx + dy * dy;
        if distance >= 1.0 {
            return None;
        }
        Some((((1.0 - distance) / self.edge).min(1.0), 1.15 - 0.5 * (distance - dx * 0.6 - dy * 0.6)))
    }
}

fn colour(random: &mut Random) -> [f32; 3] {
    // One hue for the light and a smaller one for each channel: photographs are rarely gaudy.
    let light = 50.0 + 150.0 * random.unit();
    [(); 3].map(|()| light + 45.0 * random.signed())
}

/// The pixels of one photograph, RGB, row by row.
fn paint(photos: &Photos, texture: &Texture, index: usize) -> Vec<u8> {
    let mut random = Random(photos.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (index as u64 + 1));
    let (width, height) = (f32::from(photos.width), f32::from(photos.height));
    let (sky, ground) = (colour(&mut random), colour(&mut random));
    let things: Vec<Thing> = (0..6 + random.below(7)).map(|_| Thing::new(width, height, &mut random)).collect();
    let (left, top) = (random.below(SIDE), random.below(SIDE));
    let (contrast, grain) = (50.0 + 50.0 * random.unit(), 17.0 + 18.0 * random.unit());
    let mut pixels = Vec::with_capacity(usize::from(photos.width) * usize::from(photos.height) * 3);
    for row in 0..photos.height {
        let (y, v) = (f32::from(row), f32::from(row) / height);
        let base: [f32; 3] = std::array::from_fn(|i| sky[i] + (ground[i] - sky[i]) * v);
        for column in 0..photos.width {
            let x = f32::from(column);
            let (tx, ty) = (left + usize::from(column), top + usize::from(row));
            let mut colour = base;
            for thing in &things {
                if let Some((cover, light)) = thing.cover(x, y) {
                    for (channel, own) in colour.iter_mut().zip(thing.colour) {
                        *channel += cover * (own * light - *channel);
                    }
                }
            }
            let shade = contrast * Texture::at(&texture.rough, tx, ty) + grain * Texture::at(&texture.fine, tx, ty);
            // Colour varies more slowly than light: only the coarse octaves, read elsewhere.
            let tint = 0.25 * contrast * Texture::at(&texture.rough, ty / 2 + 300, tx / 2);
            pixels.extend([colour[0] + shade + tint, colour[1] + shade, colour[2] + shade - tint].map(byte));
        }
    }
    pixels
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a byte's range first")]
fn byte(value: f32) -> u8 {
    value.clamp(0.0, 255.0) as u8
}

#[expect(clippy::cast_precision_loss, reason = "both are below 2^24")]
fn fraction(part: usize, whole: usize) -> f32 {
    part as f32 / whole as f32
}

/// SplitMix64: enough randomness for pictures, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "24 bits are exact in an f32")]
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// -1 to 1.
    fn signed(&mut self) -> f32 {
        2.0 * self.unit() - 1.0
    }

    /// 0 to `end` - 1.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_photo_is_the_same_every_time_and_each_is_its_own() {
        let photos = Photos { width: 64, height: 48, ..Photos::default() };
        let texture = Texture::new(photos.seed);
        let first = encode(&photos, &texture, 0).unwrap();
        assert_eq!(first, encode(&photos, &Texture::new(photos.seed), 0).unwrap());
        assert_ne!(first, encode(&photos, &texture, 1).unwrap());
    }

    #[test]
    fn photos_have_the_size_of_photographs() {
        let photos = Photos::default();
        let texture = Texture::new(photos.seed);
        let bytes: usize = (0..8).map(|i| encode(&photos, &texture, i).unwrap().len()).sum();
        assert!((50_000..110_000).contains(&(bytes / 8)), "{} bytes each", bytes / 8);
    }

    #[test]
    fn a_folder_holds_whole_photos_that_everybody_may_read() {
        let dir = tempfile::tempdir().unwrap();
        let photos = Photos { count: 5, width: 64, height: 48, ..Photos::default() };
        let place = dir.path().join("set");
        let made = make(&place, &photos, &|_| {}).unwrap();
        let mut names: Vec<_> = fs::read_dir(&place).unwrap().map(|e| e.unwrap()).collect();
        names.sort_by_key(std::fs::DirEntry::file_name);
        assert_eq!((made.files, names.len()), (5, 5));
        assert_eq!(made.bytes, names.iter().map(|e| e.metadata().unwrap().len()).sum::<u64>());
        for entry in names {
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o644);
            let mut decoder = zune_jpeg::JpegDecoder::new(std::io::Cursor::new(fs::read(entry.path()).unwrap()));
            assert_eq!(decoder.decode().unwrap().len(), 64 * 48 * 3);
        }
    }

    #[test]
    fn an_impossible_size_is_refused() {
        let photos = Photos { width: 0, ..Photos::default() };
        assert!(make(Path::new("/nowhere/that/exists"), &photos, &|_| {}).is_err());
        assert!(encode(&photos, &Texture::new(1), 0).is_err());
    }
}
