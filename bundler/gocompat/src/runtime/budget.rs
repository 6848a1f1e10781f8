//! The budget of one rendering, and what a step can fail with.
//!
//! In: charges for steps and bytes from the engine, the functions and the writers.
//! Out: a [`Fault`] once a limit is reached. A budget is never refilled, so the sum over
//! all rounds of a rendering is bounded, whatever the template does.

use std::cell::Cell;

/// Why a function or a walk over a value could not finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Go returns an error or panics; its words.
    Go(String),
    /// A limit of this rendering.
    Limit(&'static str),
    /// A missing value was used in the default mode.
    Undefined(String),
    /// A function that would read the clock or the host.
    Refused(String),
}

pub(crate) type RuntimeResult<T> = Result<T, Fault>;

impl Fault {
    pub fn go<T>(message: impl Into<String>) -> RuntimeResult<T> {
        Err(Self::Go(message.into()))
    }
}

/// What is left to spend.
#[derive(Debug)]
pub(crate) struct Budget {
    steps: Cell<u64>,
    bytes: Cell<u64>,
}

/// Depth to which walks follow a value: all that the decoders allow, and what a template may
/// put around it.
const MAX_DEPTH: usize = 200;

impl Budget {
    pub fn new(steps: u64, bytes: u64) -> Self {
        Self {
            steps: Cell::new(steps),
            bytes: Cell::new(bytes),
        }
    }

    /// For values that came from a bounded decoder: no limit but that of depth.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX, u64::MAX)
    }

    pub fn steps(&self, count: u64) -> RuntimeResult<()> {
        let left = self.steps.get().checked_sub(count);
        let left = left.ok_or(Fault::Limit("the limit of steps"))?;
        self.steps.set(left);
        Ok(())
    }

    /// Charges bytes before they are allocated.
    pub fn bytes(&self, count: usize) -> RuntimeResult<()> {
        let left = self.bytes.get().checked_sub(count as u64);
        let left = left.ok_or(Fault::Limit("the limit of bytes"))?;
        self.bytes.set(left);
        Ok(())
    }

    /// Charges a list of that many values.
    pub fn values(&self, count: usize) -> RuntimeResult<()> {
        self.bytes(count.saturating_mul(size_of::<super::Value>()))
    }

    /// One visited value at that depth.
    pub fn visit(&self, depth: usize) -> RuntimeResult<()> {
        if depth > MAX_DEPTH {
            return Err(Fault::Limit("the limit of depth"));
        }
        self.steps(1)
    }
}
