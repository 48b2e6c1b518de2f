//! What the collector says where there is nothing to count, and that the object is what its source
//! says.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::*;
use crate::readings::{Readings, captured};

#[test]
fn without_being_asked_nothing_is_loaded_and_each_table_says_so() {
    let clock = Arc::new(feedline_traces::SystemClock::anchored_now());
    let context = Context::new(Host::this(), clock);
    let mut events = KernelEvents::new(&context);
    let readings = Readings::of(&mut events);
    for part in Part::ALL {
        assert!(readings.reason(part.table(), "").unwrap().contains("--kernel"), "{}", part.table());
        assert!(readings.entities(part.table()).is_empty());
    }
    assert!(matches!(events.source, Source::Off(_)));
}

#[test]
fn a_captured_machine_is_not_asked() {
    let mut context = captured("/nowhere");
    context.settings.kernel = true;
    let readings = Readings::of(&mut KernelEvents::new(&context));
    assert!(readings.reason("off_cpu", "").unwrap().contains("captured"));
}

#[test]
fn the_object_is_what_its_source_builds_to() {
    let version = Command::new("clang-19").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no clang-19 here (apt-get install clang-19 llvm-19 libbpf-dev)");
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernel/bpf");
    let folder = tempfile::tempdir().unwrap();
    for file in ["Makefile", "kernel.bpf.c", "kernel.h"] {
        std::fs::copy(source.join(file), folder.path().join(file)).unwrap();
    }
    let make = Command::new("make").arg("--silent").current_dir(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&make.stderr);
    if said.contains("bpf_helpers.h") || said.contains("llvm-strip-19") {
        eprintln!("skipped: {said}");
        return;
    }
    assert!(make.status.success(), "{said}");
    let built = std::fs::read(folder.path().join("kernel.bpf.o")).unwrap();
    let committed = std::fs::read(source.join("kernel.bpf.o")).unwrap();
    assert!(
        built == committed,
        "the committed object is not what `make bpf` builds: {} and {} bytes",
        committed.len(),
        built.len()
    );
}
