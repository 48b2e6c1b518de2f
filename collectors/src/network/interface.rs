//! Network interfaces.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use feedline_traces::unit::{Bytes, Count};
use feedline_traces::{
    Background, Clock, Collector, Counter, Gauge, Key, Result, Row as _, Rows, Table, Text, Ts, table,
};

use super::parse;
use crate::absent::{AbsentRow, Reasons};
use crate::{Context, Host};

/// Interfaces of one reading; a machine with more has their rows dropped and counted.
const LIMIT: usize = 64;
/// Speed and state are asked for this often: the kernel takes a lock for them that others wait for.
const LINK: Duration = Duration::from_secs(60);

table! {
    /// Network interfaces that ever carried a byte, one row per interface per tick.
    pub interface: InterfaceRow {
        /// Name.
        interface: Key,
        /// `up`, `down`, `unknown` and the like, as the kernel says; asked once a minute.
        state: Text,
        /// Speed of the link in bytes a second; asked once a minute. Null where it has none.
        speed: Gauge<Bytes>,
        /// Bytes received since the interface was made.
        received_bytes: Counter<Bytes>,
        /// Bytes sent since the interface was made.
        sent_bytes: Counter<Bytes>,
        /// Packets received.
        received_packets: Counter<Count>,
        /// Packets sent.
        sent_packets: Counter<Count>,
        /// Packets received broken.
        received_errors: Counter<Count>,
        /// Packets that could not be sent.
        sent_errors: Counter<Count>,
        /// Packets received and dropped for want of room.
        received_drops: Counter<Count>,
        /// Packets dropped instead of sent.
        sent_drops: Counter<Count>,
    }
}

/// Reads `/proc/net/dev`, in Feedline's own network namespace.
pub struct Interfaces {
    host: Host,
    clock: Arc<dyn Clock>,
    reasons: Reasons,
    links: HashMap<String, Link>,
    asked: Option<Ts>,
    drops: u64,
}

#[derive(Debug, Clone, Default)]
struct Link {
    state: Option<String>,
    speed: Option<f64>,
}

impl Interfaces {
    /// The interfaces of a machine.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            host: context.host.clone(),
            clock: Arc::clone(&context.clock),
            reasons: Reasons::default(),
            links: HashMap::new(),
            asked: None,
            drops: 0,
        }
    }

    fn link(&mut self, name: &str) -> Link {
        if let Some(link) = self.links.get(name) {
            return link.clone();
        }
        let read = |file: &str| self.host.read(format!("sys/class/net/{name}/{file}")).ok();
        // Megabits a second; -1 where there is no link.
        let speed = read("speed").and_then(|text| text.trim().parse::<f64>().ok()).filter(|speed| *speed > 0.0);
        let link = Link {
            state: read("operstate").map(|text| text.trim().to_owned()),
            speed: speed.map(|megabits| megabits * 1e6 / 8.0),
        };
        self.links.insert(name.to_owned(), link.clone());
        link
    }
}

impl Collector for Interfaces {
    fn name(&self) -> &'static str {
        "interface"
    }

    fn tables(&self) -> Vec<Table> {
        vec![InterfaceRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let now = self.clock.now();
        if self.asked.is_none_or(|asked| now >= asked.plus(LINK)) {
            self.links.clear();
            self.asked = Some(now);
        }
        let mut interfaces = parse::dev(&self.host.read("proc/net/dev")?)?;
        interfaces.retain(|i| i.received.bytes > 0 || i.sent.bytes > 0);
        self.drops += interfaces.len().saturating_sub(LIMIT) as u64;
        for interface in interfaces.iter().take(LIMIT) {
            let link = self.link(&interface.name);
            let why = link.speed.is_none().then_some("the kernel names no speed: a virtual interface, or no link");
            self.reasons.say(out, "interface.speed", &interface.name, why);
            out.push(InterfaceRow {
                interface: interface.name.as_str().into(),
                state: link.state.into(),
                speed: link.speed.into(),
                received_bytes: interface.received.bytes.into(),
                sent_bytes: interface.sent.bytes.into(),
                received_packets: interface.received.packets.into(),
                sent_packets: interface.sent.packets.into(),
                received_errors: interface.received.errors.into(),
                sent_errors: interface.sent.errors.into(),
                received_drops: interface.received.drops.into(),
                sent_drops: interface.sent.drops.into(),
            });
        }
        Ok(())
    }

    fn background(&mut self) -> Background {
        Background { drops: std::mem::take(&mut self.drops), ..Background::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readings::{Readings, captured};

    #[test]
    fn interfaces_that_carried_nothing_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/net")).unwrap();
        std::fs::create_dir_all(root.path().join("sys/class/net/eth0")).unwrap();
        std::fs::write(root.path().join("proc/net/dev"), include_str!("testdata/dev")).unwrap();
        std::fs::write(root.path().join("sys/class/net/eth0/speed"), "100000\n").unwrap();
        std::fs::write(root.path().join("sys/class/net/eth0/operstate"), "up\n").unwrap();
        let readings = Readings::of(&mut Interfaces::new(&captured(root.path())));
        assert_eq!(readings.entities("interface"), ["eth0", "lo"]);
        assert_eq!(readings.whole("interface.received_bytes", &["eth0"]), Some(516_304_219));
        assert_eq!(readings.number("interface.speed", &["eth0"]), Some(12.5e9));
        assert_eq!(readings.text("interface.state", &["eth0"]).as_deref(), Some("up"));
        assert_eq!(readings.number("interface.speed", &["lo"]), None);
        assert!(readings.reason("interface.speed", "lo").unwrap().contains("no speed"));
    }

    #[test]
    fn this_machine_can_be_read() {
        let clock = Arc::new(feedline_traces::SystemClock::anchored_now());
        Readings::of(&mut Interfaces::new(&Context::new(Host::this(), clock)));
    }
}
