//! The network: interfaces, TCP, the connections of the job, InfiniBand and RoCE ports.

pub mod diag;
mod infiniband;
mod interface;
mod netlink;
pub mod parse;
mod socket;
mod tcp;

pub use infiniband::{Infiniband, InfinibandRow};
pub use interface::{InterfaceRow, Interfaces};
pub use socket::{SocketRow, Sockets};
pub use tcp::{Tcp, TcpRow};
