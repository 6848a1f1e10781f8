//! The body of an answer as it comes, which may neither stop nor drip.
//!
//! What comes in: a body, the longest time without a byte, and how many bytes have to come in which time. What goes out: its bytes, or an
//! error that says which of both it did not keep. It bounds neither its size nor, by itself, its whole time.

use std::fmt;
use std::io::{self, Read};
use std::time::{Duration, Instant};

/// How many bytes must come at least in which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastRate {
    /// Bytes.
    pub bytes: u64,
    /// In how much time.
    pub within: Duration,
}

/// Why a body is not waited for any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stalled {
    /// Nothing came for so long.
    Silent(Duration),
    /// The server took nothing for so long.
    NotTaken(Duration),
    /// Less came than it must.
    Drips(u64, LeastRate),
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(time) => write!(f, "no byte came for {} s", time.as_secs()),
            Self::NotTaken(time) => write!(f, "no byte was accepted for {} s", time.as_secs()),
            Self::Drips(came, least) => {
                write!(f, "only {came} bytes came in {} s", least.within.as_secs())
            }
        }
    }
}

impl std::error::Error for Stalled {}

/// An error of a connection, in words where it stopped.
pub(crate) fn worded(error: &ureq::Error, silence: Option<Duration>) -> Option<Stalled> {
    match error {
        ureq::Error::Timeout(ureq::Timeout::PerRead) => silence.map(Stalled::Silent),
        ureq::Error::Timeout(ureq::Timeout::PerWrite) => silence.map(Stalled::NotTaken),
        _ => None,
    }
}

/// A body that is being read.
pub(crate) struct BodyReader<R, C = fn() -> Instant> {
    inner: R,
    /// Gives the time.
    clock: C,
    silence: Option<Duration>,
    least: Option<LeastRate>,
    /// How long bytes were waited for, and how many came in that time. What whoever reads does between two reads is not the server's.
    waited: (Duration, u64),
}

impl<R> BodyReader<R> {
    /// The body of which `inner` has the bytes: none may take longer than `silence`, and no fewer may come than `least` says.
    pub(crate) fn new(inner: R, silence: Option<Duration>, least: Option<LeastRate>) -> Self {
        Self {
            inner,
            clock: Instant::now,
            silence,
            least,
            waited: (Duration::ZERO, 0),
        }
    }
}

impl<R: Read, C: Fn() -> Instant> Read for BodyReader<R, C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let begun = (self.clock)();
        let count = self.inner.read(buffer).map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            let stalled = inner.and_then(|error| worded(error, self.silence));
            stalled.map_or(error, timed_out)
        })?;
        let (before, came) = self.waited;
        let (waited, came) = (
            before + (self.clock)().duration_since(begun),
            came + count as u64,
        );
        self.waited = (waited, came);
        if let Some(least) = self.least
            && waited >= least.within
            && count > 0
        {
            if came < least.bytes {
                return Err(timed_out(Stalled::Drips(came, least)));
            }
            self.waited = (Duration::ZERO, 0);
        }
        Ok(count)
    }
}

fn timed_out(stalled: Stalled) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, stalled)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A server that has a byte after each so long, by a clock that nothing but the test moves.
    struct Every<'c>(Duration, &'c Cell<Instant>);

    impl Read for Every<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1.set(self.1.get() + self.0);
            buffer[..1].fill(b'x');
            Ok(1)
        }
    }

    /// Which of six reads is the first to fail, and with what, where the server takes `every` for a byte and whoever reads takes `pause` between
    /// two of them.
    fn first_failed(every: Duration, pause: Duration) -> Option<(usize, String)> {
        let now = Cell::new(Instant::now());
        let mut body = BodyReader {
            inner: Every(every, &now),
            clock: || now.get(),
            silence: None,
            least: Some(LeastRate {
                bytes: 100,
                within: Duration::from_secs(4),
            }),
            waited: (Duration::ZERO, 0),
        };
        (1..=6).find_map(|read| {
            let failed = body.read(&mut [0]).err();
            now.set(now.get() + pause);
            failed.map(|error| (read, error.to_string()))
        })
    }

    #[test]
    fn who_reads_slowly_is_not_taken_for_a_server_that_drips() {
        let second = Duration::from_secs(1);
        assert_eq!(first_failed(Duration::ZERO, second), None);
        let dripped = (4, "only 4 bytes came in 4 s".to_owned());
        assert_eq!(first_failed(second, Duration::ZERO), Some(dripped.clone()));
        assert_eq!(first_failed(second, second), Some(dripped));
    }
}
