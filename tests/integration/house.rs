//! The rules of the house, as ordinary tests: what is not tested here is not a rule.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::root;

const CRATES: [&str; 4] = ["traces", "collectors", "models", "dashboards"];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" && name != "runs" && name != "node_modules" {
                sources(&path, found);
            }
        } else if matches!(path.extension().and_then(|e| e.to_str()), Some("rs" | "py" | "sh" | "c" | "md" | "toml")) {
            found.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    sources(&root(), &mut found);
    assert!(found.len() > 50, "only {} sources found", found.len());
    found
}

#[test]
fn siblings_never_import_each_other() {
    for krate in CRATES {
        let manifest = fs::read_to_string(root().join(krate).join("Cargo.toml")).unwrap();
        let allowed: &[&str] = if krate == "traces" { &[] } else { &["feedline-traces"] };
        for line in manifest.lines().filter(|l| l.starts_with("feedline")) {
            let name = line.split(['.', ' ', '=']).next().unwrap();
            assert!(allowed.contains(&name), "{krate}/Cargo.toml: depends on its sibling `{name}`");
        }
    }
}

#[test]
fn files_stay_under_500_lines() {
    for path in all_sources() {
        if path.extension().is_some_and(|e| e == "rs" || e == "py") {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= 500, "{}: {lines} lines", path.display());
        }
    }
}

#[test]
fn python_functions_stay_under_80_lines() {
    for path in all_sources().into_iter().filter(|p| p.extension().is_some_and(|e| e == "py")) {
        let text = fs::read_to_string(&path).unwrap();
        let mut open: Vec<(usize, usize, String)> = Vec::new();
        let indent = |line: &str| line.len() - line.trim_start().len();
        for (number, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
            while open.last().is_some_and(|(depth, ..)| indent(line) <= *depth) {
                let (_, began, name) = open.pop().unwrap();
                assert!(number - began <= 80, "{}:{}: `{name}` is over 80 lines", path.display(), began + 1);
            }
            if line.trim_start().starts_with("def ") {
                open.push((indent(line), number, line.trim().to_owned()));
            }
        }
    }
}

#[test]
fn nothing_is_left_undone_and_no_lint_is_silenced_without_a_reason() {
    // Spelt apart, so that this file does not find itself.
    let words =
        [["TO", "DO"].concat(), ["FIX", "ME"].concat(), ["#[al", "low("].concat(), ["unimple", "mented!("].concat()];
    for path in all_sources().into_iter().filter(|p| p.extension().is_some_and(|e| e == "rs" || e == "py")) {
        let text = fs::read_to_string(&path).unwrap();
        for word in &words {
            assert!(!text.contains(word.as_str()), "{}: contains `{word}`", path.display());
        }
    }
}

#[test]
fn only_named_places_may_be_unsafe() {
    let allowed =
        ["collectors/src/page_cache/", "collectors/src/perf/", "collectors/src/accelerator/", "collectors/src/rights/"];
    for path in all_sources().into_iter().filter(|p| p.extension().is_some_and(|e| e == "rs")) {
        let text = fs::read_to_string(&path).unwrap();
        let place = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        let unsafes = text.lines().filter(|l| l.contains("unsafe {") || l.contains("unsafe impl")).count();
        if unsafes > 0 && place != "tests/integration/house.rs" {
            assert!(allowed.iter().any(|a| place.starts_with(a)), "{place}: {unsafes} unsafe blocks");
            assert!(text.matches("SAFETY:").count() >= unsafes, "{place}: an unsafe block without `SAFETY:`");
        }
    }
}

#[test]
fn the_architecture_says_what_each_crate_is() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for krate in CRATES {
        assert!(architecture.contains(&format!("`{krate}/`")), "ARCHITECTURE.md does not say what `{krate}/` is");
    }
}
