//! What it means that a request has no answer.
//!
//! What comes in: an error of a connection. What goes out: whether the server may have got the request, and which error it is for our
//! programs. It sends nothing.

use std::io;

use crate::error::HttpError;
use crate::outside::Inside;

/// A request that had no answer, for the reason `problem`.
pub(crate) fn not_answered(url: &str, error: &ureq::Error, problem: String) -> HttpError {
    let url = url.to_owned();
    if let ureq::Error::Other(other) = error
        && let Some(Inside { host, what }) = other.downcast_ref()
    {
        let (host, what) = (host.clone(), *what);
        return HttpError::Inside { url, host, what };
    }
    match error {
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            HttpError::Refused { url, problem }
        }
        ureq::Error::Io(error) if is_of_a_certificate(error) => {
            HttpError::Certificate { url, problem }
        }
        error if is_before_a_connection(error) => HttpError::NotSent { url, problem },
        _ => HttpError::Failed { url, problem },
    }
}

/// Whether an error can only come before a connection stands. What may come later, too, is not one: it is safer to treat a request as sent.
/// That a network or a host is unreachable is said of a standing connection only when the kernel gives up sending again, after minutes:
/// our own time limits end it before.
fn is_before_a_connection(error: &ureq::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkUnreachable};
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::InvalidProxyUrl
        | ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => true,
        ureq::Error::Io(error) => {
            [AddrNotAvailable, HostUnreachable, NetworkUnreachable].contains(&error.kind())
                || is_of_a_lookup(error)
        }
        _ => false,
    }
}

/// Whether a name has no address: the standard library gives that no kind of its own, only this text.
fn is_of_a_lookup(error: &io::Error) -> bool {
    let text = error.to_string();
    text.starts_with("failed to lookup address information")
}

fn is_of_a_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

/// Whether the server closed the connection before an answer began.
pub(crate) fn is_closed(error: &ureq::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let closed = [
        BrokenPipe,
        ConnectionAborted,
        ConnectionReset,
        UnexpectedEof,
    ];
    matches!(error, ureq::Error::Io(error) if closed.contains(&error.kind()))
}
