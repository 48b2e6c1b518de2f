//! Messages of the kernel's socket monitor (`sock_diag`): the request, and what comes back. Pure.

/// A TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Connection {
    /// The kernel's number of the socket, as in `/proc/PID/fd`.
    pub inode: u64,
    /// The kernel's name of the socket, never used again.
    pub cookie: u64,
    /// Bytes received and not yet read by the program.
    pub receive_queue: u32,
    /// Bytes sent and not yet acknowledged.
    pub send_queue: u32,
    /// What TCP counts; `None` where the kernel sent less than this reads.
    pub tcp: Option<Tcp>,
}

/// Counters of a connection since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tcp {
    /// Smoothed round trip, in microseconds.
    pub rtt: u32,
    /// Segments sent again.
    pub retransmits: u32,
    /// Bytes sent and acknowledged.
    pub acknowledged: u64,
    /// Bytes received.
    pub received: u64,
}

/// What one datagram of an answer held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// The connections in it.
    pub connections: Vec<Connection>,
    /// Whether it was the last.
    pub done: bool,
    /// The error number that the kernel sent instead of an answer.
    pub error: Option<i32>,
}

const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const TCP: u8 = 6;
/// The number of the attribute that holds `struct tcp_info`, and the bit that asks for it.
const INFO: u16 = 2;
const ASK_INFO: u8 = 1 << (INFO - 1);
/// Established, and closed by the other side: connections that still carry data.
const STATES: u32 = 1 << 1 | 1 << 8;

/// A request for the TCP connections of an address family.
#[must_use]
pub fn request(family: u8, sequence: u32) -> [u8; 72] {
    let mut message = [0; 72];
    message[0..4].copy_from_slice(&72_u32.to_ne_bytes());
    message[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    message[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    message[8..12].copy_from_slice(&sequence.to_ne_bytes());
    message[16..19].copy_from_slice(&[family, TCP, ASK_INFO]);
    message[20..24].copy_from_slice(&STATES.to_ne_bytes());
    message
}

/// Reads one datagram of the answer to a request; messages of other requests are passed over.
#[must_use]
pub fn answer(mut bytes: &[u8], sequence: u32) -> Part {
    let mut part = Part::default();
    while let (Some(length), Some(kind), Some(number)) = (u32_at(bytes, 0), u16_at(bytes, 4), u32_at(bytes, 8)) {
        let length = length as usize;
        let Some(body) = bytes.get(16..length) else { break };
        if number == sequence {
            match kind {
                BY_FAMILY => part.connections.extend(connection(body)),
                DONE => part.done = true,
                ERROR => part.error = u32_at(body, 0).map(|code| code.cast_signed().wrapping_neg()),
                _ => {}
            }
        }
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    part
}

fn connection(body: &[u8]) -> Option<Connection> {
    // struct inet_diag_msg: family, state, timer, retransmits; ports, addresses, interface and
    // cookie (48 bytes); expiry, queues, user, inode.
    let cookie = u64::from(u32_at(body, 44)?) | u64::from(u32_at(body, 48)?) << 32;
    let mut connection = Connection {
        inode: u32_at(body, 68)?.into(),
        cookie,
        receive_queue: u32_at(body, 56)?,
        send_queue: u32_at(body, 60)?,
        tcp: None,
    };
    let mut attributes = &body[72..];
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let Some(value) = attributes.get(4..length) else { break };
        if kind == INFO {
            connection.tcp = tcp(value);
        }
        attributes = attributes.get(aligned(length)..).unwrap_or_default();
    }
    Some(connection)
}

/// Offsets in `struct tcp_info`, which only ever grows at its end.
fn tcp(info: &[u8]) -> Option<Tcp> {
    Some(Tcp {
        rtt: u32_at(info, 68)?,
        retransmits: u32_at(info, 100)?,
        acknowledged: u64_at(info, 120)?,
        received: u64_at(info, 128)?,
    })
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((16 + body.len() as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes
    }

    fn socket(inode: u32, received: u64) -> Vec<u8> {
        let mut body = vec![0; 72];
        body[56..60].copy_from_slice(&11_u32.to_ne_bytes());
        body[68..72].copy_from_slice(&inode.to_ne_bytes());
        body[44..48].copy_from_slice(&7_u32.to_ne_bytes());
        let mut info = vec![0; 136];
        info[68..72].copy_from_slice(&250_u32.to_ne_bytes());
        info[128..136].copy_from_slice(&received.to_ne_bytes());
        body.extend((4 + info.len() as u16).to_ne_bytes());
        body.extend(INFO.to_ne_bytes());
        body.extend(info);
        body
    }

    #[test]
    fn connections_come_with_their_counters() {
        let bytes = [message(BY_FAMILY, 5, &socket(42, 1 << 40)), message(DONE, 5, &[0; 4])].concat();
        let part = answer(&bytes, 5);
        let tcp = Some(Tcp { rtt: 250, received: 1 << 40, ..Tcp::default() });
        let expected = Connection { inode: 42, cookie: 7, receive_queue: 11, send_queue: 0, tcp };
        assert_eq!(part, Part { connections: vec![expected], done: true, error: None });
        assert_eq!(answer(&bytes, 6), Part::default(), "the answer to an earlier request");
    }

    #[test]
    fn an_old_kernel_that_counts_no_bytes_gives_a_connection_without_them() {
        let mut body = socket(42, 0);
        body.truncate(72 + 4 + 104);
        body[72..74].copy_from_slice(&108_u16.to_ne_bytes());
        assert_eq!(answer(&message(BY_FAMILY, 1, &body), 1).connections[0].tcp, None);
    }

    #[test]
    fn a_refusal_carries_the_error_number() {
        assert_eq!(answer(&message(ERROR, 1, &(-2_i32).to_ne_bytes()), 1).error, Some(2));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = answer(&bytes, 0);
            let _ = answer(&message(BY_FAMILY, 3, &bytes), 3);
        }
    }
}
