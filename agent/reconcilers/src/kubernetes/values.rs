//! What was sealed in objects that are to be removed: what must not be shown of them.
//!
//! What comes in: rows of the inventory, and the generations that wrote them, as they are kept. What goes out:
//! the values that were opened for them, to be struck out. Where a generation is gone, so are its values, and
//! with them whatever the server says of such an object.

use std::collections::BTreeSet;

use outhaul_bundle::report::StepResult;
use zeroize::Zeroizing;

use super::ownership::OwnershipRecord;
use crate::context::ReconcilerContext;
use crate::inventory::Item;
use crate::sealed::struck_out;

/// What is known of sealed values.
pub struct Values {
    values: Vec<Zeroizing<String>>,
    /// Whether these are all.
    all: bool,
}

/// The values of the generations that recorded `items`, as far as they can still be opened.
pub fn of_recorded(site: &dyn ReconcilerContext, items: &[Item]) -> Values {
    let (mut values, mut all) = (Vec::new(), true);
    let sources: BTreeSet<(u64, &str, Option<String>)> = items
        .iter()
        .map(|item| {
            let owner = OwnershipRecord::parse(&item.digest).and_then(|mark| mark.owner.site);
            (item.generation, item.assignment.as_str(), owner)
        })
        .collect();
    for (generation, assignment, owner) in sources {
        match of_generation(site, generation, assignment, owner.as_deref()) {
            Some(more) => values.extend(more),
            None => all = false,
        }
    }
    Values { values, all }
}

fn of_generation(
    site: &dyn ReconcilerContext,
    number: u64,
    assignment: &str,
    owner: Option<&str>,
) -> Option<Vec<Zeroizing<String>>> {
    let desired = site.earlier(number, assignment, owner?)?;
    let keys = site.keys().ok()?;
    let mut values = Vec::new();
    for (_, path, shown) in desired.files() {
        let opened = keys.open_file(&path, &shown, &desired.binding()).ok()?;
        values.extend(opened.into_iter().flat_map(|opened| opened.values));
    }
    Some(values)
}

impl Values {
    /// Those that are known.
    pub fn known(&self) -> &[Zeroizing<String>] {
        &self.values
    }

    /// Steps without any value.
    pub fn strike_out_of(&self, mut steps: Vec<StepResult>) -> Vec<StepResult> {
        for step in &mut steps {
            step.name = struck_out(&step.name, &self.values);
            step.message = struck_out(&step.message, &self.values);
            if !self.all && step.status == "failed" {
                "the API server refuses; its words are not shown, because what was sealed in this object is \
                 not known any more: see the server's own log"
                    .clone_into(&mut step.message);
            }
        }
        steps
    }
}
