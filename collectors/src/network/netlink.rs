//! Asks the kernel's socket monitor for the TCP connections of Feedline's network namespace.

use std::os::fd::OwnedFd;
use std::time::Duration;

use feedline_traces::{Error, Result};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use super::diag::{self, Connection};

/// Datagrams of one answer, of 16 to 32 KiB: some thousands of connections.
const PARTS: usize = 64;

/// A socket to the monitor.
pub(super) struct Monitor {
    socket: OwnedFd,
    sequence: u32,
}

impl Monitor {
    /// Opens it; no rights are needed.
    ///
    /// # Errors
    /// When the kernel has no socket monitor.
    pub(super) fn open() -> Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG));
        let socket = socket.map_err(failed)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(500))).map_err(failed)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// The connections of IPv4 and IPv6. The flag says whether they are all.
    ///
    /// # Errors
    /// When the kernel refuses or does not answer.
    pub(super) fn connections(&mut self) -> Result<(Vec<Connection>, bool)> {
        let mut connections = Vec::new();
        let mut all = true;
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            all &= self.dump(family, &mut connections)?;
        }
        Ok((connections, all))
    }

    fn dump(&mut self, family: AddressFamily, connections: &mut Vec<Connection>) -> Result<bool> {
        self.sequence = self.sequence.wrapping_add(1);
        let number = u8::try_from(family.as_raw()).unwrap_or(0);
        let request = diag::request(number, self.sequence);
        let kernel = netlink::SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&self.socket, &request, SendFlags::empty(), &kernel).map_err(failed)?;
        let mut buffer = vec![0_u8; 32 << 10];
        for _ in 0..PARTS {
            let received = rustix::net::recv(&self.socket, buffer.as_mut_slice(), RecvFlags::empty());
            let (_, length) = received.map_err(failed)?;
            let part = diag::answer(buffer.get(..length).unwrap_or(&buffer), self.sequence);
            connections.extend(part.connections);
            match part.error {
                // A kernel without IPv6 knows no such family.
                Some(libc::ENOENT) => return Ok(true),
                Some(code) => return Err(failed(rustix::io::Errno::from_raw_os_error(code))),
                None if part.done => return Ok(true),
                None => {}
            }
        }
        // What is still to come would be taken for the answer to the next request: a new socket.
        *self = Self { sequence: self.sequence, ..Self::open()? };
        Ok(false)
    }
}

fn failed(cause: rustix::io::Errno) -> Error {
    Error::new(format!("socket monitor: {cause}"))
}
