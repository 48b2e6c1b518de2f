//! One error type for every Feedline crate: a place, a value, and what to do next.

use std::fmt;

/// What went wrong, where, and what to type next.
///
/// The message is lower case without a final period and names the place and the value; the hint,
/// where there is one, is the next step. The binary prints them as `error: …` and `hint: …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Place and value, for example ``proc/diskstats:3: expected sectors read, found `x` ``.
    pub message: String,
    /// The next step, for example ``feedline ps lists training jobs``.
    pub hint: Option<String>,
}

/// The result of anything in Feedline that can fail.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error that names a place and a value.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// The same error with a next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with its place in front.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// An input or output failure at a named place.
    pub fn io(place: impl fmt::Display, cause: &std::io::Error) -> Self {
        Self::new(format!("{place}: {cause}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_place_value_and_next_step() {
        let error = Error::new("expected sectors read, found `x`").at("proc/diskstats:3").hint("is this a Linux root?");
        assert_eq!(
            error.to_string(),
            "proc/diskstats:3: expected sectors read, found `x`\nhint: is this a Linux root?"
        );
    }
}
