//! A file of frame rules from a stranger.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(dir) = tempfile::tempdir() else { return };
    if std::fs::write(dir.path().join("rules.toml"), bytes).is_ok() {
        let _ = feedline_collectors::stack::Rules::load(Some(dir.path()));
    }
});
