//! A `run.json` from a stranger.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(dir) = tempfile::tempdir() else { return };
    if std::fs::write(dir.path().join("run.json"), bytes).is_ok() {
        let _ = feedline_traces::run::Run::open(dir.path());
    }
});
