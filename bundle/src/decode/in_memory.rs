//! Contents kept in memory while a blob is decoded.
//!
//! What comes in: bytes, under the key that their caller has for them. What goes out: all of them, when reading is over.
//! It bounds nothing: whoever asks for a writer knows how large a content is.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::rc::Rc;

/// Contents by key; a copy of it is the same memory.
#[derive(Debug, Clone)]
pub struct InMemory<K>(Rc<RefCell<BTreeMap<K, Vec<u8>>>>);

impl<K> Default for InMemory<K> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<K: Ord + Clone + 'static> InMemory<K> {
    /// Where the content of `key` goes.
    pub fn writer(&self, key: K) -> Box<dyn Write> {
        Box::new(Writer {
            key,
            all: self.clone(),
        })
    }

    /// Forgets the content of `key`.
    pub fn remove(&self, key: &K) {
        self.0.borrow_mut().remove(key);
    }

    /// Shows the content of `key` to `look`.
    pub fn with<T>(&self, key: &K, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.0.borrow().get(key).map(|bytes| look(bytes))
    }

    /// Everything that was kept; nothing is kept any more then.
    pub fn take(&self) -> BTreeMap<K, Vec<u8>> {
        self.0.take()
    }
}

struct Writer<K> {
    key: K,
    all: InMemory<K>,
}

impl<K: Ord + Clone> Write for Writer<K> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.all.0.borrow_mut();
        let kept = all.entry(self.key.clone()).or_default();
        kept.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
