//! InfiniBand and RoCE ports, whose traffic no network interface counts.

use feedline_traces::unit::{Bytes, Count};
use feedline_traces::{Background, Collector, Counter, Gauge, Key, Result, Row as _, Rows, Table, Text, table};

use super::parse;
use crate::absent::{AbsentRow, Reasons};
use crate::{Context, Host};

const CLASS: &str = "sys/class/infiniband";
/// Ports of one reading; a machine with more has their rows dropped and counted.
const LIMIT: usize = 64;
/// The data counters count words of 4 bytes, whatever the width of the link.
const WORD: u64 = 4;

table! {
    /// Ports of InfiniBand and RoCE devices, one row per port. Their traffic, which is that of
    /// NCCL and of storage over RDMA, is counted here and not in `interface`.
    pub infiniband: InfinibandRow {
        /// Name of the device.
        device: Key,
        /// Number of the port.
        port: Key,
        /// `InfiniBand`, or `Ethernet` for RoCE and iWARP.
        link: Text,
        /// `ACTIVE` and the like.
        state: Text,
        /// Speed of the link in bytes a second.
        speed: Gauge<Bytes>,
        /// Bytes received.
        received_bytes: Counter<Bytes>,
        /// Bytes sent.
        sent_bytes: Counter<Bytes>,
        /// Packets received.
        received_packets: Counter<Count>,
        /// Packets sent.
        sent_packets: Counter<Count>,
        /// Ticks in which data was ready and could not be sent: congestion. On old hardware it
        /// stops at its highest value.
        sent_wait: Counter<Count>,
        /// Packets dropped instead of sent.
        sent_discards: Counter<Count>,
        /// Packets received broken.
        received_errors: Counter<Count>,
        /// Times that the link went down.
        link_downed: Counter<Count>,
        /// RDMA packets that came out of order or not at all.
        out_of_sequence: Counter<Count>,
        /// RDMA requests that had to be sent again because no answer came.
        ack_timeouts: Counter<Count>,
        /// RDMA requests that the receiver had no buffer for.
        out_of_buffer: Counter<Count>,
    }
}

/// Reads the ports below `/sys/class/infiniband`.
pub struct Infiniband {
    host: Host,
    reasons: Reasons,
    drops: u64,
}

impl Infiniband {
    /// The ports of a machine.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self { host: context.host.clone(), reasons: Reasons::default(), drops: 0 }
    }

    fn row(&self, device: &str, port: &str) -> InfinibandRow {
        let folder = format!("{CLASS}/{device}/ports/{port}");
        let read = |file: &str| self.host.read(format!("{folder}/{file}")).ok();
        let text = |file: &str| read(file).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let counter = |name: &str| read(&format!("counters/{name}")).and_then(|text| parse::counter(&text));
        let hardware = |name: &str| read(&format!("hw_counters/{name}")).and_then(|text| parse::counter(&text));
        let bytes = |name: &str| counter(name).and_then(|words| words.checked_mul(WORD));
        let speed = read("rate").and_then(|text| parse::rate(&text));
        InfinibandRow {
            device: device.into(),
            port: port.into(),
            link: text("link_layer").into(),
            state: text("state").map(|text| parse::state(&text).to_owned()).into(),
            speed: speed.map(|bits| bits / 8.0).into(),
            received_bytes: bytes("port_rcv_data").into(),
            sent_bytes: bytes("port_xmit_data").into(),
            received_packets: counter("port_rcv_packets").into(),
            sent_packets: counter("port_xmit_packets").into(),
            sent_wait: counter("port_xmit_wait").into(),
            sent_discards: counter("port_xmit_discards").into(),
            received_errors: counter("port_rcv_errors").into(),
            link_downed: counter("link_downed").into(),
            out_of_sequence: hardware("out_of_sequence").into(),
            ack_timeouts: hardware("local_ack_timeout_err").into(),
            out_of_buffer: hardware("out_of_buffer").into(),
        }
    }
}

impl Collector for Infiniband {
    fn name(&self) -> &'static str {
        "infiniband"
    }

    fn tables(&self) -> Vec<Table> {
        vec![InfinibandRow::table(), AbsentRow::table()]
    }

    fn collect(&mut self, out: &mut Rows<'_>) -> Result<()> {
        let mut rows = 0;
        for device in self.host.names(CLASS) {
            for port in self.host.names(format!("{CLASS}/{device}/ports")) {
                if rows == LIMIT {
                    self.drops += 1;
                    continue;
                }
                rows += 1;
                let row = self.row(&device, &port);
                let entity = format!("{device} {port}");
                let missing = row.received_bytes.0.is_none() || row.sent_bytes.0.is_none();
                let why = missing.then_some("this device counts no data for the port");
                self.reasons.say(out, "infiniband.received_bytes", &entity, why);
                let why = row.out_of_sequence.0.is_none().then_some("this driver has no RDMA hardware counters");
                self.reasons.say(out, "infiniband.out_of_sequence", &entity, why);
                out.push(row);
            }
        }
        let why = (rows == 0).then_some("this machine has no InfiniBand or RoCE device");
        self.reasons.say(out, "infiniband", "", why);
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

    fn captured_ports() -> Readings {
        let root = tempfile::tempdir().unwrap();
        for line in include_str!("testdata/infiniband").lines() {
            let (file, content) = line.split_once(": ").unwrap();
            let path = root.path().join(CLASS).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        Readings::of(&mut Infiniband::new(&captured(root.path())))
    }

    #[test]
    fn ports_of_an_h100_node_are_counted_in_bytes() {
        let readings = captured_ports();
        let cell = |column: &str| readings.whole(&format!("infiniband.{column}"), &["mlx5_0", "1"]);
        assert_eq!(cell("received_bytes"), Some(4 * 230_539_874_932_483));
        assert_eq!(cell("sent_bytes"), Some(4 * 230_442_669_431_839));
        assert_eq!((cell("sent_wait"), cell("received_errors")), (Some(2_489_603_687), Some(14)));
        assert_eq!(readings.number("infiniband.speed", &["mlx5_0", "1"]), Some(50e9));
        assert_eq!(readings.text("infiniband.state", &["mlx5_0", "1"]).as_deref(), Some("ACTIVE"));
        assert_eq!(readings.text("infiniband.link", &["mlx5_bond_0", "1"]).as_deref(), Some("Ethernet"));
    }

    #[test]
    fn older_devices_read_as_node_exporter_reads_them() {
        let readings = captured_ports();
        let port = ["mlx4_0", "1"];
        assert_eq!(readings.whole("infiniband.received_bytes", &port), Some(18_527_668));
        assert_eq!(readings.whole("infiniband.sent_bytes", &port), Some(14_933_760));
        assert_eq!(readings.whole("infiniband.sent_packets", &port), Some(6_235_865));
        assert_eq!(readings.number("infiniband.speed", &port), Some(5e9));
        assert!(readings.reason("infiniband.out_of_sequence", "mlx4_0 1").is_some());
    }

    #[test]
    fn a_device_that_counts_nothing_has_missing_values_not_zeros() {
        let readings = captured_ports();
        assert_eq!(readings.whole("infiniband.received_bytes", &["i40iw0", "1"]), None);
        assert!(readings.reason("infiniband.received_bytes", "i40iw0 1").unwrap().contains("no data"));
    }

    #[test]
    fn a_machine_without_devices_says_so() {
        let root = tempfile::tempdir().unwrap();
        let readings = Readings::of(&mut Infiniband::new(&captured(root.path())));
        assert!(readings.entities("infiniband").is_empty());
        assert!(readings.reason("infiniband", "").unwrap().contains("no InfiniBand"));
    }
}
