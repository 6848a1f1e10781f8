//! What the real `faketime` leaves behind when it is killed.
//!
//! What comes in: nothing. What goes out: its shared memory and semaphores are gone where their process is. It starts nothing.

use std::fs;
use std::path::Path;

/// Where `faketime` keeps its shared memory and its semaphore.
const SHARED: &str = "/dev/shm";

/// Removes what ended ones left: it is named by the process, and another one of the same number would not start.
pub fn sweep() {
    for entry in fs::read_dir(SHARED).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let mut kinds = ["sem.faketime_sem_", "faketime_shm_"].iter();
        let process = kinds.find_map(|prefix| name.strip_prefix(prefix));
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            // Another test may have done it.
            let _ = fs::remove_file(entry.path());
        }
    }
}
