//! Destination: where a rendered platform goes, and the one way there.
//!
//! What comes in: a [`Destination`]: a folder, a branch, a pull request, a stream. What goes out: what came of it.
//! Always in the same order: the last record is read, the [`Plan`] is made of it, what it may not do stops
//! it, and only then is anything written and recorded. It knows none of them.

use outhaul_record::guard::Removal;
use outhaul_record::plan::{self, DesiredContent, Plan, Shipped};

/// Where a rendered platform goes.
pub trait Destination {
    /// What its record says of the last run.
    type Shipped: Shipped;
    /// What came of it.
    type Done;
    /// Why nothing came of it; it is then as it was.
    type Error: From<Removal>;

    /// How often it is read again, when someone else wrote to it meanwhile.
    const ATTEMPTS: usize = 1;

    /// What should be there.
    fn wanted(&self) -> DesiredContent<'_>;

    /// Reads what is there.
    ///
    /// # Errors
    /// When it cannot be read, or is someone else's.
    fn read(&mut self) -> Result<Self::Shipped, Self::Error>;

    /// The error when nothing is sound and nothing ever was; `None` where that is not one.
    fn all_broken(&self) -> Option<Self::Error>;

    /// Compares, writes and records.
    ///
    /// # Errors
    /// When it cannot be written.
    fn commit(
        &mut self,
        shipped: Self::Shipped,
        plan: Plan<Content<Self>>,
    ) -> Result<Committed<Self::Done, Self::Error>, Self::Error>;
}

/// What stays of a broken assignment at a destination.
type Content<D> = <<D as Destination>::Shipped as Shipped>::Content;

/// What is there, and what becomes of it.
type Planned<D> = (<D as Destination>::Shipped, Plan<Content<D>>);

/// What became of a commit.
#[derive(Debug)]
pub enum Committed<T, E> {
    /// It is done.
    Done(T),
    /// Someone else wrote meanwhile; the error when it happens too often.
    Overtaken(E),
}

/// Reads what is there and plans; nothing is written.
///
/// # Errors
/// When it cannot be read, or the plan may not be.
pub fn planned<D: Destination>(destination: &mut D) -> Result<Planned<D>, D::Error> {
    let mut shipped = destination.read()?;
    let mut plan = plan::plan(&destination.wanted(), &mut shipped);
    if plan.is_void()
        && let Some(error) = destination.all_broken()
    {
        return Err(error);
    }
    std::mem::replace(&mut plan.removal, Ok(()))?;
    Ok((shipped, plan))
}

/// Brings what is wanted to `destination`.
///
/// # Errors
/// [`Destination::Error`]; it is then as it was.
pub fn ship<D: Destination>(mut destination: D) -> Result<D::Done, D::Error> {
    let mut attempts = 1;
    loop {
        let (shipped, plan) = planned(&mut destination)?;
        match destination.commit(shipped, plan)? {
            Committed::Done(done) => return Ok(done),
            Committed::Overtaken(error) if attempts >= D::ATTEMPTS => return Err(error),
            Committed::Overtaken(_) => attempts += 1,
        }
    }
}
