//! Progress of anything that takes over two seconds, on standard error, and silent where that is
//! no terminal.

use std::time::Duration;

use feedline_traces::{Result, Schema, Sink, Tick, Ts};
use indicatif::{ProgressBar, ProgressStyle};

/// A bar of so many steps with a title.
#[must_use]
pub fn bar(title: &str, steps: u64) -> ProgressBar {
    styled(ProgressBar::new(steps), title, "{msg:>22} [{bar:30}] {pos}/{len} {eta:>4}")
}

/// A bar over a span of time, in seconds.
#[must_use]
pub fn clock(title: &str, span: Duration) -> ProgressBar {
    styled(ProgressBar::new(span.as_secs().max(1)), title, "{msg:>22} [{bar:30}] {pos}/{len} s")
}

/// A spinner for work whose end is not known.
#[must_use]
pub fn spinner(title: &str) -> ProgressBar {
    let bar = styled(ProgressBar::new_spinner(), title, "{msg:>22} {spinner} {elapsed}");
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn styled(bar: ProgressBar, title: &str, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style.progress_chars("=> ")).with_message(title.to_owned())
}

/// Progress of a recording, as one of its sinks: a bar over its span, or a spinner.
pub struct Ticking {
    bar: ProgressBar,
    began: Option<Ts>,
}

impl Ticking {
    /// Progress over a span, or without an end.
    #[must_use]
    pub fn over(span: Option<Duration>) -> Self {
        let bar = span.map_or_else(|| spinner("recording"), |span| clock("recording", span));
        Self { bar, began: None }
    }
}

impl Sink for Ticking {
    fn accept(&mut self, _: &Schema, tick: &Tick) -> Result<()> {
        let began = *self.began.get_or_insert(tick.at);
        self.bar.set_position(u64::try_from(tick.at.since(began) / 1_000_000_000).unwrap_or(0) + 1);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.bar.finish_and_clear();
        Ok(())
    }
}
