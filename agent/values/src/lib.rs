//! Values that belong to the site: which of them a bundle takes, and the files that hold them.
//!
//! What comes in: what a person on site gave, and an assignment that signed metadata lists. What goes out: the
//! assignment with the site's values in the one file that has them, for any reconciler; what is not taken, and
//! why. It knows no database, no machine, and no reconciler's business.

pub mod checked;
pub mod file;
pub mod given;
pub mod reconciler;

pub use checked::{CheckedValues, check_values};
pub use given::{GivenValue, GivenValues};
pub use reconciler::WithSiteValues;
