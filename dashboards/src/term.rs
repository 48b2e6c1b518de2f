//! The terminal: the only place with effects. It is given back as it was, whatever happens: on
//! quitting, on an error, on a signal, on a panic. A panic of another thread does not take the
//! screen away; it is said on it, and again when it closes.

use std::io::{self, IsTerminal, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use feedline_traces::{Clock, Error, Result, Schema, Ts};
use ratatui::Terminal;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::draw::draw;
use crate::feed::{Command, Message, Mode};
use crate::input::{Input, hung_up};
use crate::state::{Event, State};
use crate::widgets::look::Look;

/// Between two drawings, at least.
const FRAME: Duration = Duration::from_millis(100);
/// Events taken in between two drawings, at most.
const BURST: usize = 2048;

/// Whether the terminal is ours at the moment.
static ENTERED: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();
/// The thread that draws.
static DRAWING: Mutex<Option<ThreadId>> = Mutex::new(None);
/// Panics of other threads while the terminal was ours.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Panics kept.
const PANICS_KEPT: usize = 8;

/// How the screen begins.
#[derive(Debug, Clone)]
pub struct Screen {
    /// Whether time can be moved.
    pub mode: Mode,
    /// What is looked at: a job, a run folder.
    pub title: String,
    /// Whether colours are wanted; a non-empty `NO_COLOR` in the environment overrules it.
    pub colour: bool,
}

/// Shows ticks until the person quits, which sends [`Command::Quit`], as does a signal. It blocks
/// and wants the main thread. The end of the source ends nothing: the last picture stays.
///
/// # Errors
/// When standard output is no terminal, when the terminal fails, or when another thread panicked
/// meanwhile.
pub fn run(
    screen: Screen,
    schema: &Arc<Schema>,
    messages: &Receiver<Message>,
    commands: &Sender<Command>,
    clock: &dyn Clock,
) -> Result<()> {
    if !stdout().is_terminal() {
        return Err(
            Error::new("standard output is not a terminal").hint("`feedline record` and `feedline report` need none")
        );
    }
    if !stdin().is_terminal() {
        return Err(Error::new("standard input is not a terminal, so no key could leave the screen")
            .hint("`feedline record` and `feedline report` need none"));
    }
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let look = Look { colour: screen.colour && !plain };
    let mut state = State::new(schema, screen.mode, screen.title);
    let signals = Signals::watch()?;
    let entered = Entered::new()?;
    let mut terminal = Terminal::new(CrosstermBackend::new(stdout())).map_err(failed)?;
    let outcome = turn(&mut terminal, &mut state, look, messages, commands, clock, &signals);
    drop(entered);
    // Whoever feeds the screen learns that it is gone; it may have gone first, which is no error.
    let _ = commands.send(Command::Quit);
    match panics().first() {
        Some(panic) => {
            outcome.and(Err(Error::new(panic.clone()).hint("this is a mistake in feedline: please report it")))
        }
        None => outcome,
    }
}

fn panics() -> Vec<String> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn turn<B: Backend>(
    terminal: &mut Terminal<B>,
    state: &mut State,
    look: Look,
    messages: &Receiver<Message>,
    commands: &Sender<Command>,
    clock: &dyn Clock,
    signals: &Signals,
) -> Result<()>
where
    B::Error: std::fmt::Display,
{
    let input = Input::start()?;
    let mut drawn: Option<Ts> = None;
    let mut closed = false;
    loop {
        if signals.raised() || hung_up() {
            return Ok(());
        }
        if let Some(panic) = panics().into_iter().next() {
            state.update(Event::Trouble(panic));
        }
        closed = closed || listen(state, messages);
        let size = terminal.size().map_err(failed)?;
        state.update(Event::Resize(size));
        let since = drawn.map_or(FRAME, |at| Duration::from_nanos(clock.now().since(at).max(0).unsigned_abs()));
        if since >= FRAME && state.take_dirty() {
            terminal.draw(|frame| draw(state, look, frame)).map_err(failed)?;
            drawn = Some(clock.now());
        }
        let wait = if since < FRAME { FRAME - since } else { FRAME };
        for taken in 0..BURST {
            let Some(event) = input.next(if taken == 0 { wait } else { Duration::ZERO })? else { break };
            let command = match event {
                event::Event::Key(key) => state.update(Event::Key(key)),
                event::Event::Mouse(mouse) => state.update(Event::Mouse(mouse)),
                _ => None,
            };
            match command {
                Some(Command::Quit) => return Ok(()),
                Some(command) => {
                    let _ = commands.send(command);
                }
                None => {}
            }
        }
    }
}

/// Takes in what the source said; true when it says nothing more.
fn listen(state: &mut State, messages: &Receiver<Message>) -> bool {
    for _ in 0..BURST {
        match messages.try_recv() {
            Ok(message) => state.update(Event::Message(message)),
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => {
                state.update(Event::Message(Message::End("the source has ended".to_owned())));
                return true;
            }
        };
    }
    false
}

fn failed(cause: impl std::fmt::Display) -> Error {
    Error::new(format!("terminal: {cause}"))
}

/// The terminal in raw mode on its other screen; dropping it gives it back.
struct Entered;

impl Entered {
    fn new() -> Result<Self> {
        PANICS.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *DRAWING.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current().id());
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if !keep(panic) {
                    leave();
                    before(panic);
                }
            }));
        });
        ENTERED.store(true, Ordering::SeqCst);
        let entered = Self;
        enable_raw_mode().map_err(failed)?;
        execute!(stdout(), EnterAlternateScreen, EnableMouseCapture).map_err(failed)?;
        Ok(entered)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        leave();
    }
}

/// Keeps a panic of another thread for later, while the terminal is ours: printed now it would only
/// spoil the picture. False when it should be printed.
fn keep(panic: &std::panic::PanicHookInfo<'_>) -> bool {
    let drawing = *DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    if !ENTERED.load(Ordering::SeqCst) || drawing == Some(thread::current().id()) {
        return false;
    }
    let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    if panics.len() < PANICS_KEPT {
        let name = thread::current().name().unwrap_or("without a name").to_owned();
        panics.push(format!("thread `{name}` {}", panic.to_string().replace('\n', " ")));
    }
    true
}

/// Gives the terminal back, once.
fn leave() {
    if ENTERED.swap(false, Ordering::SeqCst) {
        // A terminal that is gone cannot be given back; each part is tried all the same.
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), DisableMouseCapture, LeaveAlternateScreen, Show);
    }
}

/// Signals that end the screen.
struct Signals {
    flag: Arc<AtomicBool>,
    ids: Vec<signal_hook::SigId>,
}

impl Signals {
    fn watch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let ids = [SIGTERM, SIGINT, SIGHUP, SIGQUIT]
            .map(|signal| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .into_iter()
            .collect::<io::Result<_>>()
            .map_err(failed)?;
        Ok(Self { flag, ids })
    }

    fn raised(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in &self.ids {
            signal_hook::low_level::unregister(*id);
        }
    }
}
