//! TCP connections of the job's processes: how a job reads from object stores and parameter
//! servers, which no file counter sees.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use feedline_traces::unit::{Bytes, Count, Nanos};
use feedline_traces::{
    Background, Clock, Collector, Counter, Gauge, Key, Result, Row as _, Rows, Symbol, Table, Ts, table,
};

use super::diag::{Connection, Tcp};
use super::netlink::Monitor;
use crate::absent::{AbsentRow, Reasons};
use crate::mount::files;
use crate::mount::parse::{self, Link};
use crate::{Context, Host, Process, Role, Target};

/// How often the descriptors of the job are looked through for sockets.
const LOOK: Duration = Duration::from_secs(5);

table! {
    /// TCP connections of each process of the job that ever had one, per tick. A connection counts
    /// from its own start, seen or not; one that lives for less than the 5 s between two looks at
    /// the job's descriptors may be missed. A socket shared after a fork counts for the trainer.
    pub socket: SocketRow {
        /// The process, as in `process.process`.
        process: Key,
        /// Connections at the moment.
        connections: Gauge<Count>,
        /// Bytes received.
        received_bytes: Counter<Bytes>,
        /// Bytes sent and acknowledged.
        sent_bytes: Counter<Bytes>,
        /// Segments sent again.
        retransmits: Counter<Count>,
        /// Median of the smoothed round trips of its connections.
        rtt: Gauge<Nanos>,
        /// Bytes received that the process has not read: it is behind, not the network.
        receive_queue: Gauge<Bytes>,
        /// Bytes sent that the other side has not acknowledged.
        send_queue: Gauge<Bytes>,
    }
}

/// Asks the kernel's socket monitor for the job's connections.
pub struct Sockets {
    host: Host,
    clock: Arc<dyn Clock>,
    target: Target,
    reasons: Reasons,
    monitor: Option<Monitor>,
    /// Who has a socket, by its inode.
    owners: HashMap<u64, Symbol>,
    looked: Option<Ts>,
    ledger: Ledger,
    drops: u64,
}

/// Adds up connections that come and go, so that the total of a process only grows.
#[derive(Debug, Default)]
struct Ledger {
    /// What each connection had counted when last seen, by its cookie.
    connections: HashMap<u64, Tcp>,
    /// What each process has in all.
    totals: HashMap<Symbol, Total>,
}

/// Totals of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Total {
    received: u64,
    sent: u64,
    retransmits: u64,
}

/// What is true of a process's connections at the moment.
#[derive(Debug, Default)]
struct Now {
    connections: u64,
    rtts: Vec<u32>,
    receive_queue: u64,
    send_queue: u64,
}

impl Ledger {
    /// Takes in what the job's connections count now.
    fn take(&mut self, connections: &[(Symbol, Connection)]) {
        let mut latest = HashMap::new();
        for (process, connection) in connections {
            let total = self.totals.entry(process.clone()).or_default();
            let Some(tcp) = connection.tcp else { continue };
            let before = self.connections.get(&connection.cookie).copied().unwrap_or_default();
            total.received += tcp.received.saturating_sub(before.received);
            total.sent += tcp.acknowledged.saturating_sub(before.acknowledged);
            total.retransmits += u64::from(tcp.retransmits.saturating_sub(before.retransmits));
            latest.insert(connection.cookie, tcp);
        }
        self.connections = latest;
    }
}

impl Sockets {
    /// The connections of a job.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            host: context.host.clone(),
            clock: Arc::clone(&context.clock),
            target: context.target.clone(),
            reasons: Reasons::default(),
            monitor: None,
            owners: HashMap::new(),
            looked: None,
            ledger: Ledger::default(),
            drops: 0,
        }
    }

    /// Finds out who has which socket. Whoever comes first keeps it: trainers before workers.
    fn look(&mut self, processes: &[Process]) {
        self.owners.clear();
        let (first, rest): (Vec<_>, Vec<_>) = processes.iter().partition(|p| p.role == Role::Trainer);
        for process in first.into_iter().chain(rest) {
            for (_, target) in files::descriptors(&self.host, process.pid, &mut self.drops) {
                if let Link::Socket(inode) = parse::link(&target) {
                    self.owners.entry(inode).or_insert_with(|| process.key.clone());
                }
            }
        }
    }

    /// Why the monitor cannot speak of this job, if so.
    fn elsewhere(&self, processes: &[Process]) -> Option<&'static str> {
        if !self.host.is_live() {
            return Some("a captured machine has no socket monitor");
        }
        let own = self.host.link("proc/self/ns/net").ok()?;
        let namespace = |process: &Process| self.host.link(format!("proc/{}/ns/net", process.pid)).ok();
        let other = processes.iter().find_map(namespace).is_some_and(|namespace| namespace != own);
        other.then_some("the job has a network namespace of its own; run Feedline inside it (`nsenter --net`)")
    }
}

