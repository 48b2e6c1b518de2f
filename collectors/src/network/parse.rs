//! `/proc/net/dev`, `/proc/net/snmp`, `/proc/net/netstat` and what InfiniBand ports say in `/sys`.

use std::collections::HashMap;

use feedline_traces::{Error, Result};

/// Counters of a network interface since it was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// What came in.
    pub received: Traffic,
    /// What went out.
    pub sent: Traffic,
}

/// One direction of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets that were broken.
    pub errors: u64,
    /// Packets dropped for want of room.
    pub drops: u64,
}

/// Reads `/proc/net/dev`.
///
/// # Errors
/// When a line of an interface has too few numbers or one that is none.
pub fn dev(text: &str) -> Result<Vec<Interface>> {
    let mut interfaces = Vec::new();
    // Two lines of headings come first.
    for (index, line) in text.lines().enumerate().skip(2) {
        if !line.trim().is_empty() {
            interfaces.push(interface(line).map_err(|e| e.at(format_args!("proc/net/dev:{}", index + 1)))?);
        }
    }
    Ok(interfaces)
}

fn interface(line: &str) -> Result<Interface> {
    // An alias such as `eth0:1` has a colon in its name.
    let colon = line.rfind(':').ok_or_else(|| Error::new(format!("expected `NAME:`, found `{line}`")))?;
    let mut fields = line[colon + 1..].split_ascii_whitespace();
    let mut next = |name: &str| {
        let field = fields.next().unwrap_or("the end of the line");
        field.parse::<u64>().map_err(|_| Error::new(format!("expected {name}, found `{field}`")))
    };
    let mut traffic = |rest: usize| -> Result<Traffic> {
        let traffic = Traffic {
            bytes: next("bytes")?,
            packets: next("packets")?,
            errors: next("errors")?,
            drops: next("drops")?,
        };
        for _ in 0..rest {
            next("a counter")?;
        }
        Ok(traffic)
    };
    let received = traffic(4)?;
    let sent = traffic(0)?;
    Ok(Interface { name: line[..colon].trim().to_owned(), received, sent })
}

/// The numbers of `/proc/net/snmp` or `/proc/net/netstat`, as `Tcp.RetransSegs`: a line of names,
/// then a line of values, each led by the protocol.
#[must_use]
pub fn protocols(text: &str) -> HashMap<String, u64> {
    let mut values = HashMap::new();
    let mut lines = text.lines();
    while let (Some(names), Some(numbers)) = (lines.next(), lines.next()) {
        let (Some((protocol, names)), Some((same, numbers))) = (names.split_once(':'), numbers.split_once(':')) else {
            continue;
        };
        if protocol != same {
            continue;
        }
        for (name, number) in names.split_ascii_whitespace().zip(numbers.split_ascii_whitespace()) {
            // `MaxConn` is -1 where there is no limit.
            if let Ok(number) = number.parse() {
                values.insert(format!("{protocol}.{name}"), number);
            }
        }
    }
    values
}

/// The speed of a port in bits a second, from `400 Gb/sec (4X NDR)` or `2.5 Gb/sec (1X SDR)`.
#[must_use]
pub fn rate(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let number: f64 = words.next()?.parse().ok()?;
    (words.next() == Some("Gb/sec") && number.is_finite() && number >= 0.0).then_some(number * 1e9)
}

/// The word of `4: ACTIVE`.
#[must_use]
pub fn state(text: &str) -> &str {
    text.split_once(':').map_or(text, |(_, word)| word).trim()
}

/// A counter file; `N/A (no PMA)` and the like are missing.
#[must_use]
pub fn counter(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn interfaces_are_read_with_names_of_any_form() {
        let interfaces = dev(include_str!("testdata/dev")).unwrap();
        let eth = interfaces.iter().find(|i| i.name == "eth0").unwrap();
        assert_eq!((eth.received.bytes, eth.received.packets), (516_304_219, 14_275));
        assert_eq!((eth.sent.bytes, eth.sent.drops), (716_278, 0));
        let alias = "a\nb\n eth0:1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";
        assert_eq!(dev(alias).unwrap()[0].name, "eth0:1");
    }

    #[test]
    fn an_error_names_line_field_and_value() {
        assert_eq!(dev("a\nb\nlo: 1 x").unwrap_err().message, "proc/net/dev:3: expected packets, found `x`");
    }

    #[test]
    fn names_and_values_are_paired_by_protocol() {
        let snmp = protocols(include_str!("testdata/snmp"));
        assert_eq!((snmp["Tcp.RetransSegs"], snmp["Tcp.InSegs"]), (227, 57_252_008));
        assert!(!snmp.contains_key("Tcp.MaxConn"));
        let netstat = protocols(include_str!("testdata/netstat"));
        assert_eq!((netstat["TcpExt.TCPTimeouts"], netstat["TcpExt.TCPRcvQDrop"]), (115, 131));
    }

    #[test]
    fn port_files_are_read_and_what_hardware_does_not_count_is_missing() {
        assert_eq!(
            (rate("400 Gb/sec (4X NDR)"), rate("2.5 Gb/sec (1X SDR)"), rate("")),
            (Some(4e11), Some(2.5e9), None)
        );
        assert_eq!((state("4: ACTIVE\n"), state("5: LinkUp")), ("ACTIVE", "LinkUp"));
        assert_eq!((counter("15\n"), counter("N/A (no PMA)\n")), (Some(15), None));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s).{0,200}|([a-zA-Z]{0,5}: [0-9 x]{0,60}\n){0,9}") {
            let _ = (dev(&text), protocols(&text), rate(&text), state(&text), counter(&text));
        }
    }
}
