//! How long work takes, by the clock and of processors.
//!
//! What comes in: a closure, or many figures. What goes out: [`Took`] for one call; the least and the
//! median of many. Processor time counts every thread; it is what stays comparable when other programs
//! run on the machine. The kernel tells it in hundredths of a second: sum over many calls.

use std::fs;
use std::time::Instant;

/// What a piece of work took, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Took {
    /// By the clock.
    pub wall: f64,
    /// Of all processors together.
    pub cpu: f64,
}

/// Runs it.
pub fn took<T>(work: impl FnOnce() -> T) -> (Took, T) {
    timed(11, work)
}

/// Runs something that starts programs and waits for them; theirs is the processor time.
pub fn took_by_children<T>(work: impl FnOnce() -> T) -> (Took, T) {
    timed(13, work)
}

fn timed<T>(field: usize, work: impl FnOnce() -> T) -> (Took, T) {
    let (start, cpu) = (Instant::now(), processor_seconds(field));
    let made = work();
    let wall = start.elapsed().as_secs_f64();
    let cpu = processor_seconds(field) - cpu;
    (Took { wall, cpu }, made)
}

/// What was used so far; 0 where `/proc` does not say. Of the fields after the program's name, the 11th
/// and 12th (from 0) are this process, the two behind them the programs that it waited for.
fn processor_seconds(field: usize) -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may hold anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after_name.split_whitespace().skip(field).take(2);
    ticks.filter_map(|one| one.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The least of some figures, and their median.
pub fn least_and_median(figures: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let mut sorted: Vec<f64> = figures.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    (sorted[0], sorted[sorted.len() / 2])
}

/// The mean of some figures.
pub fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}
