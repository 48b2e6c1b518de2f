//! Messages between libkineto and its daemon, as dynolog's `ipcfabric` frames them: one datagram a
//! message, 8 bytes of payload size, 32 bytes of type, then the payload, in the machine's byte order.

use feedline_traces::{Error, Result};

/// Bytes before the payload.
pub const HEAD: usize = 40;
/// The longest message that is read: far more than a process with its ancestors needs.
pub const LONGEST: usize = 4096;
/// Ancestors that are looked at.
const PIDS: usize = 64;

/// What a profiled process says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// It is here, and wants to know how many others use its device.
    Register {
        /// Number of its device.
        gpu: i32,
        /// Its pid as it knows itself.
        pid: u32,
    },
    /// It asks whether it should profile.
    Ask {
        /// Bits of what it could be told to do; see [`ACTIVITIES`].
        kinds: i32,
        /// Its pid, and those of its ancestors.
        pids: Vec<u32>,
    },
}

/// The bit of [`Message::Ask`] for a trace of activities.
pub const ACTIVITIES: i32 = 2;

/// One message.
///
/// # Errors
/// When the bytes are none of the two that libkineto sends.
pub fn message(bytes: &[u8]) -> Result<Message> {
    let wrong = |what: &str| Error::new(format!("kineto message: {what}"));
    let size = bytes.get(..8).and_then(|b| b.try_into().ok()).map(u64::from_ne_bytes);
    let kind = bytes.get(8..HEAD).ok_or_else(|| wrong("cut short in its head"))?;
    let kind = kind.split(|byte| *byte == 0).next().unwrap_or_default();
    let body = &bytes[HEAD..];
    if size != u64::try_from(body.len()).ok() {
        return Err(wrong("its size is not what follows"));
    }
    let word = |index: usize| body.get(index * 4..index * 4 + 4)?.try_into().ok().map(i32::from_ne_bytes);
    let pid = |index: usize| word(index).and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0);
    match kind {
        b"ctxt" => match (word(0), pid(1)) {
            (Some(gpu), Some(pid)) => Ok(Message::Register { gpu, pid }),
            _ => Err(wrong("expected a device and a pid")),
        },
        b"req" => {
            let (Some(kinds), Some(count)) = (word(0), word(1)) else {
                return Err(wrong("expected kinds and a count"));
            };
            // Two words of job id stand before the pids.
            let count = usize::try_from(count).unwrap_or(0).min(PIDS);
            let pids: Vec<u32> = (0..count).map_while(|index| pid(4 + index)).collect();
            if pids.is_empty() { Err(wrong("expected pids")) } else { Ok(Message::Ask { kinds, pids }) }
        }
        _ => Err(wrong("expected `ctxt` or `req`")),
    }
}

/// The answer to a [`Message::Register`].
#[must_use]
pub fn registered(others: i32) -> Vec<u8> {
    framed(b"ctxt", &others.to_ne_bytes())
}

/// The answer to a [`Message::Ask`]: lines of `KEY=VALUE`, or nothing.
#[must_use]
pub fn told(orders: &str) -> Vec<u8> {
    framed(b"req", orders.as_bytes())
}

fn framed(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + body.len());
    out.extend_from_slice(&(body.len() as u64).to_ne_bytes());
    out.extend_from_slice(kind);
    out.resize(HEAD, 0);
    out.extend_from_slice(body);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[i32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn what_libkineto_sends_is_understood() {
        let register = framed(b"ctxt", &words(&[3, 4242, 0, 0]));
        assert_eq!(message(&register).unwrap(), Message::Register { gpu: 3, pid: 4242 });
        let ask = framed(b"req", &words(&[2, 3, 99, 0, 4242, 4200, 1]));
        assert_eq!(message(&ask).unwrap(), Message::Ask { kinds: ACTIVITIES, pids: vec![4242, 4200, 1] });
    }

    #[test]
    fn what_lies_about_itself_is_refused() {
        let ask = framed(b"req", &words(&[2, 1_000_000, 0, 0, 7]));
        assert_eq!(message(&ask).unwrap(), Message::Ask { kinds: 2, pids: vec![7] });
        let mut long = ask.clone();
        long[0] = 0xff;
        for bad in [&ask[..39], &long, &framed(b"req", &words(&[2, 1, 0, 0, -7])), &framed(b"quit", b""), b""] {
            assert!(message(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_answer_is_framed_like_a_question() {
        let answer = told("ACTIVITIES_DURATION_MSECS=500");
        assert_eq!((answer.len(), answer[0], &answer[8..12]), (HEAD + 29, 29, &b"req\0"[..]));
        assert_eq!(&registered(1)[HEAD..], 1_i32.to_ne_bytes());
    }
}
