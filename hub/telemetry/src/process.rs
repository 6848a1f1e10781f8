//! What the kernel knows of this process: memory, time on processors, open files.
//!
//! What comes in: `/proc/self`. What goes out: numbers; what cannot be read is left out, for a metric is no reason to fail.

use std::fs;

/// The kernel counts time on processors for programs in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// This process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Process {
    /// Memory in RAM, in bytes.
    pub resident_bytes: Option<u64>,
    /// Address space, in bytes.
    pub virtual_bytes: Option<u64>,
    /// Time on processors, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Open files and connections.
    pub open_files: Option<u64>,
    /// How many it may open.
    pub max_files: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
}

impl Process {
    /// Reads it now.
    pub fn read() -> Self {
        let text = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).ok();
        let found = Self::parse(
            &text("status").unwrap_or_default(),
            &text("stat").unwrap_or_default(),
            &text("limits").unwrap_or_default(),
        );
        let files = fs::read_dir("/proc/self/fd").ok();
        Self {
            // One of them is the folder that is being listed.
            open_files: files.map(|files| (files.count() as u64).saturating_sub(1)),
            ..found
        }
    }

    fn parse(status: &str, stat: &str, limits: &str) -> Self {
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let ticks = || {
            // The program's name stands in brackets, and may hold some.
            let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
            let (user, system): (f64, f64) =
                (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            Some(user + system)
        };
        let max = || {
            let line = limits
                .lines()
                .find_map(|line| line.strip_prefix("Max open files"))?;
            line.split_whitespace().next()?.parse().ok()
        };
        Self {
            resident_bytes: of("VmRSS:").map(|kilobytes| kilobytes * 1024),
            virtual_bytes: of("VmSize:").map(|kilobytes| kilobytes * 1024),
            cpu_seconds: ticks().map(|ticks| ticks / TICKS_PER_SECOND),
            open_files: None,
            max_files: max(),
            threads: of("Threads:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_read_and_what_is_missing_is_left_out() {
        let status = "Name:\thub\nVmSize:\t   20480 kB\nVmRSS:\t    1024 kB\nThreads:\t7\n";
        let stat = "12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 7 0 100";
        let limits = "Limit   Soft Limit  Hard Limit  Units\nMax open files            1024      4096      files\n";
        let found = Process::parse(status, stat, limits);
        assert_eq!(found.resident_bytes, Some(1024 * 1024));
        assert_eq!(found.virtual_bytes, Some(20480 * 1024));
        assert_eq!((found.cpu_seconds, found.threads), (Some(2.0), Some(7)));
        assert_eq!(found.max_files, Some(1024));
        assert_eq!(
            Process::parse("", "", "Max open files unlimited"),
            Process::default()
        );
        let now = Process::read();
        assert!(now.resident_bytes.is_some() && now.open_files.is_some());
    }
}
