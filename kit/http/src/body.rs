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
pub(crate) struct BodyReader<R> {
    pub(crate) inner: R,
    pub(crate) silence: Option<Duration>,
    pub(crate) least: Option<LeastRate>,
    /// How long bytes were waited for, and how many came in that time. What whoever reads does between two reads is not the server's.
    pub(crate) waited: (Duration, u64),
}

impl<R: Read> Read for BodyReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let begun = Instant::now();
        let count = self.inner.read(buffer).map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            let stalled = inner.and_then(|error| worded(error, self.silence));
            stalled.map_or(error, timed_out)
        })?;
        let (before, came) = self.waited;
        let (waited, came) = (before + begun.elapsed(), came + count as u64);
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
    use std::thread::sleep;

    use super::*;

    /// A server that has a byte after each so long.
    struct Every(Duration);

    impl Read for Every {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            sleep(self.0);
            buffer[..1].fill(b'x');
            Ok(1)
        }
    }

    fn reader(every: Duration) -> BodyReader<Every> {
        BodyReader {
            inner: Every(every),
            silence: None,
            least: Some(LeastRate {
                bytes: 100,
                within: Duration::from_millis(200),
            }),
            waited: (Duration::ZERO, 0),
        }
    }

    #[test]
    fn who_reads_slowly_is_not_taken_for_a_server_that_drips() {
        let mut body = reader(Duration::ZERO);
        for _ in 0..6 {
            assert_eq!(body.read(&mut [0]).unwrap(), 1);
            sleep(Duration::from_millis(50));
        }
        let mut body = reader(Duration::from_millis(50));
        let error = (0..6).find_map(|_| body.read(&mut [0]).err()).unwrap();
        assert!(error.to_string().contains("bytes came in 0 s"), "{error}");
    }
}
