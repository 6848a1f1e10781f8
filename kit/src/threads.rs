//! Many small pieces of work, on as many threads as are worth it.
//!
//! What comes in: items, and what is to be done with each. What goes out: what came of each, in the order
//! of the items, however many threads there were. It knows nothing of what is done.

use std::num::NonZeroUsize;

/// Fewest items that are worth another thread.
const ITEMS_PER_THREAD: usize = 256;
/// Most threads: beyond these the disk is what one waits for.
const MAX_THREADS: usize = 8;

/// `work` done with each of `items`.
pub fn each<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = processors
        .min(MAX_THREADS)
        .min(items.len() / ITEMS_PER_THREAD);
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let share = items.len().div_ceil(threads);
    let mut all = Vec::with_capacity(items.len());
    let mut items = items.into_iter();
    let work = &work;
    let parts: Vec<Vec<R>> = std::thread::scope(|scope| {
        let mut others = Vec::new();
        let own: Vec<T> = items.by_ref().take(share).collect();
        for _ in 1..threads {
            let part: Vec<T> = items.by_ref().take(share).collect();
            others.push(scope.spawn(move || part.into_iter().map(work).collect()));
        }
        let mut done: Vec<Vec<R>> = vec![own.into_iter().map(work).collect()];
        for other in others {
            match other.join() {
                Ok(part) => done.push(part),
                // A fault of the program is told as one.
                Err(fault) => std::panic::resume_unwind(fault),
            }
        }
        done
    });
    for part in parts {
        all.extend(part);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_items_however_many_there_are() {
        for count in [0, 1, 255, 511, 512, 513, 5_000] {
            let items: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
            assert_eq!(each(items, |item| item * 2), doubled);
        }
    }
}
