//! TCP of the machine: what was lost and sent again, and who could not keep up.

use std::collections::HashMap;

use feedline_traces::unit::Count;
use feedline_traces::{Collector, Counter, Gauge, Key, Result, Row as _, Rows, Table, table};

use super::parse;
use crate::absent::{AbsentRow, Reasons};
use crate::{Context, Host};

table! {
    /// TCP of the machine since boot, once a tick.
    pub tcp: TcpRow {
        /// Always `host`.
        scope: Key,
        /// Connections established at the moment.
        established: Gauge<Count>,
        /// Segments received.
        received_segments: Counter<Count>,
        /// Segments sent, those sent again not counted.
        sent_segments: Counter<Count>,
        /// Segments sent again.
        retransmits: Counter<Count>,
        /// Times that a timer had to expire before a segment was sent again.
        timeouts: Counter<Count>,
        /// Segments sent again that were lost too.
        lost_retransmits: Counter<Count>,
        /// Segments that asked for a connection and were sent again.
        syn_retransmits: Counter<Count>,
        /// Segments dropped because a program did not read fast enough.
        receive_drops: Counter<Count>,
        /// Times that a receiver here closed its window: its program did not read fast enough.
        zero_windows: Counter<Count>,
        /// Connections dropped because a listener's queue was full.
        listen_drops: Counter<Count>,
    }
}

/// Reads `/proc/net/snmp` and `/proc/net/netstat`, in Feedline's own network namespace.
pub struct Tcp {
    host: Host,
    reasons: Reasons,
}

impl Tcp {
    /// TCP of a machine.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self { host: context.host.clone(), reasons: Reasons::default() }
    }
}

impl Collector for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn tables(&self) -> Vec<Table> {
        vec![TcpRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let mut values: HashMap<String, u64> = parse::protocols(&self.host.read("proc/net/snmp")?);
        let extended = self.host.read("proc/net/netstat").map(|text| parse::protocols(&text)).unwrap_or_default();
        values.extend(extended);
        let get = |name: &str| values.get(name).copied();
        let zero_windows = get("TcpExt.TCPToZeroWindowAdv");
        let why = zero_windows.is_none().then_some("this kernel does not count them; Linux 3.15 and later do");
        self.reasons.say(out, "tcp.zero_windows", "", why);
        out.push(TcpRow {
            scope: "host".into(),
            established: get("Tcp.CurrEstab").into(),
            received_segments: get("Tcp.InSegs").into(),
            sent_segments: get("Tcp.OutSegs").into(),
            retransmits: get("Tcp.RetransSegs").into(),
            timeouts: get("TcpExt.TCPTimeouts").into(),
            lost_retransmits: get("TcpExt.TCPLostRetransmit").into(),
            syn_retransmits: get("TcpExt.TCPSynRetrans").into(),
            receive_drops: get("TcpExt.TCPRcvQDrop").into(),
            zero_windows: zero_windows.into(),
            listen_drops: get("TcpExt.ListenDrops").into(),
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readings::{Readings, captured};
    use std::sync::Arc;

    #[test]
    fn a_captured_machine_reads_as_node_exporter_reads_it() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/net")).unwrap();
        std::fs::write(root.path().join("proc/net/snmp"), include_str!("testdata/snmp")).unwrap();
        std::fs::write(root.path().join("proc/net/netstat"), include_str!("testdata/netstat")).unwrap();
        let readings = Readings::of(&mut Tcp::new(&captured(root.path())));
        let cell = |column: &str| readings.whole(&format!("tcp.{column}"), &["host"]);
        assert_eq!((cell("retransmits"), cell("timeouts"), cell("receive_drops")), (Some(227), Some(115), Some(131)));
        assert_eq!((cell("received_segments"), cell("sent_segments")), (Some(57_252_008), Some(54_915_039)));
        assert_eq!(readings.number("tcp.established", &["host"]), Some(0.0));
        assert_eq!(cell("zero_windows"), None);
        assert!(readings.reason("tcp.zero_windows", "").is_some());
    }

    #[test]
    fn this_machine_can_be_read() {
        let clock = Arc::new(feedline_traces::SystemClock::anchored_now());
        let readings = Readings::of(&mut Tcp::new(&Context::new(Host::this(), clock)));
        assert!(readings.whole("tcp.retransmits", &["host"]).is_some());
    }
}
