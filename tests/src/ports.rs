//! Ports for servers that have to be told theirs before they start.
//!
//! What comes in: nothing. What goes out: a port on which nothing listens, that this process gives to nobody else. It lies below those that
//! the system gives to connections and to whoever asks for any: what is chosen here is not taken until the server has it.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Result, bail};

/// Below the range of Linux's own choice, which begins at 32768 (`net.ipv4.ip_local_port_range`).
const FIRST: u16 = 12_000;
const NUMBER: u16 = 20_000;

/// How many were tried in this process.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// A port that is free now, and stays so but for a server of another process that is given the same number.
///
/// # Errors
/// When none is left.
pub fn free_port() -> Result<u16> {
    // Test programs that run at one time begin at different places.
    let begin = process::id().wrapping_mul(1_009) % u32::from(NUMBER);
    loop {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        if tried >= NUMBER {
            bail!("no free port from {FIRST} on");
        }
        let at = (begin + u32::from(tried)) % u32::from(NUMBER);
        let port = FIRST + u16::try_from(at)?;
        // On every address: a server that listens on one of them is in the way, too.
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return Ok(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once_and_none_that_is_taken() {
        let first = free_port().unwrap();
        let _held = TcpListener::bind(("127.0.0.1", first)).unwrap();
        let others: Vec<u16> = (0..50).map(|_| free_port().unwrap()).collect();
        assert!(others.iter().all(|port| *port != first && *port < 32_768));
        let distinct: std::collections::BTreeSet<&u16> = others.iter().collect();
        assert_eq!(distinct.len(), others.len());
    }
}