impl Collector for Sockets {
    fn name(&self) -> &'static str {
        "socket"
    }

    fn tables(&self) -> Vec<Table> {
        vec![SocketRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let processes = self.target.processes();
        if processes.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        if self.looked.is_none_or(|looked| now >= looked.plus(LOOK)) {
            let why = self.elsewhere(&processes);
            self.reasons.say(out, "socket", "", why);
            if why.is_some() {
                return Ok(());
            }
            self.looked = Some(now);
            self.look(&processes);
            let refused = processes.iter().any(|process| files::refused(&self.host, process.pid));
            self.reasons.say(out, "socket.process", "", refused.then_some(files::REFUSED));
        }
        let mine = self.connections(out)?;
        self.ledger.take(&mine);
        self.ledger.totals.retain(|key, _| processes.iter().any(|process| process.key == *key));
        let mut present: HashMap<&Symbol, Now> = HashMap::new();
        for (process, connection) in &mine {
            present.entry(process).or_default().add(connection);
        }
        let mut totals: Vec<_> = self.ledger.totals.iter().collect();
        totals.sort_unstable_by_key(|(process, _)| *process);
        for (process, total) in totals {
            let now = present.remove(process).unwrap_or_default();
            out.push(SocketRow {
                process: process.clone().into(),
                connections: now.connections.into(),
                received_bytes: total.received.into(),
                sent_bytes: total.sent.into(),
                retransmits: total.retransmits.into(),
                rtt: median(now.rtts).map(|micros| f64::from(micros) * 1e3).into(),
                receive_queue: now.receive_queue.into(),
                send_queue: now.send_queue.into(),
            });
        }
        Ok(())
    }

    fn background(&mut self) -> Background {
        Background { drops: std::mem::take(&mut self.drops), ..Background::default() }
    }
}

impl Sockets {
    /// The job's connections; nothing is asked while the job has no socket at all.
    fn connections(&mut self, out: &mut Rows<'_>) -> Result<Vec<(Symbol, Connection)>> {
        if self.owners.is_empty() {
            return Ok(Vec::new());
        }
        let monitor = match &mut self.monitor {
            Some(monitor) => monitor,
            none => none.insert(Monitor::open()?),
        };
        let (connections, all) = monitor.connections().inspect_err(|_| self.monitor = None)?;
        let why = (!all).then_some("this machine has more TCP connections than are read at once");
        self.reasons.say(out, "socket.received_bytes", "", why);
        let uncounted = connections.iter().any(|c| c.tcp.is_none() && self.owners.contains_key(&c.inode));
        let why = uncounted.then_some("this kernel counts no bytes of a connection; Linux 4.2 and later do");
        self.reasons.say(out, "socket.sent_bytes", "", why);
        let owned = |connection: Connection| Some((self.owners.get(&connection.inode)?.clone(), connection));
        Ok(connections.into_iter().filter_map(owned).collect())
    }
}

impl Now {
    fn add(&mut self, connection: &Connection) {
        self.connections += 1;
        self.receive_queue += u64::from(connection.receive_queue);
        self.send_queue += u64::from(connection.send_queue);
        self.rtts.extend(connection.tcp.map(|tcp| tcp.rtt).filter(|rtt| *rtt > 0));
    }
}

fn median(mut values: Vec<u32>) -> Option<u32> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readings::{Readings, captured};
    use std::io::{Read as _, Write as _};

    fn connection(cookie: u64, received: u64) -> (Symbol, Connection) {
        let tcp = Some(Tcp { received, ..Tcp::default() });
        ("1@1".into(), Connection { inode: cookie, cookie, tcp, ..Connection::default() })
    }

    #[test]
    fn a_total_grows_while_connections_come_and_go() {
        let mut ledger = Ledger::default();
        let received = |ledger: &Ledger| ledger.totals["1@1"].received;
        ledger.take(&[connection(1, 100), connection(2, 10)]);
        assert_eq!(received(&ledger), 110);
        ledger.take(&[connection(1, 150)]);
        assert_eq!(received(&ledger), 160, "the second is gone, what it received is not");
        ledger.take(&[connection(1, 150), connection(3, 7)]);
        assert_eq!(received(&ledger), 167);
        ledger.take(&[]);
        assert_eq!(received(&ledger), 167);
    }

    #[test]
    fn a_capture_has_no_connections_and_says_why() {
        let context = captured("/nowhere");
        context.target.replace(vec![Process { pid: 1, key: "1@1".into(), ..Process::default() }]);
        let readings = Readings::of(&mut Sockets::new(&context));
        assert!(readings.entities("socket").is_empty());
        assert!(readings.reason("socket", "").unwrap().contains("captured"));
    }

    #[test]
    fn the_bytes_of_a_real_connection_of_this_process_are_counted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[7; 100_000]).unwrap();
        server.read_exact(&mut [0; 100_000]).unwrap();
        let context = Context::new(Host::this(), Arc::new(feedline_traces::SystemClock::anchored_now()));
        let pid = std::process::id();
        context.target.replace(vec![Process { pid, key: "me".into(), ..Process::default() }]);
        let readings = Readings::of(&mut Sockets::new(&context));
        assert!(readings.number("socket.connections", &["me"]).unwrap() >= 2.0);
        assert!(readings.whole("socket.received_bytes", &["me"]).unwrap() >= 100_000);
        assert!(readings.whole("socket.sent_bytes", &["me"]).unwrap() >= 100_000);
    }
}
