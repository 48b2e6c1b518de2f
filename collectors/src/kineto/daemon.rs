//! The end point that libkineto asks: a datagram socket in the abstract namespace.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use feedline_traces::Symbol;

use super::parse::{self, ACTIVITIES, LONGEST, Message};
use super::{Client, Orders};
use crate::Target;

/// The name that libkineto sends to; its framing ends names with a zero byte.
pub(super) const NAME: &str = "dynolog";
/// How long a trace is, in milliseconds: a few steps of most jobs, a few megabytes.
const SPAN: u32 = 2000;
/// How soon the thread sees that it should end.
const WAIT: Duration = Duration::from_millis(500);

/// Answers until dropped.
pub(super) struct Daemon {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Daemon {
    /// Takes the name, or says who has it.
    pub(super) fn start(name: &str, target: Target, orders: Orders) -> Result<Self, String> {
        let place = |cause: std::io::Error| match cause.kind() {
            ErrorKind::AddrInUse => {
                format!("another daemon answers as `{name}`; end it, or order traces by its own `dyno`")
            }
            _ => format!("the end point `{name}`: {cause}"),
        };
        let address = SocketAddr::from_abstract_name(format!("{name}\0")).map_err(place)?;
        let socket = UnixDatagram::bind_addr(&address).map_err(place)?;
        socket.set_read_timeout(Some(WAIT)).map_err(place)?;
        let ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ended);
        let thread = std::thread::Builder::new()
            .name("feedline-kineto".to_owned())
            .spawn(move || answer(&socket, &told, &target, &orders))
            .map_err(place)?;
        Ok(Self { ended, thread: Some(thread) })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(socket: &UnixDatagram, ended: &AtomicBool, target: &Target, orders: &Orders) {
    let mut buffer = [0; LONGEST];
    while !ended.load(Ordering::Acquire) {
        let Ok((size, sender)) = socket.recv_from(&mut buffer) else { continue };
        let Ok(message) = parse::message(&buffer[..size]) else { continue };
        let answer = reply(&message, target, orders);
        // libkineto waits 50 ms for it; one that has gone away needs none.
        let _ = socket.set_nonblocking(true);
        let _ = socket.send_to_addr(&answer, &sender);
        let _ = socket.set_nonblocking(false);
    }
}

/// What a process is told. Whoever is none of the job's is told nothing.
fn reply(message: &Message, target: &Target, orders: &Orders) -> Vec<u8> {
    let known = |pid: u32| -> Option<(Symbol, u32)> {
        let processes = target.processes();
        let process = processes.iter().find(|p| p.inner.unwrap_or(p.pid) == pid)?;
        Some((process.key.clone(), pid))
    };
    match message {
        Message::Register { gpu, pid } => {
            let mut state = orders.lock();
            if let Some(client) = known(*pid).and_then(|(key, _)| state.client(&key)) {
                client.device = u64::try_from(*gpu).ok();
            }
            let same = |client: &&Client| client.device == u64::try_from(*gpu).ok();
            parse::registered(i32::try_from(state.clients.values().filter(same).count()).unwrap_or(i32::MAX).max(1))
        }
        Message::Ask { kinds, pids } => {
            let mut text = String::new();
            // The first pid is the process itself: an order is for it, never for all its launcher started.
            if let Some((key, pid)) = pids.first().copied().and_then(known) {
                let mut state = orders.lock();
                let wanted = kinds & ACTIVITIES != 0 && state.wanted.remove(&key);
                if let Some(client) = state.client(&key) {
                    client.polls += 1;
                    if wanted {
                        client.traces += 1;
                        text = order(pid, client);
                    }
                }
            }
            parse::told(&text)
        }
    }
}

/// A trace of the next seconds. libkineto writes a path that came this way only under `/tmp/`, and
/// puts the pid before the extension.
fn order(pid: u32, client: &mut Client) -> String {
    let stem = format!("/tmp/feedline-kineto-{}", client.traces);
    client.file = Some(format!("{stem}_{pid}.json"));
    format!("ACTIVITIES_LOG_FILE={stem}.json\nPROFILE_START_TIME=0\nACTIVITIES_DURATION_MSECS={SPAN}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Process;

    fn words(kind: &str, words: &[i32]) -> Vec<u8> {
        let mut out = (4 * words.len() as u64).to_ne_bytes().to_vec();
        out.extend_from_slice(kind.as_bytes());
        out.resize(parse::HEAD, 0);
        words.iter().for_each(|word| out.extend_from_slice(&word.to_ne_bytes()));
        out
    }

    /// The client side as libkineto has it: an end point with a name, and 50 ms of patience; here more.
    struct Client(UnixDatagram, SocketAddr);

    impl Client {
        fn of(daemon: &str) -> Self {
            let own = format!("dynoconfigclient-{}-{daemon}\0", std::process::id());
            let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(own).unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            Self(socket, SocketAddr::from_abstract_name(format!("{daemon}\0")).unwrap())
        }

        fn ask(&self, message: &[u8]) -> (String, Vec<u8>) {
            self.0.send_to_addr(message, &self.1).unwrap();
            let mut answer = [0; LONGEST];
            let size = self.0.recv(&mut answer).unwrap();
            let body = answer[parse::HEAD..size].to_vec();
            assert_eq!(answer[..8], (body.len() as u64).to_ne_bytes());
            (String::from_utf8_lossy(&answer[8..parse::HEAD]).trim_end_matches('\0').to_owned(), body)
        }
    }

    #[test]
    fn a_client_registers_asks_in_vain_and_is_told_once_when_a_trace_is_wanted() {
        let name = format!("feedline-test-{}", std::process::id());
        let (target, orders) = (Target::default(), Orders::default());
        let key: Symbol = "4242@1".into();
        target.replace(vec![Process { pid: 4242, key: key.clone(), ..Process::default() }]);
        let daemon = Daemon::start(&name, target.clone(), orders.clone()).unwrap();
        assert!(Daemon::start(&name, target, orders.clone()).is_err_and(|why| why.contains("another daemon")));
        let client = Client::of(&name);
        assert_eq!(client.ask(&words("ctxt", &[0, 4242, 0, 0])), ("ctxt".to_owned(), 1_i32.to_ne_bytes().to_vec()));
        let ask = words("req", &[ACTIVITIES, 2, 0, 0, 4242, 1]);
        assert_eq!(client.ask(&ask), ("req".to_owned(), Vec::new()));
        orders.want(&key);
        let stranger = words("req", &[ACTIVITIES, 2, 0, 0, 17, 4242]);
        assert_eq!(client.ask(&stranger).1, b"", "an order for a process is not for its children");
        let told = String::from_utf8(client.ask(&ask).1).unwrap();
        assert!(
            told.contains("ACTIVITIES_LOG_FILE=/tmp/") && told.contains("ACTIVITIES_DURATION_MSECS=2000"),
            "{told}"
        );
        assert_eq!(client.ask(&ask).1, b"");
        let state = orders.lock();
        let seen = &state.clients[&key];
        assert_eq!((seen.polls, seen.traces, seen.device), (3, 1, Some(0)));
        assert_eq!(seen.file.as_deref(), Some("/tmp/feedline-kineto-1_4242.json"));
        drop(state);
        drop(daemon);
        assert!(client.0.send_to_addr(&ask, &client.1).is_err(), "the name is free again");
    }
}
